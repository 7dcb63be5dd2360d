"""Paired statistics: the interval of a difference, tests, and the rows needed to settle it.

Intervals are of the differences of rows, so that what makes a row easy or hard for both sides does
not count as noise. The tests are scipy's. A statistic that is not defined for its input is replaced
by the reason: it is never 0 and never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from judgegym.statistics.agreement import Interval, agreement_sums, kappas
from judgegym.statistics.intervals import Ends, estimate_mean, find_ends, mean_interval

if TYPE_CHECKING:
    import numpy as np

    from judgegym.statistics.agreement import Codes, Floats

    Numbers: TypeAlias = Sequence[float] | Floats

_ROWS_FOR_A_KIND = 20  # ratio of the times of a binomial draw and of drawing a row
_LARGEST = 1e100  # its square is a number, too
_ONE_ROW = "one row is too few to estimate the variance"
_EQUAL_ROWS = "all rows differ by the same amount, so the variance is not known"

TestName = Literal["sign", "mcnemar", "wilcoxon"]


@dataclass(frozen=True, slots=True)
class RatioTerms:
    """Terms of a ratio by row: sum(totals) / sum(weights). A mean has weights of 1."""

    totals: Numbers
    weights: Numbers

    @property
    def ratio(self) -> float:
        """The statistic over all rows."""
        return math.fsum(self.totals) / math.fsum(self.weights)

    @property
    def values(self) -> Floats:
        """The statistic of each row by itself."""
        import numpy as np

        values: Floats = np.divide(self.totals, self.weights, dtype=float)
        return values

    @property
    def linearised(self) -> Floats:
        """Values of rows whose mean is the statistic, and which vary as it does.

        For a mean the terms are its values.
        """
        import numpy as np

        ratio, weights = self.ratio, np.asarray(self.weights, dtype=float)
        values: Floats = (
            ratio + (np.asarray(self.totals, dtype=float) - ratio * weights) / weights.mean()
        )
        return values

    def select(self, places: Codes | slice) -> RatioTerms:
        """Return the terms of selected rows."""
        import numpy as np

        return RatioTerms(np.asarray(self.totals)[places], np.asarray(self.weights)[places])

    def sum_by_unit(self, units: Codes) -> RatioTerms:
        """Return the sums over the rows of each unit; units are numbered from 0 without a gap."""
        import numpy as np

        return RatioTerms(
            *(np.bincount(units, column).astype(float) for column in (self.totals, self.weights))
        )


@dataclass(frozen=True, slots=True)
class PairedIntervals:
    """The intervals of both statistics and of their difference, second − first.

    Attributes:
        first: of the first side.
        second: the estimate of the second side.
        difference: the estimate of the difference.
        p: the p-value of no difference, which is below 1 − level if the interval excludes 0.
    """

    first: Interval
    second: Interval
    difference: Interval
    p: float


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A two-sided test of whether neither side is the better one.

    Attributes:
        name: which test.
        p: its p-value; `None` where it is undefined.
        higher: rows whose value is higher on the second side.
        lower: rows whose value is lower there; all others are equal and do not count.
        reason: why there is no p-value; empty if there is one.
    """

    name: TestName
    p: float | None
    higher: int
    lower: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RowsNeeded:
    """Number of rows that would settle a difference.

    `rows` is `None`, with the reason, if no number of rows would suffice.
    """

    rows: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RowsForWidth:
    """Number of rows whose paired interval has a half width.

    Attributes:
        half_width: half the width of the interval.
        rows: the number of rows; `None`, with the reason, if it is unknown.
        interval: the 90 % interval of that number, as the observed rows only estimate the variance.
        reason: why there is no number; empty if there is one.
    """

    half_width: float
    rows: int | None
    interval: Interval | None = None
    reason: str = ""


def paired_intervals(
    first: RatioTerms, second: RatioTerms, *, ends: Ends | None = None, level: float = 0.95
) -> PairedIntervals | str:
    """Return intervals for two ratios over the same rows and for their paired difference.

    Args:
        first: totals and weights of the rows on the first side.
        second: totals and weights of the same rows, in the same order, on the second side.
        ends: the ends of the scale of a row's total / weight; `None` if they are not known: then 0
            and 1 if no row is beyond them.
        level: coverage.

    Returns:
        The intervals, or why there are none: fewer than two rows, or equal rows on a scale without
            known ends.

    Raises:
        ValueError: the sides have different numbers of rows, or a weight is not positive.

    Source:
        The difference of two ratios is linearised: Cochran, Sampling Techniques (1977), section
            6.5.
    """
    import numpy as np  # late, as everywhere in this package

    if len(first.totals) != len(second.totals):
        counts = len(first.totals), len(second.totals)
        raise ValueError(f"{counts[0]} rows on the first side, {counts[1]} on the second")
    if any((np.asarray(side.weights) <= 0).any() for side in (first, second)):
        raise ValueError("a weight is not positive")
    ends = find_ends(np.concatenate([first.values, second.values]), ends)
    estimates = []
    for side in (first, second):
        estimate = estimate_mean(side.totals, side.weights, ends=ends)
        if isinstance(estimate, str):
            return estimate
        estimates.append(estimate)
    changes = second.linearised - first.linearised
    difference = estimate_mean(changes, ends=None if ends is None else ends.difference_ends)
    if isinstance(difference, str):
        return difference
    first_interval, second_interval, between = (
        side_estimate.interval(level) for side_estimate in (*estimates, difference)
    )
    return PairedIntervals(first_interval, second_interval, between, difference.p_value())


def _draw_resamples(generator: np.random.Generator, counts: Codes, size: int) -> Floats:
    """Draw how often each kind of row is in each of `size` resamples.

    `counts` is the number of rows of each kind.

    The counts of a resample have a multinomial distribution. They are drawn from it directly if
    there are few kinds, as for win rates, and row by row if nearly every row is a kind of its own:
    each time the faster way.
    """
    import numpy as np

    rows = int(counts.sum())
    if len(counts) * _ROWS_FOR_A_KIND <= rows:
        return generator.multinomial(rows, counts / rows, size=size).astype(float)
    kind_of_row = np.repeat(np.arange(len(counts)), counts)
    drawn = np.empty((size, len(counts)))  # floats are multiplied faster
    for resample in drawn:
        resample[:] = np.bincount(
            kind_of_row[generator.integers(0, rows, size=rows)], minlength=len(counts)
        )
    return drawn


def sign_test(first: Numbers, second: Numbers) -> PairedTest:
    """Run the exact sign test over the rows whose values differ.

    With values 0 and 1 it is McNemar's exact test, and named so.

    Source:
        Conover, Practical Nonparametric Statistics (1999), sections 3.4 and 3.5.
    """
    import numpy as np
    from scipy.stats import binomtest  # late: half a second

    is_binary = all(np.isin(side, (0.0, 1.0)).all() for side in (first, second))
    name: TestName = "mcnemar" if is_binary else "sign"
    return _paired_test(
        name,
        first,
        second,
        lambda changes: binomtest(int((changes > 0).sum()), len(changes)).pvalue,
    )


def wilcoxon_test(first: Numbers, second: Numbers) -> PairedTest:
    """Run Wilcoxon's signed-rank test over the rows whose values differ.

    It is exact or approximate, as scipy chooses.

    Equal rows are left out before scipy chooses, because it approximates whenever there is one. The
    approximation gives p = 0.03 for five rows that all went up; the exact p-value is 0.06.

    Source:
        Wilcoxon, Individual comparisons by ranking methods (1945).
    """
    from scipy.stats import wilcoxon  # late: as above

    return _paired_test("wilcoxon", first, second, lambda changes: wilcoxon(changes).pvalue)


def _paired_test(
    name: TestName, first: Numbers, second: Numbers, p_value: Callable[[Floats], float]
) -> PairedTest:
    """Run a test whose p-value is computed from the changes that are not 0.

    Changes are rounded so that 0.3 − 0.2 and 0.2 − 0.1 have one rank, and 0.1 + 0.2 is no change
    from 0.3.
    """
    import numpy as np

    changes = np.round(np.subtract(second, first, dtype=float), 12)
    changes = changes[changes != 0]
    higher = int((changes > 0).sum())
    lower = len(changes) - higher
    if not len(changes):
        return PairedTest(name, None, 0, 0, "all rows have equal values on both sides")
    p = float(p_value(changes))
    if not math.isfinite(p):
        reason = f"scipy finds no p-value for {higher + lower} rows"
        return PairedTest(name, None, higher, lower, reason)
    return PairedTest(name, p, higher, lower)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of several tests for a false alarm among all of them (Holm).

    Source:
        Holm, A simple sequentially rejective multiple test procedure (1979).
    """
    corrected, worst = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = worst
    return corrected


def rows_needed(
    first: RatioTerms, second: RatioTerms, *, level: float = 0.95, power: float = 0.8
) -> RowsNeeded:
    """Return how many rows make the interval of such a difference exclude 0.

    That happens with a probability of `power`.

    n = ((z_level + z_power) · s / d)², where d is the observed difference and s the standard
    deviation over the rows of
    what each contributes to it: second − first where weights are 1, and for ratios the residuals of
    the linearised
    ratio. It is an estimate: it takes d and s for the true ones.

    Source:
        Miller, Adding error bars to evals (2024), section 5; the residuals: Cochran, Sampling
        Techniques (1977), section 6.3.
    """
    import numpy as np
    from scipy.stats import norm

    difference = second.ratio - first.ratio
    if abs(difference) < 1e-12:
        return RowsNeeded(None, "the observed difference is 0, so no number of rows suffices")
    residuals = _paired_residuals(first, second)
    if len(residuals) < 2:
        return RowsNeeded(None, _ONE_ROW)
    deviation = float(np.std(residuals, ddof=1))
    if deviation < 1e-12:
        return RowsNeeded(None, _EQUAL_ROWS)
    reach = float(norm.ppf((1 + level) / 2) + norm.ppf(power))
    needed = (reach * deviation / abs(difference)) ** 2
    if not math.isfinite(needed):
        return RowsNeeded(None, "the values are too large to compute it")
    return RowsNeeded(math.ceil(needed))


def rows_for_half_width(
    first: RatioTerms,
    second: RatioTerms,
    half_width: float,
    *,
    ends: Ends | None = None,
    level: float = 0.95,
) -> RowsForWidth:
    """Return how many rows make the interval of `paired_intervals` ± `half_width`.

    The half width over n rows is z · √(n s² + 2 E²) / (n + 1): s is the standard deviation over the
    rows, as in `rows_needed`, and 2 E² the mean square of the further row of `estimate_mean`, at an
    end E of the scale of differences. Without ends it is that of Student's t, about
    z · s / √(n − (1 + z²) / 2).

    The observed rows only estimate s². Its 90 % interval, that of a mean of squares on their own
    scale, gives the interval of the number of rows.

    Args:
        first: totals and weights of the rows on the first side.
        second: those of the same rows on the second side.
        half_width: half the width of the interval.
        ends: the ends of the scale of a row's total / weight; `None` if they are not known: then 0
            and 1 if no row is beyond them.
        level: coverage.

    Raises:
        ValueError: the half width is not above 0.
    """
    import numpy as np
    from scipy.stats import norm

    if not half_width > 0:
        raise ValueError(f"a half width of {half_width}")
    ends = find_ends(np.concatenate([first.values, second.values]), ends)
    residuals = _paired_residuals(first, second)
    count = len(residuals)
    if count < 2:
        return RowsForWidth(half_width, None, reason=_ONE_ROW)
    squares = residuals**2 * count / (count - 1)
    variance = float(squares.mean())
    top = float(squares.max())
    if ends is not None:
        top = max(top, (ends.span + abs(second.ratio - first.ratio)) ** 2)
    elif variance < 1e-24:
        return RowsForWidth(half_width, None, reason=_EQUAL_ROWS)
    reach = float(norm.ppf((1 + level) / 2))
    precision = reach / half_width * (reach / half_width)
    if precision * top > _LARGEST:
        return RowsForWidth(half_width, None, reason="the values are too large to compute it")
    between = mean_interval(squares, ends=Ends(0.0, top), level=0.9)
    assert between is not None, "two rows have an interval on a scale with ends"

    def rows(square: float) -> float:
        if ends is None:
            return precision * square + (1 + reach**2) / 2
        linear, constant = precision * square, precision * (2 * ends.span**2 - square)
        return (linear + math.sqrt(max(0.0, linear**2 + 4 * constant))) / 2 - 1

    low, number, high = (max(2.0, rows(square)) for square in (between.low, variance, between.high))
    return RowsForWidth(half_width, math.ceil(number), Interval(low, high))


def _paired_residuals(first: RatioTerms, second: RatioTerms) -> Floats:
    """Return what each row adds to the variance of a difference."""
    import numpy as np

    residuals = [
        np.subtract(side.totals, np.multiply(side.ratio, side.weights)) / np.mean(side.weights)
        for side in (first, second)
    ]
    changes: Floats = residuals[1] - residuals[0]
    return changes


def kappa_interval(
    sides: Sequence[tuple[Floats, Floats]],
    rows: Sequence[int],
    *,
    rounds: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, Interval | None] | str:
    """Return Cohen's kappa of a judge with gold, with a percentile interval.

    For two judges, return the second's kappa minus the first's.

    1 − Σ |x − y|² / E Σ |x − y|², where E is over all pairs of a first and a second label. Of
    one-hot vectors that is kappa without weights, of numbers kappa with quadratic weights. Rows are
    resampled, for both judges at once; resamples in which a kappa is undefined are left out.

    Args:
        sides: of one or two judges, a vector for each gold label and for each of the judge's.
        rows: for each label the number of its row, from 0 without a gap; the labels of one row are
            drawn together.
        rounds: number of resamples.
        seed: seed of the resampling.
        level: coverage.

    Returns:
        The kappa or the difference with its interval (`None` with one row), or why a kappa is
        undefined.

    Source:
        Cohen, A coefficient of agreement for nominal scales (1960); Weighted kappa (1968).
    """
    import numpy as np

    sums = [agreement_sums(*labels, np.asarray(rows, dtype=np.int64)) for labels in sides]
    ends = np.cumsum([table.shape[1] for table in sums])[:-1]

    def statistic(totals: Floats) -> Floats:
        first, *second = map(kappas, np.split(totals, ends, axis=1))
        if second:
            return second[0] - first
        return first

    of_rows = np.hstack(sums)
    value = float(statistic(of_rows.sum(axis=0, keepdims=True))[0])
    if math.isnan(value):
        return "gold and a judge give one and the same label to every row"
    if len(of_rows) < 2:
        return value, None
    kinds, counts = np.unique(of_rows, axis=0, return_counts=True)
    drawn = statistic(_draw_resamples(np.random.default_rng(seed), counts, rounds) @ kinds)
    low, high = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return value, Interval(float(low), float(high))
