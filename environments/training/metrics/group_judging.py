"""Diagnostics of groups that were judged together: what calls they took, and whether places matter to the judge."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from environments.metrics import MetricAggregator
from environments.rollouts.judged_group import JudgedGroup
from environments.training.metrics.correlation import record_correlation
from judges.core.group import Agreement, MemberDetail

_NONE = "no group was judged together"


def _numbers() -> array[float]:
    return array("d")


@dataclass(slots=True)
class GroupJudging:
    """What was recorded since the last flush. An answer that several completions have was shown once."""

    groups: int = 0
    calls: int = 0
    again: int = 0
    orders: Agreement = Agreement()
    places: array[float] = field(default_factory=_numbers)
    """Where each look showed an answer, from 0 (first) to 1 (last)."""
    rewards: array[float] = field(default_factory=_numbers)
    """The reward of the answer of each look."""
    first: array[float] = field(default_factory=_numbers)
    """The points of those that were shown first."""
    later: array[float] = field(default_factory=_numbers)

    def record(self, group: JudgedGroup[Any]) -> None:
        """Record a group, unless it had nothing to compare."""
        together = group.together
        if together is None or not together.calls:
            return
        self.groups += 1
        self.calls += together.calls
        self.again += together.is_again
        self.orders = Agreement(self.orders.agreed + together.orders.agreed, self.orders.pairs + together.orders.pairs)
        seen: set[str] = set()
        for rollout, judgment, reward in zip(group.rollouts, group.judgments, group.rewards, strict=True):
            answer, detail = rollout.completion.answer, judgment.detail
            if reward is None or not isinstance(detail, MemberDetail) or answer in seen:
                continue
            seen.add(answer)
            for look in detail.looks:
                if look.of > 1:
                    self.places.append((look.place - 1) / (look.of - 1))
                    self.rewards.append(reward)
                    (self.first if look.place == 1 else self.later).append(look.points)

    def diagnose(self, metrics: MetricAggregator) -> None:
        """Record the metrics, or why one has no value."""
        import numpy as np  # late: only training needs it here

        if self.groups:
            metrics.number("group_judge_calls", self.calls / self.groups)
            metrics.number("groups_judged_again_rate", self.again / self.groups)
        if self.orders.pairs:
            metrics.number("position_agreement_rate", self.orders.agreed / self.orders.pairs)
        if self.first and self.later:
            metrics.number("first_position_advantage", float(np.mean(self.first) - np.mean(self.later)))
        record_correlation(
            metrics, "reward_position_correlation", self.rewards, self.places, of="looks at answers", other="places"
        )
        metrics.expect(_NONE, "group_judge_calls", "groups_judged_again_rate")
        metrics.expect("no two answers were shown in both orders", "position_agreement_rate")
        metrics.expect("no answer was shown first, or none was shown later", "first_position_advantage")
        metrics.expect("no completion has a score", "mean_reward")
        metrics.expect("no group had a baseline or a reference", "winrate", "score_against_anchor")
        metrics.leave_out("judge_calls_saved", "a group is judged together: equal answers are one member of it")
