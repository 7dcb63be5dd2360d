"""Differences and their intervals as lines on one scale: where each begins and ends, as places on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judgegym.reports.compare.comparison import Estimate
from judgegym.statistics.bootstrap import Interval

WIDTH = 240
"""Of the whole scale, in pixels."""
_MARGIN = 8


@dataclass(frozen=True, slots=True)
class ForestLine:
    """A difference, in pixels from the left; without an interval `low` and `high` are the difference."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Forest:
    """The lines of several differences, and the place of 0."""

    zero: float
    lines: Sequence[ForestLine]


def forest(estimates: Sequence[Estimate]) -> Forest:
    """Place differences on a scale that holds all of them and 0."""
    ends = [(each.value, each.value) if each.interval is None else _bounds(each.interval) for each in estimates]
    values = [0.0, *(each.value for each in estimates), *(bound for bounds in ends for bound in bounds)]
    least, span = min(values), (max(values) - min(values)) or 1.0

    def place(value: float) -> float:
        return round(_MARGIN + (value - least) / span * (WIDTH - 2 * _MARGIN), 1)

    lines = [
        ForestLine(place(low), place(each.value), place(high))
        for (low, high), each in zip(ends, estimates, strict=True)
    ]
    return Forest(place(0.0), lines)


def _bounds(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high
