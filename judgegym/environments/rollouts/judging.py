"""From the completions of a row to judgments and rewards.

Guarantees: a completion is judged by itself, or, with a judge of groups, against the others; equal completions of a
group are judged once; what a judgment lacks is asked for once more; a failed judge gives no reward, and a completion in
the wrong format gets `invalid_thinking_reward`.
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
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.rollouts.judged_together import GroupComparison, judge_together, reward_of
from judgegym.environments.rollouts.together_metrics import record_compared
from judgegym.judges.core.group import GroupJudge, MemberDetail
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.llm.at_once import all_results
from judgegym.llm.ledger import component


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
        ask = env.judge if earlier is None else partial(env.judge_again, earlier=earlier)
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
