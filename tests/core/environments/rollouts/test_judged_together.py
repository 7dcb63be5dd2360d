"""Completions of a group that are judged against each other: who is shown to the judge, and what a failure costs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from atroposlib.api.server import ScoredData

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings import EnvConfig
from judgegym.engine.settings.group_judge import GroupJudgeSettings
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.environments.rollouts.judging import GroupComparison, judge_together
from judgegym.environments.spec import EnvSpec
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.environments.training.pipeline import GroupPipeline
from judgegym.judges.core.group import (
    GroupInProgress,
    GroupJudgment,
    Look,
    MemberDetail,
    OrderAgreement,
)
from judgegym.judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from tests.core.environments.rollouts_of import rollout
from tests.core.environments.training.test_pipeline import Fixed
from tests.core.environments.words import Said, Word, WordsEnv, opened, speaking

TASK = JudgeTask("Which one?", ())
UNJUDGEABLE = {
    "malformed": Completion("…", thinking_fault="no_close_tag"),
    "empty": Completion(" "),
}
UNJUDGEABLE["refused"] = Completion("No.", finish_reason="content_filter")


def call(name: str, *, rejected: bool = False) -> JudgeCall[Any]:
    return JudgeCall(name, "text", None, None, None, CallRun(), failed=rejected, rejected=rejected)


@dataclass
class Planted:
    """A judge of groups that gives the scores that it is told, one list for each time that it is asked."""

    scores: list[dict[str, float | None]]
    tasks: list[JudgeTask] = field(default_factory=list)
    client: Any = None
    waits: bool = False
    verdict: str | None = None

    async def judge(self, task: JudgeTask) -> GroupJudgment:
        self.tasks.append(task)
        if self.waits:
            await asyncio.Event().wait()
        scores = self.scores[len(self.tasks) - 1]
        members = [
            self._member(scores[answer], place)
            for place, answer in enumerate(task.responses, start=1)
        ]
        members[0] = replace(
            members[0], calls=(replace(call(f"order_{len(self.tasks)}"), value=self.verdict),)
        )
        return GroupJudgment(tuple(members), OrderAgreement(1, 2))

    def _member(self, score: float | None, place: int) -> Judgment[MemberDetail]:
        if score is None:
            return Judgment(None, Status.UNPARSABLE, explanation="no number")
        return Judgment(
            score, Status.OK, "label", "why", detail=MemberDetail((Look(place, 9, score),), score)
        )

    def start(self, task: JudgeTask, size: int) -> GroupInProgress:
        raise AssertionError("all answers are there")


@dataclass(frozen=True)
class Found:
    judgments: tuple[Judgment[MemberDetail], ...]
    together: GroupComparison


async def judged(
    judge: Planted, *completions: Completion | str, anchor: str | None = None
) -> Found:
    wanted = [Completion(each) if isinstance(each, str) else each for each in completions]
    return Found(
        *await judge_together(
            judge, "listwise", replace(TASK, baseline=anchor), [(each,) for each in wanted]
        )
    )


def scores(found: Found) -> list[float | None]:
    return [judgment.score for judgment in found.judgments]


async def test_each_completion_has_its_own_judgment_and_the_calls_are_in_the_first() -> None:
    judge = Planted([{"a": 0.1, "b": 0.2, "c": 0.3}])
    found = await judged(judge, "a", "b", "c", anchor="base")
    assert scores(found) == [0.1, 0.2, 0.3]
    assert judge.tasks == [
        replace(TASK, responses=("a", "b", "c"), baseline="base", places=(0, 1, 2))
    ]
    assert [len(judgment.calls) for judgment in found.judgments] == [1, 0, 0]
    together = found.together
    assert (together.anchored, together.orders, together.calls) == (True, OrderAgreement(1, 2), 1)
    assert not together.is_again and not together.is_alone


async def test_rollouts_of_several_turns_are_shown_with_their_roles_and_one_that_broke_off_is_not() -> (
    None
):
    talk = "assistant: a\n\nuser: And?\n\nassistant: b"
    judge, said = (
        Planted([{talk: 0.1, "c": 0.2}]),
        (Completion("a"), Completion("b", follow_up="And?")),
    )
    wanted = [said, (Completion("x"),), (Completion("c"),)]
    found = Found(*await judge_together(judge, "listwise", TASK, wanted, {1: "turn 2 failed"}))
    assert (judge.tasks[0].responses, judge.tasks[0].places) == ((talk, "c"), (0, 2))
    assert scores(found) == [0.1, None, 0.2]
    assert (found.judgments[1].status, found.judgments[1].explanation) == (
        Status.JUDGE_FAILED,
        "turn 2 failed",
    )


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"a": 0.5, "b": 0.6, "c": 0.7}, [0.5, 0.6, 0.7]),
        ({"a": 0.5, "b": 0.6, "c": None}, [0.1, 0.2, None]),
        ({"a": None, "b": None, "c": None}, [0.1, 0.2, None]),
    ],
)
async def test_whole_group_is_judged_once_more_where_a_verdict_is_missing_and_the_better_judgment_counts(
    second: dict[str, float | None], expected: list[float | None]
) -> None:
    """Scores of two judgments are never mixed: they compare within one of them."""
    judge = Planted([{"a": 0.1, "b": 0.2, "c": None}, second])
    found = await judged(judge, UNJUDGEABLE["empty"], "a", "b", "c")
    assert scores(found) == [None, *expected]
    assert [[call.name for call in judgment.calls] for judgment in found.judgments] == [
        [],
        ["order_1", "order_2"],
        [],
        [],
    ]
    assert found.together.is_again and found.together.calls == 2


async def test_group_is_not_judged_again_for_an_answer_that_no_call_was_about() -> None:
    """One that is too long would be too long again, and all others would be paid for twice."""
    judge = Planted([{"a": 0.1, "b": 0.2, "c": None}], verdict="scores for a and b")
    found = await judged(judge, "a", "b", "c")
    assert scores(found) == [0.1, 0.2, None]
    assert (found.together.calls, found.together.is_again) == (1, False)


class GroupedWords(JudgedEnv[GroupJudgeSettings, Word, Said]):
    """What none of these methods may be asked for a group that is judged together raises."""

    spec = EnvSpec(name="grouped", headline=("mean_reward", "reward"))
    tasks = WordsEnv.tasks  # type: ignore[assignment]  # of another environment
    conversations = WordsEnv.conversations  # type: ignore[assignment]

    def group_case(self, task: Word) -> JudgeTask:
        return TASK

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[Said]:
        raise AssertionError("by itself")

    def record_metrics(self, metrics: MetricAggregator, task: Word, sample: Sample[Said]) -> None:
        raise AssertionError("a foreign detail")

    def reward(self, judgment: Judgment[Said]) -> float:
        raise AssertionError("a foreign judgment")

    def drop_reason(self, judgments: Sequence[Judgment[Said]]) -> str | None:
        raise AssertionError("a foreign judgment")


async def piped(
    judge: Planted,
    *completions: Completion | str,
    flags: Sequence[str] = (),
    category: str | None = None,
) -> tuple[str, TrainingMetrics, list[JudgedGroup]]:
    """What becomes of a row whose policy says these, its records, and the groups that were sent."""
    wanted = [Completion(each) if isinstance(each, str) else each for each in completions]
    source, sent = Fixed(), list[JudgedGroup]()
    source.rollouts = [replace(rollout(text=each.answer), completion=each) for each in wanted]

    async def keep(group: JudgedGroup) -> None:
        sent.append(group)

    async with opened(
        speaking, *flags, "--env.group_judge=listwise", verb="serve", env_type=GroupedWords
    ) as (env, _):
        env.group_judge = judge
        metrics = TrainingMetrics(env)
        outcome = await GroupPipeline(env, source, metrics).run(Word("w", category), keep)
    return outcome, metrics, sent


ALL = "--env.ensure_scores_are_not_same=false"


@pytest.mark.parametrize(
    ("planted", "completions", "flags", "outcome", "reason"),
    [
        ({"a": 0.2, "b": None}, ("a", "b"), [ALL], "failed", "judge_failed"),
        ({"a": 0.5, "b": 0.5}, ("a", "b"), [], "dropped", "no_signal"),
        ({"a": 0.5, "b": 0.5}, ("a", "b"), [ALL], "sent", None),
        (
            {},
            ("a", UNJUDGEABLE["empty"], UNJUDGEABLE["empty"]),
            [ALL],
            "dropped",
            "nothing_to_compare",
        ),
        ({}, (UNJUDGEABLE["empty"], UNJUDGEABLE["empty"]), [], "dropped", "no_signal"),
        ({}, (UNJUDGEABLE["empty"], UNJUDGEABLE["empty"]), [ALL], "sent", None),
    ],
)
async def test_group_is_sent_or_dropped_with_a_reason(
    planted: dict[str, float | None],
    completions: tuple[Completion | str, ...],
    flags: list[str],
    outcome: str,
    reason: str | None,
) -> None:
    found, metrics, _ = await piped(Planted([planted, planted]), *completions, flags=flags)
    assert (found, metrics.total_dropped) == (outcome, {} if reason is None else {reason: 1})
    assert metrics.flush(max_token_len=-1).values["train/groups_judged"] == 1


async def test_group_in_the_file_has_the_looks_of_each_completion_and_how_it_was_judged() -> None:
    _, _, (group,) = await piped(Planted([{"a": 0.2, "b": 0.7}]), "a", UNJUDGEABLE["empty"], "b")
    config = EnvConfig(include_messages=True)
    data: Any = group.data(config, {"uid": "w"})
    judgments = [turns[-1]["judgment"] for turns in data["messages"]]
    assert judgments[0]["looks"] == [{"place": 1, "of": 9, "points": 0.2}]
    assert judgments[0]["own"] == 0.2
    assert judgments[1].keys() == {"status", "label", "explanation"}
    assert judgments[2]["looks"] == [{"place": 2, "of": 9, "points": 0.7}]
    assert data["row"]["together"] == {
        "judge": "listwise",
        "anchored": False,
        "orders_agreed": 1,
        "orders_pairs": 2,
        "calls": 1,
        "is_again": False,
    }
    sent = group.data(config)
    assert "row" not in sent
    read = ScoredData(**sent).model_dump(exclude_none=True)  # type: ignore[arg-type]  # as the rollout API does
    assert read == sent
