"""Intervals of rates, means and ratios, by one function for all commands, files and pages.

Values on a scale with two ends (rates from 0 to 1, scores from 1 to 5, differences of these) have
the mid-P interval. A
rate of independent rows has that of the binomial distribution, exactly. Other values have its
generalisation: each row gets a random weight, exponentially distributed, and one further row is at
the low end of the scale or at the high one, each with probability ½. P(q), the probability that the
weighted mean is at most q, is ½ P(X > k) + ½ P(X ≥ k) of a binomial X where all values are 0 or 1.
The interval is between the quantiles of P. So its width comes from the number of rows and the scale
where all values are equal, and rare values that no row has yet are within it. Nothing is drawn at
random: P is the saddlepoint approximation to the distribution of a sum of exponential variables.

Values without known ends (raw scores of reward models) have Student's t.

Rows of one cluster, such as the responses to one prompt, depend on each other: their sums are one
    row.

Sources:
    Clopper and Pearson, The use of confidence or fiducial limits (1934); Lancaster, Significance
    tests in discrete distributions (1961), for mid-P; Gaffke, Three test statistics for a
    nonparametric one-sided hypothesis on the mean of a nonnegative variable (2005), whose bounds
    have the further row with certainty; Rubin, The Bayesian bootstrap (1981), for the weights;
    Lugannani and Rice, Saddle point approximation for the distribution of the sum of independent
    random variables (1980); Cochran, Sampling Techniques (1977), section 6.3, for ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from judgegym.statistics.agreement import Interval

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Codes, Floats

    Numbers: TypeAlias = Sequence[float] | Floats

_ROUNDED = 12
"""Decimal places to which rows are the same."""
_MANY, _ROUNDED_OF_MANY = 5_000, 4
"""With more rows, values are rounded to this many places, which does not change sums visibly."""
_CLOSE = 1e-9
"""How near to a quantile the search for it ends, as a share of the scale."""


class Ends(NamedTuple):
    """The lowest and the highest value that a row can have."""

    low: float
    high: float

    @property
    def span(self) -> float:
        """The distance between the ends."""
        return self.high - self.low

    def widen(self, ends: Ends) -> Ends:
        """Return the ends of values on both scales."""
        return Ends(min(self.low, ends.low), max(self.high, ends.high))

    @property
    def difference_ends(self) -> Ends:
        """The ends of differences of two values."""
        return Ends(-self.span, self.span)


UNIT = Ends(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean or a ratio with its uncertainty.

    Attributes:
        value: the estimate.
        rows: number of independent rows.
    """

    value: float
    rows: int
    _quantile: Callable[[float], float]
    _below: Callable[[float], float]

    def interval(self, level: float = 0.95) -> Interval:
        """Return the two-sided interval with this coverage."""
        tail = (1 - level) / 2
        return Interval(self._quantile(tail), self._quantile(1 - tail))

    def p_value(self, truth: float = 0.0) -> float:
        """Return the two-sided p-value of a true value.

        It is below 1 − level if the interval excludes the value.
        """
        below = self._below(truth)
        return min(1.0, 2 * min(below, 1 - below))


def find_ends(values: Numbers, ends: Ends | None = None) -> Ends | None:
    """Return the ends of the scale of values.

    Unknown ends are taken as 0 and 1 if no value is beyond them.
    """
    import numpy as np  # imported late: this takes 0.2 s

    if ends is None:
        if len(values) and np.min(values) >= UNIT.low and np.max(values) <= UNIT.high:
            return UNIT
        return None
    return ends.widen(Ends(float(np.min(values)), float(np.max(values))))


def estimate_mean(
    totals: Numbers,
    weights: Numbers | None = None,
    *,
    clusters: Codes | None = None,
    ends: Ends | None = None,
) -> MeanEstimate | str:
    """Estimate sum(totals) / sum(weights) over rows that are a sample.

    Args:
        totals: one for each row.
        weights: one for each row, each > 0; `None` for a mean, whose weights are 1.
        clusters: for each row the number of its cluster; `None` if rows are independent.
        ends: the ends of the scale of a row's total / weight; `None` if they are not known: then 0
            and 1 if no row is beyond them.

    Returns:
        The estimate, or why there is none: fewer than two clusters, or equal values without known
            ends.

    Raises:
        ValueError: there is no row, or a weight is not positive.
    """
    import numpy as np

    top = np.asarray(totals, dtype=float)
    bottom = np.ones(len(top)) if weights is None else np.asarray(weights, dtype=float)
    if not len(top) or (bottom <= 0).any():
        raise ValueError("an interval needs at least one row, and weights above 0")
    ends = find_ends(top / bottom, ends)
    if clusters is not None:
        codes = np.unique(clusters, return_inverse=True)[1]
        top, bottom = (np.bincount(codes, column).astype(float) for column in (top, bottom))
    if len(top) < 2:
        if clusters is None or len(clusters) < 2:
            return "fewer than two rows"
        return "all rows are of one prompt"
    value = float(top.sum() / bottom.sum())
    if ends is None:
        return _estimate_without_ends(value, (top - value * bottom) / bottom.mean())
    if (bottom == 1.0).all() and np.isin(top, ends).all():
        return _estimate_rate(int((top == ends.high).sum()), len(top), ends)
    return _estimate_on_scale(value, top, bottom, ends)


def mean_interval(
    totals: Numbers,
    weights: Numbers | None = None,
    *,
    clusters: Codes | None = None,
    ends: Ends | None = None,
    level: float = 0.95,
) -> Interval | None:
    """Return the interval of `estimate_mean`, or `None`."""
    estimate = estimate_mean(totals, weights, clusters=clusters, ends=ends)
    if isinstance(estimate, str):
        return None
    return estimate.interval(level)


def estimate_share_mean(
    value: float, shares: Floats, ends: Ends, *, noise: float = 0.0
) -> MeanEstimate:
    """Estimate a mean on a scale, where each independent row has a share in the error.

    Args:
        value: the estimate.
        shares: the share of each row; their sum is 0 and their sum of squares is a variance of the
            estimate.
        ends: the ends of the scale of the mean.
        noise: the standard error of another, independent part of the estimate.
    """
    import numpy as np

    count = len(shares)
    return _estimate_on_scale(value, value + count * shares, np.ones(count), ends, noise)


def _estimate_without_ends(value: float, residuals: Floats) -> MeanEstimate | str:
    """Estimate a mean of values without ends."""
    import numpy as np

    count = len(residuals)
    error = float(np.std(residuals, ddof=1)) / math.sqrt(count)
    if error <= 1e-12 * abs(value) or not error:
        return "all rows are the same, and the ends of their scale are not known"
    from scipy.special import stdtr, stdtrit  # imported late: this takes half a second

    return MeanEstimate(
        value,
        count,
        lambda share: value + float(stdtrit(count - 1, share)) * error,
        lambda truth: float(stdtr(count - 1, (truth - value) / error)),
    )


def _estimate_rate(hits: int, rows: int, ends: Ends) -> MeanEstimate:
    """Estimate the rate of independent rows.

    A hit is at the high end of the scale, another row at the low one.
    """
    import numpy as np

    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, rows + 1)))])
    counts = np.arange(rows + 1)
    ways = logs[-1] - logs - logs[::-1]

    def below(truth: float) -> float:
        rate = (truth - ends.low) / ends.span
        if not 0 < rate < 1:
            return float(rate >= 1)
        chances = np.exp(ways + counts * math.log(rate) + (rows - counts) * math.log1p(-rate))
        return float(chances[hits + 1 :].sum() + chances[hits] / 2)

    value = ends.low + ends.span * hits / rows
    error = ends.span * math.sqrt(hits * (rows - hits) / rows) / rows
    return MeanEstimate(value, rows, lambda share: _solve(below, share, value, error, ends), below)


def _estimate_on_scale(
    value: float, totals: Floats, weights: Floats, ends: Ends, noise: float = 0.0
) -> MeanEstimate:
    """Estimate a ratio of rows whose values are on a scale.

    Args:
        value: the ratio.
        totals: of each row.
        weights: of each row.
        ends: of the scale.
        noise: the standard error of a term added to the ratio that is no sum over these rows.
    """
    import numpy as np

    unit, places = 1.0, _ROUNDED
    if len(totals) > _MANY:
        unit, places = float(weights.mean()) * ends.span, _ROUNDED_OF_MANY
    rows = np.round(np.stack([totals, weights]) / unit, places) * unit
    kinds, counts = np.unique(rows, axis=1, return_counts=True)
    # Size of the additional row: the mean weight if all are equal.
    size = float((weights**2).sum() / weights.sum())
    spread = noise * float(weights.sum())
    tops, bottoms = (np.append(column, 0.0) for column in kinds)
    times = np.append(counts, 1).astype(float)

    def below(truth: float) -> float:
        probability = 0.0
        for end in ends:
            tops[-1], bottoms[-1] = end * size, size
            probability += 0.5 * _sum_is_negative(tops - truth * bottoms, times, spread)
        return probability

    error = math.hypot(
        noise, math.sqrt(float(((totals - value * weights) ** 2).sum())) / float(weights.sum())
    )
    return MeanEstimate(
        value, len(totals), lambda share: _solve(below, share, value, error, ends), below
    )


_SMALLEST_SLOPE = 1e-90


def _sum_is_negative(slopes: Floats, counts: Floats, noise: float) -> float:
    """Return P(Σ slope·E + noise·Z ≤ 0), where E are exponential and Z is normal.

    Args:
        slopes: of the sum.
        counts: the number of exponential variables with each slope.
        noise: 0 or more.
    """
    import numpy as np

    highest, lowest = float(slopes.max()), float(slopes.min())
    if max(highest, -lowest) < _SMALLEST_SLOPE * noise:
        return 0.5
    # Their cubes would underflow to 0; the sign of the sum does not depend on the unit.
    if 0 < max(highest, -lowest) < _SMALLEST_SLOPE:
        unit = max(highest, -lowest)
        slopes, noise, highest, lowest = slopes / unit, noise / unit, highest / unit, lowest / unit
    # A side that is so much smaller does not matter either.
    if 0 < min(highest, -lowest) < _SMALLEST_SLOPE:
        slopes = np.where(np.abs(slopes) < _SMALLEST_SLOPE, 0.0, slopes)
        highest, lowest = float(slopes.max()), float(slopes.min())
    if noise < 1e-9 * max(highest, -lowest):
        noise = 0.0
    if not noise and (lowest >= 0 or highest <= 0):
        return float(highest <= 0)
    reach = math.inf  # the saddlepoint is not beyond it
    if noise:
        reach = math.sqrt(float(counts.sum())) / noise
    left, right = -reach, reach
    if lowest < 0:
        left = max(-reach, 1 / lowest)
    if highest > 0:
        right = min(reach, 1 / highest)
    square, point = noise**2, 0.0
    while True:  # Newton's method for the saddlepoint, between two bounds that only come nearer
        shares = slopes / (1 - point * slopes)
        first = float((counts * shares).sum()) + square * point
        second = float((counts * shares**2).sum()) + square
        # At a stationary point P is exact to twice as many digits.
        if abs(first) <= 1e-6 * math.sqrt(second):
            break
        if first > 0:
            right = point
        else:
            left = point
        step = point - first / second
        if not left < step < right:
            step = (left + right) / 2
        if step == point:
            break
        point = step
    third = 2 * float((counts * shares**3).sum()) / second**1.5
    exponent = square * point**2 / 2 - float((counts * np.log1p(-point * slopes)).sum())
    root = math.copysign(math.sqrt(max(0.0, -2 * exponent)), point)
    scaled = point * math.sqrt(second)
    score = root + (third / 6 if abs(root) < 1e-3 else math.log(scaled / root) / root)
    return math.erfc(-score / math.sqrt(2)) / 2


def _solve(
    below: Callable[[float], float], share: float, value: float, error: float, ends: Ends
) -> float:
    """Return where a rising function on the scale equals a share, or else an end of the scale.

    Args:
        below: the function.
        share: from 0 to 1.
        value: a point near the place where the function is ½.
        error: the width of its rise there.
        ends: of the scale.
    """
    is_low = share < 0.5
    end = ends.low if is_low else ends.high
    if abs(value - end) <= _CLOSE * ends.span:
        return end
    low, high = ends.low, ends.high
    under, over = -share, 1 - share
    for point in (value, value + (-8 if is_low else 8) * error):  # most quantiles are between these
        if low < point < high:
            difference = below(point) - share
            if difference < 0:
                low, under = point, difference
            else:
                high, over = point, difference
    streak = 0
    while high - low > _CLOSE * ends.span:  # the Illinois method; bisection if it is slow
        middle = high - over * (high - low) / (over - under)
        if not low < middle < high or abs(streak) > 2:
            middle, streak = (low + high) / 2, 0
        difference = below(middle) - share
        if abs(difference) < 1e-10:
            return middle
        if difference < 0:
            low, under, streak = middle, difference, min(streak, 0) - 1
            if streak < -1:
                over = over / 2
        else:
            high, over, streak = middle, difference, max(streak, 0) + 1
            if streak > 1:
                under = under / 2
    return (low + high) / 2
