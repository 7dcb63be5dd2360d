"""From the judge's results for a group to the cookbook's rewards.

Guarantees: every reward is a finite number. Where the judge failed, it is the mean of the others, so that it leaves
their advantages as they are and has none itself, with the metric `judge_failed` 1. A group with fewer than two results
is dropped by the cookbook under every rollout strategy, and ends no step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tinker_cookbook.exceptions import AllTrajectoriesFailedError
from tinker_cookbook.rl.types import Metrics

from environments.rollouts.judged_group import fill_in
from judgegym.integrations.scores.scoring import Scored
from judgegym.integrations.single_turn.results import Rewarded


@dataclass(frozen=True, slots=True)
class Result:
    """The judge's result for one rollout.

    Attributes:
        reward: `None` if the judge failed.
        status: how the judgment ended.
        explanation: the judge's reasons; without a verdict, what went wrong.
        is_invalid: whether the completion is at fault, so that no judge was asked.
        metrics: those of the environment; none if the judge failed.
    """

    reward: float | None
    status: str
    explanation: str
    is_invalid: bool
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_rewarded(cls, rewarded: Rewarded) -> Result:
        """The result of an environment."""
        status, is_invalid = rewarded.status.value, rewarded.is_invalid
        return cls(rewarded.reward, status, rewarded.explanation, is_invalid, rewarded.metrics)

    @classmethod
    def of_scored(cls, scored: Scored, *, invalid: float) -> Result:
        """The result of a judge; `invalid` is the reward of an empty completion."""
        reward = invalid if scored.is_invalid else scored.score
        return cls(reward, scored.status, scored.explanation, scored.is_invalid)


class NoRewardsError(AllTrajectoriesFailedError):
    """A group without rewards. The cookbook takes this error for a group to skip, and counts it as skipped."""


def group_rewards(results: Sequence[Result], name: str) -> list[tuple[float, Metrics]]:
    """The reward and the metrics of each rollout.

    An environment's metrics are left out where the judge failed: the cookbook takes the mean of those that are there.

    Raises:
        NoRewardsError: fewer than two (in a group of one: none) have a result.
    """
    scores = fill_in([result.reward for result in results])
    if scores is None:
        failed = [result for result in results if result.reward is None]
        why = f": {failed[0].status}: {failed[0].explanation}" if failed else ""
        raise NoRewardsError(f"{name}: the judge failed for {len(failed)} of {len(results)} rollouts{why}")
    return [
        (value, {**result.metrics, "judge_failed": float(is_mean), "invalid_completion": float(result.is_invalid)})
        for value, is_mean, result in zip(scores.values, scores.substituted, results, strict=True)
    ]
