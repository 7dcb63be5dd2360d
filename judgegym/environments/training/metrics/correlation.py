"""Pearson's correlation of rewards with something else, as a metric; left out where it is undefined."""

from __future__ import annotations

from collections.abc import Sequence

from judgegym.engine.metrics import MetricAggregator

_LEAST = 3


def record_correlation(
    metrics: MetricAggregator, name: str, rewards: Sequence[float], others: Sequence[float], *, of: str, other: str
) -> None:
    """Record a correlation; with fewer than three pairs, or if one side is constant, the reason why there is none.

    Args:
        metrics: takes it.
        name: its name.
        rewards: the rewards.
        others: what each came with.
        of: what there is a pair for, in words.
        other: what each came with, in words.
    """
    import numpy as np  # late: only training needs it here

    if len(rewards) < _LEAST:
        metrics.leave_out(name, f"too few {of}")
    elif np.std(rewards) == 0 or np.std(others) == 0:
        metrics.leave_out(name, f"rewards or {other} are all the same")
    else:
        metrics.number(name, float(np.corrcoef(rewards, others)[0, 1]))
