"""Curves over a run of any length, with a bounded number of points.

A point stands for several consecutive values: their mean and their range. If there are too many
points, pairs of neighbours are merged. So a curve depends on its values alone, not on when they
were read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from judgegym.llm.wire import JSON

MOST_POINTS = 240
"""The most points of a curve: more than a phone's pixels can show."""
_DIGITS = 5


@dataclass(slots=True)
class _Point:
    step: float
    values: int
    total: float
    low: float
    high: float


@dataclass(slots=True)
class Curve:
    """A curve.

    Attributes:
        has_band: each value has its own range (an interval, a spread), and a point has the mean of
            these; else a point has the range of its values.
    """

    has_band: bool = False
    _points: list[_Point] = field(default_factory=list)
    _values_of_a_point: int = 1

    def add(
        self, step: float, value: float, low: float | None = None, high: float | None = None
    ) -> None:
        """Add a value at a step; values that are not finite are left out."""
        if not (math.isfinite(step) and math.isfinite(value)):
            return
        point = _Point(
            step, 1, value, value if low is None else low, value if high is None else high
        )
        if self._points and self._points[-1].values < self._values_of_a_point:
            self._points[-1] = self._merge(self._points[-1], point)
            return
        if len(self._points) == MOST_POINTS:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [self._merge(left, right) for left, right in pairs]
            self._values_of_a_point *= 2
        self._points.append(point)

    def _merge(self, left: _Point, right: _Point) -> _Point:
        values = left.values + right.values
        if self.has_band:
            low = (left.low * left.values + right.low * right.values) / values
            high = (left.high * left.values + right.high * right.values) / values
        else:
            low = min(left.low, right.low)
            high = max(left.high, right.high)
        return _Point(right.step, values, left.total + right.total, low, high)

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self._points)

    def view(self, name: str) -> dict[str, JSON]:
        """Return the curve for a page: steps `x`, values `y`, and the range `low` to `high`."""
        series: dict[str, JSON] = {
            "name": name,
            "x": [_round(point.step) for point in self._points],
            "y": [_round(point.total / point.values) for point in self._points],
        }
        if self.has_band or self._values_of_a_point > 1:
            series["low"] = [_round(point.low) for point in self._points]
            series["high"] = [_round(point.high) for point in self._points]
        return series


def _round(number: float) -> float:
    if abs(number) < 1e5:
        return float(f"{number:.{_DIGITS}g}")
    return round(number)
