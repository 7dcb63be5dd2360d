"""The pipeline of groups: what becomes of a row, and what is recorded of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from judgegym.engine.completions import Completion, Conversation
from judgegym.engine.loop import HOPELESS_AFTER, NothingSucceeds
from judgegym.engine.metrics import MetricAggregator
from judgegym.environments.rollouts.groups import GroupPipeline, RecordRollout, ScoredGroup
from judgegym.environments.rollouts.judging import judge_each
from judgegym.environments.rollouts.scored_group import GroupRewards, JudgedGroup, NoTokens, Rollout
from judgegym.judges.core.judgment import CallRun, Judgment, Status
from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.llm.usage import Usage
from tests.environments.rollouts_of import judgment, rollout
from tests.environments.words import Said, Word, WordsEnv, opened, speaking
from tests.scripted import Meeting

WORD = Word("w")
DOWN = EndpointError(FailureKind.BROKEN, endpoint="http://x/v1", answer="refused")
REJECTED = EndpointError(FailureKind.REJECTED, endpoint="http://x/v1", answer="no such key", status=401)


class Fixed:
    """A source that gives the same texts again and again, or raises an error."""

    def __init__(self, *texts: str, error: Exception | None = None, **completion: Any) -> None:
        self.rollouts = [replace(rollout(text=text), completion=Completion(text, **completion)) for text in texts]
        self.error = error

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        if self.error is not None:
            raise self.error
        return self.rollouts, CallRun()

    @property
    def waiting(self) -> str | None:
        raise AssertionError("nobody asked for it")

    def rescale(self, share: float) -> None:
        raise AssertionError("nobody asked for it")


@dataclass
class Records:
    """What a pipeline recorded: how many groups were judged, what was sent, why groups were dropped."""

    metrics: MetricAggregator = field(default_factory=lambda: MetricAggregator("train"))
    judged: int = 0
    sent: list[int] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    unsampled: list[Usage] = field(default_factory=list)

    def record_unsampled(self, usage: Usage) -> None:
        self.unsampled.append(usage)

    def record_group(self, group: JudgedGroup[Any], scores: GroupRewards | None, record_rollout: RecordRollout) -> None:
        self.judged += 1
        for number in range(len(group.rollouts)):
            record_rollout(self.metrics, number)

    def record_sent(self, sequences: int) -> None:
        self.sent.append(sequences)

    def record_dropped(self, reason: str) -> None:
        self.dropped.append(reason)


class Failing(WordsEnv):
    """Its judge always fails."""

    name = "failing"

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[Said]:
        return Judgment(None, Status.JUDGE_FAILED, explanation="no key", calls=judgment(None).calls)


class Slow(WordsEnv):
    """Its judge never answers."""

    name = "slow"

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[Said]:
        await asyncio.Event().wait()
        raise AssertionError


class Picky(WordsEnv):
    """Drops groups in which nothing is right."""

    name = "picky"

    def drop_reason(self, judgments: Sequence[Judgment[Said]]) -> str | None:
        return None if any(judgment.score for judgment in judgments) else "all_wrong"


async def taken(group: ScoredGroup) -> None:
    """A sink that takes everything."""


Change = Callable[[GroupPipeline[Any, Any]], None]


@pytest.mark.parametrize(
    ("env_type", "flags", "source", "outcome", "reason"),
    [
        (WordsEnv, [], Fixed("w", "x"), "sent", None),
        (WordsEnv, [], Fixed("x", "x"), "dropped", "no_signal"),
        (WordsEnv, ["--env.ensure_scores_are_not_same=false"], Fixed("x", "x"), "sent", None),
        (Picky, ["--env.ensure_scores_are_not_same=false"], Fixed("x", "x"), "dropped", "all_wrong"),
        (Picky, [], Fixed("x", "x"), "dropped", "no_signal"),
        (Failing, [], Fixed("w", "x"), "failed", "judge_failed"),
        (Slow, ["--env.worker_timeout=0.05"], Fixed("w", "x"), "dropped", "timed_out"),
        (WordsEnv, [], Fixed(error=DOWN), "failed", "policy_failed"),
        (WordsEnv, [], Fixed(error=REJECTED), "failed", "policy_failed"),
        (WordsEnv, [], Fixed(error=NoTokens("no ids")), "failed", "policy_failed"),
    ],
)
async def test_row_is_sent_or_dropped_with_a_reason(
    env_type: type[WordsEnv], flags: list[str], source: Fixed, outcome: str, reason: str | None
) -> None:
    async with opened(speaking, *flags, verb="serve", env_type=env_type) as (env, _):
        records = Records()
        assert await GroupPipeline(env, source, records).run(WORD, taken) == outcome
    assert (records.sent, records.dropped) == (([], [reason]) if reason else ([2], []))
    assert records.judged == (source.error is None and reason != "timed_out")


@pytest.mark.parametrize(("limit", "outcome"), [(-1, "sent"), (0, "sent"), (8, "sent"), (7, "dropped")])
async def test_group_with_a_sequence_as_long_as_the_limit_is_dropped(limit: int, outcome: str) -> None:
    """A prompt of 3 tokens and completions of 4."""
    async with opened(speaking, verb="serve") as (env, _):
        pipeline = GroupPipeline(env, Fixed("w", "x"), Records())
        pipeline.max_token_len = limit
        assert await pipeline.run(WORD, taken) == outcome


async def test_group_that_the_sink_refuses_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(group: ScoredGroup) -> str:
        return f"{len(group.data()['scores'])} scores are too many"  # type: ignore[arg-type]

    async with opened(speaking, verb="serve") as (env, _):
        records = Records()
        assert await GroupPipeline(env, Fixed("w", "x"), records).run(WORD, refuse) == "dropped"
    assert (records.sent, records.dropped) == ([], ["refused"])
    assert "2 scores are too many" in caplog.text


async def test_what_a_policy_cost_that_failed_is_recorded() -> None:
    error = EndpointError(FailureKind.REJECTED, endpoint="http://x/v1", answer="no such key", status=401)
    error.usage = Usage(10, 5, 0.25)
    async with opened(speaking, verb="serve") as (env, _):
        records = Records()
        assert await GroupPipeline(env, Fixed(error=error), records).run(WORD, taken) == "failed"
    assert records.unsampled == [error.usage]


@pytest.mark.parametrize("env_type", [WordsEnv, Failing])
async def test_run_ends_when_an_endpoint_refuses_the_first_groups(env_type: type[WordsEnv]) -> None:
    async with opened(speaking, verb="serve", env_type=env_type) as (env, _):
        pipeline = GroupPipeline(env, Fixed(error=REJECTED), Records())
        for _ in range(HOPELESS_AFTER - 1):
            await pipeline.run(WORD, taken)
        with pytest.raises(NothingSucceeds, match="no such key"):
            await pipeline.run(WORD, taken)


async def test_malformed_thinking_is_not_judged_and_has_the_reward_of_the_settings() -> None:
    groups: list[ScoredGroup] = []

    async def keep(group: ScoredGroup) -> None:
        groups.append(group)

    flags = "--env.invalid_thinking_reward=-1", "--env.ensure_scores_are_not_same=false"
    async with opened(speaking, *flags, verb="serve") as (env, _):
        records = Records()
        await GroupPipeline(env, Fixed("w", "w", thinking_fault="no_close_tag"), records).run(WORD, keep)
    (group,) = groups
    assert [judgment.status for judgment in group.group.judgments] == [Status.INVALID_COMPLETION] * 2
    assert group.scores.values == (-1.0, -1.0)
    assert records.metrics.result().values["train/right"] == -1.0, "the environment's score of the wrong format"


OK = judgment(0.5)
AGAIN = {Status.JUDGE_FAILED: True, Status.UNPARSABLE: True, Status.OK: False, Status.INVALID_COMPLETION: False}


@pytest.mark.parametrize(("status", "again"), AGAIN.items())
async def test_judge_again_only_where_the_judge_failed(status: Status, again: bool) -> None:
    earlier = OK if status is Status.OK else judgment(None, status)
    async with opened("unused") as (env, _):
        found = await env.judge_again(Word("level"), [Completion("level")], earlier)
    assert (found is not earlier) is again
    assert found.status is (Status.OK if again else status)


@pytest.mark.parametrize("helps", [True, False])
async def test_judge_each_incomplete_judgment_is_judged_once_more_and_both_are_paid_for(helps: bool) -> None:
    failed = judgment(None, Status.JUDGE_FAILED)
    judged: list[str] = []

    async def judge(asked: Completion, earlier: Judgment[Any] | None) -> Judgment[Any]:
        if earlier is OK:
            return earlier
        judged.append(asked.answer)
        return replace(failed) if asked.answer == "1" and not (earlier and helps) else OK

    found = await judge_each([rollout(text=str(number)).completion for number in range(3)], judge)
    assert sorted(judged) == ["0", "1", "1", "2"]
    last = OK if helps else failed
    assert found == [OK, replace(last, calls=(*failed.calls, *last.calls)), OK]


async def test_all_are_judged_at_once() -> None:
    meeting = Meeting(5)

    async def judge(asked: Completion, earlier: Judgment[Any] | None) -> Judgment[Any]:
        await meeting.wait()
        return earlier or judgment(float(asked.answer))

    rollouts = [rollout(text=str(number)).completion for number in range(5)]
    found = await asyncio.wait_for(judge_each(rollouts, judge), 60)
    assert [each.score for each in found] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("helps", [True, False])
async def test_equal_completions_share_one_judgment_whose_calls_count_once(helps: bool) -> None:
    failed, judged = judgment(None, Status.JUDGE_FAILED), list[tuple[str, bool]]()

    async def judge(asked: Completion, earlier: Judgment[Any] | None) -> Judgment[Any]:
        if earlier is OK:
            return earlier
        judged.append((asked.answer, earlier is not None))
        return OK if asked.answer == "b" or (earlier and helps) else replace(failed)

    found = await judge_each([rollout(text=text).completion for text in "abaa"], judge)
    assert sorted(judged) == [("a", False), ("a", True), ("b", False)], "a shared failure is asked again once"
    assert [each.status for each in found] == [Status.OK if helps or text == "b" else failed.status for text in "abaa"]
    assert [len(each.calls) for each in found] == [2, 1, 0, 0]
    assert {(each.score, each.label, each.explanation) for each in (found[0], found[2], found[3])} == {
        (found[0].score, "label", "because")
    }


@pytest.mark.parametrize(
    "other",
    [{"thinking": "hm"}, {"thinking_fault": "no_close_tag"}, {"finish_reason": "length"}, {"answer": "a "}],
    ids=lambda other: next(iter(other)),
)
async def test_completions_that_differ_in_anything_a_judge_may_see_are_judged_apart(other: dict[str, Any]) -> None:
    judged: list[Completion] = []

    async def judge(asked: Completion, earlier: Judgment[Any] | None) -> Judgment[Any]:
        if earlier is None:
            judged.append(asked)
        return OK

    same = rollout(text="a").completion
    different = replace(same, **other)
    found = await judge_each([same, different, same], judge)
    assert judged == [same, different]
    assert [len(each.calls) for each in found] == [1, 1, 0]
