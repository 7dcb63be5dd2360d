"""A ratio over units of which some are equal: these are judged once, so they are one observation."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from judgegym.engine.metrics import MetricAggregator


class ClusteredRatio:
    """Adds up numerators and denominators by the first unit that is equal; sixteen bytes for each unit."""

    def __init__(self, first_equal: Sequence[int]) -> None:
        """Know of no observation.

        Args:
            first_equal: for each unit the first one that is equal to it.
        """
        self._first = first_equal
        self._totals = array("d", [0.0]) * len(first_equal)
        self._weights = array("d", [0.0]) * len(first_equal)

    def add(self, unit: int, total: float, weight: float = 1.0) -> None:
        """Add what a unit contributes."""
        self._totals[self._first[unit]] += total
        self._weights[self._first[unit]] += weight

    def record(self, metrics: MetricAggregator, name: str) -> None:
        """Record the ratio with its interval, which resamples what was judged together or once for all."""
        for total, weight in zip(self._totals, self._weights, strict=True):
            if weight:
                metrics.ratio(name, total, weight, interval=True)
