"""Judge the completions of a group against each other.

Guarantees: malformed, refused and empty completions never reach the judge; a completion without a verdict has no
score; where one lacks a verdict because a call has none, the whole group is judged once more, and the judgment with
more verdicts counts; one that is too long for the judge costs no further calls. All calls of both are in the first
judgment, so that sums over the group count them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from judgegym.engine.completions import Completion, invalid_judgment
from judgegym.engine.settings.group_judge import GroupJudgeKind, RewardRange
from judgegym.judges.core.group import GroupCase, GroupJudge, GroupJudgment, MemberDetail, OrderAgreement
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
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
    found = [invalid_judgment(completion) for completion in completions]
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
