"""What several responses to one prompt say beside their mean: the best of them, and whether the chosen ones win.

Guarantees: a unit counts only if none of its responses has failed, since the best of the others, or their order, would
be a number in place of the missing one; units that are left out are counted. An empty response counts as 0, here as in
the mean score: it is an answer, and a bad one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judgegym.datasets.score.results.clustered import ClusteredRatio
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample

BEST, MARGIN, CHOSEN_HIGHER, INCOMPLETE = "mean_best_score", "mean_margin", "chosen_higher_rate", "incomplete_units"


class WithinRows:
    """Collects the numbers of the units with several responses, one by one."""

    def __init__(self, first_equal: Sequence[int], chosen: Sequence[int]) -> None:
        """Begin without a unit.

        Args:
            first_equal: for each unit the first one that is equal to it.
            chosen: of each unit how many of its responses, the first ones, are preferred; empty without preferences.
        """
        self._best = ClusteredRatio(first_equal)
        self._margin = ClusteredRatio(first_equal) if chosen else None
        self._higher = ClusteredRatio(first_equal) if chosen else None
        self._chosen = chosen
        self._by_category: dict[str, list[float]] = {}
        self._with_several = self._incomplete = 0

    def add(self, unit: int, samples: Sequence[Sample[Any]]) -> None:
        """Add the responses of a unit."""
        if len(samples) < 2:
            return
        self._with_several += 1
        values = [sample.headline.total for sample in samples if sample.headline is not None]
        if len(values) < len(samples):
            self._incomplete += 1
            return
        self._best.add(unit, max(values))
        chosen = self._chosen[unit] if self._chosen else 0
        if 0 < chosen < len(values):
            self._compare(unit, values[:chosen], values[chosen:], samples[0].category)

    def _compare(self, unit: int, chosen: Sequence[float], rejected: Sequence[float], category: str | None) -> None:
        assert self._margin is not None and self._higher is not None  # there are preferences
        self._margin.add(unit, sum(chosen) / len(chosen) - sum(rejected) / len(rejected))
        lowest, highest = min(chosen), max(rejected)
        higher = 0.5 if lowest == highest else float(lowest > highest)
        self._higher.add(unit, higher)
        if category is not None:
            sums = self._by_category.setdefault(category, [0.0, 0.0])
            sums[0] += higher
            sums[1] += 1

    def record(self, metrics: MetricAggregator, most_categories: int) -> None:
        """Record the metrics, those by category of the largest ones; none without units of several responses."""
        if not self._with_several:
            return
        metrics.count(INCOMPLETE, self._incomplete)
        self._best.record(metrics, BEST)
        reason = "each prompt with several responses has one that failed"
        metrics.expect(reason, BEST)
        if self._margin is None or self._higher is None:
            return
        self._margin.record(metrics, MARGIN)
        self._higher.record(metrics, CHOSEN_HIGHER)
        metrics.expect(reason, MARGIN, CHOSEN_HIGHER)
        largest = sorted(self._by_category, key=lambda name: -self._by_category[name][1])[:most_categories]
        for name in largest:
            metrics.ratio(f"{CHOSEN_HIGHER}_category_{metrics.names(name)}", *self._by_category[name])
