"""Judgments and rewards for the completions of a row.

A rollout has one completion, or one per turn; "completion" below means all of them.

Guarantees: a completion is judged by itself or, with a judge of groups, against the others; equal
completions of a group are judged once; missing parts of a judgment are requested once more; a
failed judge gives no reward, and neither does a rollout that broke off, which no judge sees; a
completion in the wrong format gets `invalid_thinking_reward`.

With a judge of groups: malformed, refused and empty completions never reach the judge; a completion
without a verdict has no score. If one lacks a verdict because a call has none, the whole group is
judged once more, and the judgment with more verdicts counts. A completion that is too long for the
judge causes no further calls. All calls of both are in the first judgment, so that sums over the
group count them once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeAlias, runtime_checkable

from judgegym.data.rows import TaskT
from judgegym.engine.completions import Completion, judge_completions, render_for_judge
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings.group_judge import GroupJudgeKind
from judgegym.environments.base import JudgedEnv
from judgegym.environments.contract import RewardsGroups, call_judge, compute_rewards, record_sample
from judgegym.judges.core.group import GroupJudge, GroupJudgment, MemberDetail, OrderAgreement
from judgegym.judges.core.judgment import JudgeCall, Judgment, ScoreParts, Status
from judgegym.judges.core.tasks import JudgeTask, index_first_duplicates
from judgegym.llm.at_once import gather_results
from judgegym.llm.errors import SettingsError
from judgegym.llm.ledger import component

logger = logging.getLogger(__name__)

ANCHOR_SCORE = 0.5
_FORMAT_WARNING = (
    "malformed, refused and empty completions have the reward 0.0, and judged ones have less: the "
    "policy gains by breaking the format. Set --env.invalid_thinking_reward to the lowest reward, "
    "such as -1.0"
)


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """Comparison of the completions of a group with each other.

    Attributes:
        judge: the kind of the judge of groups.
        anchored: whether a baseline or reference was one more member: 0.5 is as good as that.
        orders: how far the judge's preferences agree between the orders of the answers.
        calls: number of calls, including failed and cached ones.
        is_again: whether it was judged once more, since a completion lacked a verdict.
        is_alone: whether only one completion has the right format, with nothing to compare it with.
    """

    judge: GroupJudgeKind
    anchored: bool
    orders: OrderAgreement = OrderAgreement()
    calls: int = 0
    is_again: bool = False
    is_alone: bool = False


JudgedCompletions: TypeAlias = (
    "tuple[tuple[Judgment[Any], ...], tuple[float | None, ...], GroupComparison | None]"
)
"""Judgments of a row's completions, the reward of each (`None` where the judge failed), and the
comparison (`None` if each was judged by itself)."""


@runtime_checkable
class LevelsScores(Protocol):
    """An environment that brings the scores of a group, judged each by itself, to one scale."""

    async def level(
        self,
        task: Any,
        rollouts: Sequence[Sequence[Completion]],
        judgments: Sequence[Judgment[Any]],
    ) -> Sequence[Judgment[Any]]:
        """Return the judgments with scores on one scale.

        Called in training, with the completions of each rollout, one per turn; equal rollouts occur
        once.
        """


@runtime_checkable
class DependsOnGroup(Protocol):
    """An environment whose settings tell whether rewards depend on the whole group."""

    @property
    def depends_on_group(self) -> bool:
        """Whether rewards depend on the group, though each rollout is judged by itself."""


def depends_on_group(env: JudgedEnv[Any, Any, Any]) -> bool:
    """Return whether rewards depend on the group, though each rollout is judged by itself.

    Trainers that get samples one by one then wait for the group.
    """
    if isinstance(env, DependsOnGroup):
        return env.depends_on_group
    return isinstance(env, (LevelsScores, RewardsGroups))


async def judge_row_completions(
    env: JudgedEnv[Any, TaskT, Any],
    task: TaskT,
    rollouts: Sequence[Sequence[Completion]],
    broken_off: Mapping[int, str] = {},
) -> JudgedCompletions:
    """Judge all rollouts of a row at once: each by itself, or against each other.

    Args:
        env: the environment.
        task: the row.
        rollouts: the completions of each rollout, one per turn.
        broken_off: the reasons of the rollouts that a failure has ended, by number.
    """
    config, comparison = env.config, None
    scored: Sequence[float | None]
    if env.group_judge is None:
        judgments = await judge_each(env, task, rollouts, broken_off)
        scored = compute_rewards(
            env, [judgment for judgment in judgments if judgment.status is Status.OK]
        )
    else:
        judgments, comparison = await judge_together(
            env.group_judge, config.group_judge, env.group_case(task), rollouts, broken_off
        )
        scores = [judgment.score for judgment in judgments if judgment.score is not None]
        scored = scores
        if config.group_reward_range != "unit":
            scored = [2.0 * score - 1.0 for score in scores]
    scored_rewards = iter(scored)
    rewards: list[float | None] = []
    has_malformed = False
    for judgment in judgments:
        reward = None
        if judgment.status is Status.OK:
            reward = next(scored_rewards)
        elif judgment.status is Status.INVALID_COMPLETION:
            reward, has_malformed = config.invalid_thinking_reward, True
        rewards.append(reward)
    if has_malformed and "invalid_thinking_reward" not in config.model_fields_set:
        lowest = min(reward for reward in rewards if reward is not None)
        if lowest < config.invalid_thinking_reward:
            env.warn_once(logger, _FORMAT_WARNING)
    return judgments, tuple(rewards), comparison


async def judge_each(
    env: JudgedEnv[Any, TaskT, Any],
    task: TaskT,
    rollouts: Sequence[Sequence[Completion]],
    broken_off: Mapping[int, str] = {},
) -> tuple[Judgment[Any], ...]:
    """Judge all rollouts at once, and request missing parts of a judgment once more.

    Both calls are kept in the judgment. Equal rollouts share the first one's judgment; the calls
    are only in the first one, so that sums over the group count them once. Rollouts are equal if
    everything is equal that a judge or the format check can see, the thinking included.
    """

    async def judge_twice(number: int) -> Judgment[Any]:
        if number in broken_off:
            return Judgment(None, Status.JUDGE_FAILED, explanation=broken_off[number])
        ask = partial(judge_completions, policy_is_judge=env.config.policy_is_judge)
        with component(f"rollout_{number}"):  # two rollouts may have the same text for the judge
            first: Judgment[Any] = await ask(partial(call_judge, env), task, rollouts[number])
            second = await ask(partial(call_judge, env, earlier=first), task, rollouts[number])
        if second is first:
            return first
        return replace(second, calls=(*first.calls, *second.calls))

    firsts = index_first_duplicates(
        [(*completions, broken_off.get(number)) for number, completions in enumerate(rollouts)]
    )
    distinct = sorted(set(firsts))
    distinct_judgments = await gather_results(map(judge_twice, distinct))
    if isinstance(env, LevelsScores):
        distinct_rollouts = [rollouts[number] for number in distinct]
        distinct_judgments = [*await env.level(task, distinct_rollouts, distinct_judgments)]
    by_number = dict(zip(distinct, distinct_judgments, strict=True))
    judgments: list[Judgment[Any]] = []
    for number, first in enumerate(firsts):
        judgment = by_number[first]
        if first != number:
            judgment = replace(judgment, calls=())
        judgments.append(judgment)
    return tuple(judgments)


def compute_turn_rewards(
    env: JudgedEnv[Any, Any, Any],
    rollouts: Sequence[Sequence[Completion]],
    judgments: Sequence[Judgment[Any]],
) -> tuple[tuple[float | None, ...], ...]:
    """Return by turn the rewards of the rollouts.

    `None` where a rollout lacks the turn or its score.

    A turn in the wrong format, which ends its rollout, has `invalid_thinking_reward`. The turns
    before it, which no judge has seen, have no score.

    Raises:
        SettingsError: a judgment has no score by turn (`turn_1` … in its `ScoreParts`).
    """
    by_turn: list[tuple[float | None, ...]] = []
    for turn in range(max(map(len, rollouts))):
        rewards: dict[int, float | None] = {}
        scored: dict[int, Judgment[Any]] = {}
        for number, (completions, judgment) in enumerate(zip(rollouts, judgments, strict=True)):
            if judgment.status is Status.INVALID_COMPLETION and turn == len(completions) - 1:
                rewards[number] = env.config.invalid_thinking_reward
            elif judgment.status is Status.OK and turn < len(completions):
                parts: Mapping[str, float] = {}
                if isinstance(judgment.detail, ScoreParts):
                    parts = judgment.detail.parts
                if not any(f"turn_{index}" in parts for index in range(1, len(completions) + 1)):
                    raise SettingsError(
                        f"--env.reward_by: a judgment of {env.spec.name} has no score of a turn "
                        "(turn_1, …)"
                    )
                if (score := parts.get(f"turn_{turn + 1}")) is not None:
                    scored[number] = replace(judgment, score=score)
        rewards |= dict(zip(scored, compute_rewards(env, [*scored.values()]), strict=True))
        by_turn.append(tuple(rewards.get(number) for number in range(len(rollouts))))
    return tuple(by_turn)


async def judge_together(
    judge: GroupJudge,
    kind: GroupJudgeKind,
    task: JudgeTask,
    rollouts: Sequence[Sequence[Completion]],
    broken_off: Mapping[int, str] = {},
) -> tuple[tuple[Judgment[MemberDetail], ...], GroupComparison]:
    """Judge all rollouts of the right format, and repeat the calls once if a verdict is missing.

    They are repeated only if a call brought no verdict.

    Of a rollout of several turns the judge sees the turns with their roles.

    Args:
        judge: the judge of groups.
        kind: the judge's kind.
        task: the task without the completions; a blank baseline counts as none.
        rollouts: the completions of each rollout of the group.
        broken_off: see `judge_row_completions`.
    """
    anchor = None
    if task.baseline and task.baseline.strip():
        anchor = task.baseline
    invalid: dict[int, Judgment[MemberDetail]] = {}
    for number, completions in enumerate(rollouts):
        fault = completions[-1].unjudgeable  # the turns before it were answered
        if number in broken_off:
            reason = broken_off[number]
            invalid[number] = Judgment(None, Status.JUDGE_FAILED, explanation=reason)
        elif fault is not None:
            invalid[number] = Judgment(None, Status.INVALID_COMPLETION, explanation=fault)
    valid = [number for number in range(len(rollouts)) if number not in invalid]
    comparison = GroupComparison(kind, anchored=anchor is not None)
    members: tuple[Judgment[MemberDetail], ...] = ()
    if valid and len(valid) + comparison.anchored < 2:
        members = (
            Judgment(None, Status.JUDGE_FAILED, explanation="there is no other answer to compare"),
        )
        comparison = replace(comparison, is_alone=True)
    elif valid:
        answers = tuple(render_for_judge(rollouts[number]) for number in valid)
        group_task = replace(task, responses=answers, baseline=anchor, places=tuple(valid))
        members, comparison = await _judge_twice(judge, group_task, comparison)
    judgments = {**invalid, **dict(zip(valid, members, strict=True))}
    return tuple(judgments[number] for number in range(len(rollouts))), comparison


async def _judge_twice(
    judge: GroupJudge, task: JudgeTask, comparison: GroupComparison
) -> tuple[tuple[Judgment[MemberDetail], ...], GroupComparison]:
    """Judge once or twice.

    Return the better judgment's members, the first with the calls of both.
    """
    with component("group"):
        result = await judge.judge(task)
    scored = sum(member.score is not None for member in result.members)
    calls = _list_calls(result)
    # An answer that was shown to no judge will not be shown to it the next time.
    is_again = scored < len(result.members) and any(call.value is None for call in calls)
    if is_again:
        with component("group_again"):
            second = await judge.judge(task)
        calls += _list_calls(second)
        if sum(member.score is not None for member in second.members) > scored:
            result = second
    first, *others = result.members
    members = (
        replace(first, calls=tuple(calls)),
        *(replace(member, calls=()) for member in others),
    )
    comparison = replace(comparison, orders=result.orders, calls=len(calls), is_again=is_again)
    return members, comparison


def _list_calls(judgment: GroupJudgment) -> list[JudgeCall[object]]:
    return list(chain.from_iterable(member.calls for member in judgment.members))


def record_rollout(
    env: JudgedEnv[Any, TaskT, Any],
    metrics: MetricAggregator,
    task: TaskT,
    completions: Sequence[Completion],
    judgment: Judgment[Any],
    comparison: GroupComparison | None,
) -> None:
    """Record the metrics of one rollout: the environment's own, or those of compared groups.

    Of a compared group: the score, and with an anchor whether it is better. A malformed
    completion has score 0 and loses.

    Args:
        env: the environment.
        metrics: the metrics of training.
        task: the row.
        completions: the policy's completions, one per turn.
        judgment: the completion's judgment, which did not fail.
        comparison: the group's comparison; `None` if each completion was judged by itself.
    """
    metrics.names = env.metric_names
    if comparison is None:
        sample = Sample[Any](task.uid, task.category, task.question, tuple(completions))
        record_sample(
            env,
            metrics,
            task,
            sample.replace_judgment(judgment, invalid_score=env.spec.invalid_score),
        )
        return
    score = 0.0 if judgment.score is None else judgment.score
    won = 0.5 if score == ANCHOR_SCORE else float(score > ANCHOR_SCORE)
    if comparison.anchored:
        metrics.mean("score_against_anchor", score)
    suffixes = [""]
    if task.category is not None:
        suffixes.append("_" + metrics.names(task.category))
    for suffix in suffixes:
        metrics.mean(f"mean_reward{suffix}", score)
        if comparison.anchored:
            metrics.mean(f"winrate{suffix}", won)
