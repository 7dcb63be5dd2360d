"""From the judge's results for a group to the cookbook's rewards.

Guarantees: every reward is a finite number. Where the judge failed, it is the mean of the others, so that it leaves
their advantages as they are and has none itself, with the metric `judge_failed` 1. A group with fewer than two results
is dropped by the cookbook under every rollout strategy, and ends no step.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinker_cookbook.exceptions import AllTrajectoriesFailedError
from tinker_cookbook.rl.types import Metrics

from judgegym.environments.rollouts.scored_group import fill_in
from judgegym.integrations.scores.results import CompletionReward


class NoRewardsError(AllTrajectoriesFailedError):
    """A group without rewards. The cookbook takes this error for a group to skip, and counts it as skipped."""


def group_rewards(results: Sequence[CompletionReward], name: str) -> list[tuple[float, Metrics]]:
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
    return [(value, {**result.metrics, **result.flags}) for value, result in zip(scores.values, results, strict=True)]
