"""The rollouts of a row with the follow-ups of its conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest

from judgegym.engine.completions import Completion
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.sampling import roll_out
from judgegym.environments.rollouts.sources import open_source
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.environments.training.pipeline import GroupPipeline
from judgegym.judges.core.judgment import Judgment, ScoreParts, Status
from judgegym.llm.errors import EndpointError, FailureKind, JudgeGymError, SettingsError
from tests.core.environments.words import Word, WordsEnv, opened
from tests.scripted import Json, Meeting, Reply, Script, completion
from tests.talks import TalkEnv, Talker, name_in, says, turn_of

ROW = Word("row-0")
CHAT = "--env.token_source=chat"


class ConfusedUser(JudgeGymError):
    """The simulated user has said nothing that can be used."""


class AskedEnv(TalkEnv):
    """Its user fails after an answer that says so, and its judge keeps what it was shown."""

    @cached_property
    def shown(self) -> list[list[str]]:
        return []

    async def follow_up(self, task: Word, completions: Sequence[Completion]) -> str | None:
        if "lost" in completions[-1].answer:
            raise EndpointError(FailureKind.BROKEN, endpoint="http://user", answer="gone")
        if "confused" in completions[-1].answer:
            raise ConfusedUser("the user said nothing")
        if "wrong" in completions[-1].answer:
            raise SettingsError("--env.user: unknown")
        return await super().follow_up(task, completions)

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[ScoreParts]:
        self.shown.append([said.answer for said in completions])
        return await super().judge(task, completions)


async def rolled(
    script: Script, *flags: str, env_type: type[JudgedEnv[Any, Any, Any]] = AskedEnv
) -> tuple[JudgedGroup, Any, list[Json]]:
    """A group of four, its environment, and what the policy was asked."""
    async with opened(script, CHAT, *flags, verb="serve", env_type=env_type) as (env, endpoint):
        source = open_source(env.settings, env.clients, Retokenizer(env.settings.tokenizer))
        return await roll_out(env, source.sample, ROW), env, endpoint.bodies


def rounded(group: JudgedGroup) -> tuple[float | None, ...]:
    return tuple(None if reward is None else round(reward, 9) for reward in group.rewards)


async def test_the_first_turn_is_one_request_and_later_ones_are_asked_at_once() -> None:
    talker, meetings = Talker(says(1)), {2: Meeting(3), 3: Meeting(3)}

    async def script(request: Json, number: int) -> Reply:
        if (turn := turn_of(request)) > 1:
            await meetings[turn].wait()
        return talker(request, number)

    group, env, asked = await rolled(script)
    assert [(turn_of(each), each.get("n", 1)) for each in asked] == [(1, 4)] + [(2, 1)] * 3 + [
        (3, 1)
    ] * 3
    assert [len(rollout.turns) for rollout in group.rollouts] == [1, 3, 3, 3]
    last = group.rollouts[1].completions
    assert [said.follow_up for said in last] == ["", "Go on after 1.", "Go on after 2."]
    assert sorted(env.shown)[:2] == [
        ["a1 is worth 0, goodbye"],
        [f"b{turn} is worth 1" for turn in (1, 2, 3)],
    ]
    assert rounded(group) == (0.0, 0.1, 0.2, 0.3)
    assert group.policy_run.attempts == len(asked)
    assert group.policy_run.usage.prompt_tokens == 10 * len(asked)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("b is lost", "http://user: broken"),
        ("b is confused", "the user said nothing"),
        ("b is rejected", "rejected HTTP 400"),
        ("b comes without tokens", "no token ids"),
    ],
)
async def test_a_rollout_that_breaks_off_has_no_score_and_the_others_stay(
    line: str, why: str
) -> None:
    talker = Talker(lambda turn, name: line if name == "b" else says(2, 2, 2, 2)(turn, name))

    def script(request: Json, number: int) -> Reply:
        if turn_of(request) == 2 and name_in(request) == "b":
            return Reply(status=400) if "rejected" in line else Reply(body=completion("b2"))
        return talker(request, number)

    group, env, _ = await rolled(script)
    assert rounded(group) == (0.0, None, 0.2, 0.3)
    assert group.judgments[1].status is Status.JUDGE_FAILED
    assert why in group.judgments[1].explanation
    assert all(said[0] != line for said in env.shown), "nobody judges it"
    (sent,) = group.posts(env.config)
    assert sent.data(env.config)["overrides"] == [{}, {"set_advantage_to_zero": True}, {}, {}]
    metrics = TrainingMetrics(env)
    metrics.record_group(ROW, group)
    values = metrics.flush(max_token_len=-1).values
    assert (values["train/broken_off_rate"], values["train/judge_error_rate"]) == (0.25, 0.0)
    assert (values["train/turns_mean"], values["train/one_sequence_rate"]) == (1.75, 1.0)


async def test_what_the_user_of_the_command_must_correct_ends_the_run() -> None:
    with pytest.raises(SettingsError, match="unknown"):
        await rolled(Talker(lambda turn, name: f"{name} is wrong"))


async def test_a_reward_by_turn_of_a_malformed_turn_is_that_of_the_settings() -> None:
    talker = Talker(
        lambda turn, name: "refused" if (turn, name) == (2, "b") else says(2, 1, 3, 3)(turn, name)
    )
    flags = "--env.reward_by=turn", "--env.invalid_thinking_reward=-1"
    group, env, _ = await rolled(talker, *flags)
    first, second = group.posts(env.config)[:2]
    assert rounded(first) == (0.0, 0.1, 0.2, 0.3), "it said goodbye in the first turn"
    assert second.ended == {1}
    group, env, _ = await rolled(
        Talker(lambda turn, name: "refused" if (turn, name) == (2, "b") else says()(turn, name)),
        *flags,
    )
    assert [rounded(turn) for turn in group.turns] == [
        (0.0, None, 0.2, 0.3),
        (0.0, -1.0, 0.2, 0.3),
        (0.0, None, 0.2, 0.3),
    ]


class Silent(TalkEnv):
    """Its judgments have no scores of turns."""

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[ScoreParts]:
        return replace(await super().judge(task, completions), detail=ScoreParts({"raw": 1.0}))


@pytest.mark.parametrize(("env_type", "is_told_at_once"), [(WordsEnv, True), (Silent, False)])
async def test_a_reward_by_turn_needs_scores_of_turns(
    env_type: type[JudgedEnv[Any, Any, Any]], is_told_at_once: bool
) -> None:
    async with opened(
        Talker(says()), CHAT, "--env.reward_by=turn", verb="serve", env_type=env_type
    ) as (env, endpoint):
        source = open_source(env.settings, env.clients, Retokenizer(env.settings.tokenizer))
        with pytest.raises(SettingsError, match=r"--env\.reward_by: .*no score .*turn"):
            await GroupPipeline(env, source, TrainingMetrics(env)).run(ROW, pytest.fail)
        assert (endpoint.requests == []) is is_told_at_once
