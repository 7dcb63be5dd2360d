"""The metrics of one completion that was judged against the others of its group, whichever the environment is."""

from __future__ import annotations

from typing import Any

from judgegym.engine.metrics import MetricAggregator
from judgegym.environments.rollouts.judged_together import GroupComparison
from judgegym.judges.core.judgment import Judgment

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
