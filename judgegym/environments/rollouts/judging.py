"""From the completions of a row to judgments and rewards.

Guarantees: a completion is judged by itself, or, with a judge of groups, against the others; equal completions of a
group are judged once; what a judgment lacks is asked for once more; a failed judge gives no reward, and a completion in
the wrong format gets `invalid_thinking_reward`.

Judge the completions of a group against each other.

Guarantees: malformed, refused and empty completions never reach the judge; a completion without a verdict has no
score; where one lacks a verdict because a call has none, the whole group is judged once more, and the judgment with
more verdicts counts; one that is too long for the judge costs no further calls. All calls of both are in the first
judgment, so that sums over the group count them once.

The metrics of one completion that was judged against the others of its group, whichever the environment is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic

from judgegym.data.rows import TaskT
from judgegym.engine.completions import Completion, judge_completions
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings.group_judge import GroupJudgeKind, RewardRange
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.judges.core.group import GroupCase, GroupJudge, GroupJudgment, MemberDetail, OrderAgreement
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.llm.at_once import all_results
from judgegym.llm.ledger import component

FIRST, AGAIN = "group", "group_again"
"""The components of the group's calls in the ledger."""


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """How the completions of a group were judged together.

    Attributes:
        judge: which judge of groups did it.
        anchored: a baseline or a reference was one more member, so that 0.5 is as good as that.
        orders: how far the orders agree in which the answers were shown.
        calls: how many calls it took, also those that failed or were answered from a cache.
        is_again: it was judged once more, since a completion lacked a verdict.
        is_alone: one completion has the right format, and there is nothing to compare it with.
    """

    judge: GroupJudgeKind
    anchored: bool
    orders: OrderAgreement = OrderAgreement()
    calls: int = 0
    is_again: bool = False
    is_alone: bool = False


@dataclass(frozen=True, slots=True)
class RolloutJudgments:
    """A judgment for each completion, in their order, and how they came about."""

    judgments: tuple[Judgment[MemberDetail], ...]
    together: GroupComparison


async def judge_together(
    judge: GroupJudge, kind: GroupJudgeKind, case: GroupCase, completions: Sequence[Completion]
) -> RolloutJudgments:
    """Judge all completions that have the right format, and once more if a call brought no verdict and one lacks it.

    Args:
        judge: the judge of groups.
        kind: which one it is.
        case: what the completions answer; a blank anchor is none.
        completions: the completions of the group.
    """
    anchor = case.anchor if case.anchor and case.anchor.strip() else None
    faults = [completion.unjudgeable for completion in completions]
    found = [
        None if fault is None else Judgment[MemberDetail](None, Status.INVALID_COMPLETION, explanation=fault)
        for fault in faults
    ]
    valid = [number for number, judgment in enumerate(found) if judgment is None]
    answers = tuple(completions[number].answer for number in valid)
    together = GroupComparison(kind, anchored=anchor is not None)
    if valid and len(valid) + together.anchored < 2:
        alone = Judgment[MemberDetail](None, Status.JUDGE_FAILED, explanation="there is no other answer to compare")
        together = replace(together, is_alone=True)
        return RolloutJudgments(tuple(alone if judgment is None else judgment for judgment in found), together)
    judged: tuple[Judgment[MemberDetail], ...] = ()
    if valid:
        numbers = tuple(number + 1 for number in valid)
        compared = replace(case, answers=answers, anchor=anchor, numbers=numbers)
        group, calls, is_again = await _judge_twice(judge, compared)
        judged = group.members
        together = replace(together, orders=group.orders, calls=calls, is_again=is_again)
    of_valid = iter(judged)
    judgments = tuple(next(of_valid) if judgment is None else judgment for judgment in found)
    return RolloutJudgments(judgments, together)


async def _judge_twice(judge: GroupJudge, case: GroupCase) -> tuple[GroupJudgment, int, bool]:
    """Return the better of one or two judgments, with the calls of both; how many these are; whether it was two."""
    with component(FIRST):
        first = await judge.judge(case)
    calls = _calls(first)
    # An answer that was shown to no judge will not be shown to it the next time.
    better, is_again = first, _scored(first) < len(first.members) and any(call.value is None for call in calls)
    if is_again:
        with component(AGAIN):
            again = await judge.judge(case)
        better = again if _scored(again) > _scored(first) else first
        calls += _calls(again)
    head, *others = better.members
    members = (replace(head, calls=calls), *(replace(member, calls=()) for member in others))
    return replace(better, members=members), len(calls), is_again


def _calls(judgment: GroupJudgment) -> tuple[JudgeCall[object], ...]:
    return tuple(call for member in judgment.members for call in member.calls)


def _scored(judgment: GroupJudgment) -> int:
    return sum(member.score is not None for member in judgment.members)


def reward_of(score: float, reward_range: RewardRange) -> float:
    """Return the reward of a score from 0 to 1.

    >>> reward_of(0.75, "signed")
    0.5
    """
    return score if reward_range == "unit" else 2.0 * score - 1.0


AS_GOOD_AS_THE_ANCHOR = 0.5


def record_compared(
    metrics: MetricAggregator, together: GroupComparison, judgment: Judgment[Any], category: str | None
) -> None:
    """Record a completion's score, and with an anchor whether it is better; a malformed completion has 0 and loses.

    Args:
        metrics: those of training.
        together: how the group was judged.
        judgment: the completion's judgment, which did not fail.
        category: that of the row.
    """
    score = 0.0 if judgment.score is None else judgment.score
    suffixes = ["", *([f"_{metrics.names(category)}"] if category is not None else [])]
    for suffix in suffixes:
        metrics.mean(f"mean_reward{suffix}", score)
    if not together.anchored:
        return
    metrics.mean("score_against_anchor", score)
    won = 0.5 if score == AS_GOOD_AS_THE_ANCHOR else float(score > AS_GOOD_AS_THE_ANCHOR)
    for suffix in suffixes:
        metrics.mean(f"winrate{suffix}", won)


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class JudgedCompletions(Generic[DetailT]):
    """The judgments of the completions of one row.

    Attributes:
        judgments: one for each completion; of equal completions, the calls are in that of the first alone.
        rewards: the reward of each judgment; `None` where the judge failed.
        together: how they were judged against each other; `None` if each was judged by itself.
    """

    judgments: tuple[Judgment[DetailT], ...]
    rewards: tuple[float | None, ...]
    together: GroupComparison | None = None


async def judge_completions_of(
    env: JudgedEnv[Any, TaskT, Any], task: TaskT, completions: Sequence[Completion]
) -> JudgedCompletions[Any]:
    """Judge all completions of a row at once: each by itself, or, with a judge of groups, against each other."""
    if env.group_judge is not None:
        return await _compared(env, task, env.group_judge, completions)

    async def judge(completion: Completion, earlier: Judgment[Any] | None) -> Judgment[Any]:
        ask = partial(env.checked_judge, earlier=earlier)
        return await judge_completions(ask, task, [completion], policy_is_judge=env.policy_is_judge)

    judgments = await judge_each(completions, judge)
    return JudgedCompletions(tuple(judgments), rewards_of(env, judgments))


def record_judged(
    env: JudgedEnv[Any, TaskT, Any],
    metrics: MetricAggregator,
    task: TaskT,
    completion: Completion,
    judgment: Judgment[Any],
    together: GroupComparison | None,
) -> None:
    """Record the metrics of one rollout: the environment's own, or those of groups that are judged together."""
    metrics.names = env.metric_names
    if together is not None:
        return record_compared(metrics, together, judgment, task.category)
    sample = Sample[Any](task.uid, task.category, task.question, (completion,))
    sample = sample.with_judgment(judgment, invalid_score=env.invalid_completion_score)
    env.record_metrics(metrics, task, sample)


def rewards_of(env: JudgedEnv[Any, Any, DetailT], judgments: Sequence[Judgment[DetailT]]) -> tuple[float | None, ...]:
    """Return the reward of each judgment of a group; `None` where the judge failed."""
    rewards = env.rewards([judgment for judgment in judgments if judgment.status is Status.OK])
    return _with_invalid(judgments, rewards, env.config.invalid_thinking_reward)


async def judge_each(
    completions: Sequence[Completion],
    judge: Callable[[Completion, Judgment[DetailT] | None], Awaitable[Judgment[DetailT]]],
) -> list[Judgment[DetailT]]:
    """Judge all completions at once, and ask once more for what a judgment lacks; both calls are kept in the judgment.

    Equal completions have one judgment, the first one's; the calls are in that of the first alone, so that sums over
    the group count them once.

    Args:
        completions: the completions to judge.
        judge: judges one; given an earlier judgment, it asks for what that lacks, and returns it as it is if complete.
    """

    async def judge_twice(number: int) -> Judgment[DetailT]:
        with component(f"rollout_{number}"):  # two rollouts may have the same text for the judge
            first = await judge(completions[number], None)
            again = await judge(completions[number], first)
        return first if again is first else replace(again, calls=(*first.calls, *again.calls))

    firsts = first_equals(completions)
    distinct = sorted(set(firsts))
    judged = dict(zip(distinct, await all_results(map(judge_twice, distinct)), strict=True))
    return [
        judged[first] if first == number else replace(judged[first], calls=()) for number, first in enumerate(firsts)
    ]


def first_equals(completions: Sequence[Completion]) -> list[int]:
    """Return for each completion the number of the first equal one: its own, if there is none before.

    Completions are equal if all that a judge or the check of their format can see is equal, the thinking included.
    """
    firsts: dict[Completion, int] = {}
    return [firsts.setdefault(completion, number) for number, completion in enumerate(completions)]


async def _compared(
    env: JudgedEnv[Any, TaskT, Any], task: TaskT, judge: GroupJudge, completions: Sequence[Completion]
) -> JudgedCompletions[MemberDetail]:
    config = env.config
    found = await judge_together(judge, config.group_judge, env.group_case(task), completions)
    of_scored = (
        reward_of(judgment.score, config.group_reward_range)
        for judgment in found.judgments
        if judgment.score is not None
    )
    rewards = _with_invalid(found.judgments, of_scored, config.invalid_thinking_reward)
    return JudgedCompletions(found.judgments, rewards, found.together)


def _with_invalid(
    judgments: Sequence[Judgment[Any]], of_scored: Iterable[float | None], invalid: float
) -> tuple[float | None, ...]:
    """Return the rewards of the judgments with a score, in order, among those of invalid completions and of none."""
    rewards = iter(of_scored)
    return tuple(
        next(rewards)
        if judgment.status is Status.OK
        else invalid
        if judgment.status is Status.INVALID_COMPLETION
        else None
        for judgment in judgments
    )
