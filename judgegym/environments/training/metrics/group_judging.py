"""Diagnostics of groups that were judged together: what calls they took, and whether places matter to the judge."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from judgegym.engine.metrics import MetricAggregator
from judgegym.environments.rollouts.judged_group import JudgedGroup
from judgegym.environments.training.metrics.correlation import record_correlation
from judgegym.judges.core.group import Look, MemberDetail, OrderAgreement

_NONE = "no group was judged together"


def _numbers() -> array[float]:
    return array("d")


@dataclass(slots=True)
class GroupJudgeMetrics:
    """What was recorded since the last flush. An answer that several completions have was shown once."""

    groups: int = 0
    calls: int = 0
    again: int = 0
    orders: OrderAgreement = OrderAgreement()
    places: array[float] = field(default_factory=_numbers)
    """Where each look showed an answer, from 0 (first) to 1 (last)."""
    rewards: array[float] = field(default_factory=_numbers)
    """The reward of the answer of each look."""
    advantage: float = 0.0
    """The sum over groups of what the first place gained, each times its weight."""
    weight: float = 0.0

    def record(self, group: JudgedGroup[Any]) -> None:
        """Record a group, unless it had nothing to compare."""
        together = group.together
        if together is None or not together.calls:
            return
        self.groups += 1
        self.calls += together.calls
        self.again += together.is_again
        self.orders = OrderAgreement(
            self.orders.agreed + together.orders.agreed, self.orders.pairs + together.orders.pairs
        )
        seen: set[str] = set()
        shown: dict[int, list[Look]] = {}
        for rollout, judgment, reward in zip(group.rollouts, group.judgments, group.rewards, strict=True):
            answer, detail = rollout.completion.answer, judgment.detail
            if reward is None or not isinstance(detail, MemberDetail) or answer in seen:
                continue
            seen.add(answer)
            for look in detail.looks:
                if look.of > 1:
                    self.places.append((look.place - 1) / (look.of - 1))
                    self.rewards.append(reward)
                    shown.setdefault(look.of, []).append(look)
        for looks in shown.values():
            self._compare_first(looks)

    def _compare_first(self, looks: Sequence[Look]) -> None:
        """Add what the first place gained in the calls of one group that showed equally many answers.

        Other looks do not compare: where few are shown, more of them are first, and they may be better or worse.
        """
        first, later = ([look.points for look in looks if (look.place == 1) is is_first] for is_first in (True, False))
        if first and later:
            weight = len(first) * len(later) / len(looks)  # the inverse of the difference's variance, up to a factor
            self.advantage += weight * (fmean(first) - fmean(later))
            self.weight += weight

    def diagnose(self, metrics: MetricAggregator) -> None:
        """Record the metrics, or why one has no value."""
        if self.groups:
            metrics.number("group_judge_calls", self.calls / self.groups)
            metrics.number("groups_judged_again_rate", self.again / self.groups)
        if self.orders.pairs:
            metrics.number("position_agreement_rate", self.orders.agreed / self.orders.pairs)
        if self.weight:
            metrics.number("first_position_advantage", self.advantage / self.weight)
        record_correlation(
            metrics, "reward_position_correlation", self.rewards, self.places, of="looks at answers", other="places"
        )
        metrics.expect(_NONE, "group_judge_calls", "groups_judged_again_rate")
        metrics.expect("no two answers were shown in both orders", "position_agreement_rate")
        metrics.expect(
            "no group has both an answer that was shown first, and one that was shown later", "first_position_advantage"
        )
        metrics.expect("no completion has a score", "mean_reward")
        metrics.expect("no group had a baseline or a reference", "winrate", "score_against_anchor")
        metrics.leave_out("judge_calls_saved", "a group is judged together: equal answers are one member of it")
