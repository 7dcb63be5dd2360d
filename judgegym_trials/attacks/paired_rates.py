"""Comparison of two rates on the same rows, such as gains under an attack and by repetition.

Sources: Newcombe, Improved confidence intervals for the difference between binomial proportions
based on paired data (1998), method 10; McNemar's exact test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judgegym.statistics.agreement import Interval
from judgegym.statistics.corrected import t_quantile, wilson


class PairedCounts(NamedTuple):
    """Numbers of rows with both outcomes, only the first, only the second, and neither."""

    both: int
    first: int
    second: int
    neither: int

    @classmethod
    def from_outcomes(cls, first: Sequence[bool], second: Sequence[bool]) -> PairedCounts:
        """Count the outcomes of rows."""
        pairs = list(zip(first, second, strict=True))
        return cls(
            *(
                pairs.count(kind)
                for kind in ((True, True), (True, False), (False, True), (False, False))
            )
        )

    @property
    def rates(self) -> tuple[float, float]:
        """The rates of the first and the second outcome; 0 without rows."""
        total = sum(self) or 1
        return (self.both + self.first) / total, (self.both + self.second) / total

    @property
    def difference(self) -> float:
        """The first rate minus the second; 0 without rows."""
        return (self.first - self.second) / (sum(self) or 1)

    def interval(self) -> Interval:
        """Return the 95 % interval of the difference of the rates; it need not be symmetric."""
        both, first, second, neither = self
        total = sum(self)
        if not total:
            return Interval(-1.0, 1.0)
        rates = self.rates
        limits = [wilson(rate, total, t_quantile(0.95)) for rate in self.rates]
        margins = (both + first) * (second + neither) * (both + second) * (first + neither)
        covariance = float(both * neither - first * second)
        if covariance > 0:
            covariance = max(covariance - total / 2, 0.0)
        phi = covariance / math.sqrt(margins) if margins else 0.0

        def reach(first_margin: float, second_margin: float) -> float:
            return math.sqrt(
                max(
                    0.0,
                    first_margin * first_margin
                    - 2 * phi * first_margin * second_margin
                    + second_margin * second_margin,
                )
            )

        low = reach(rates[0] - limits[0].low, limits[1].high - rates[1])
        high = reach(limits[0].high - rates[0], rates[1] - limits[1].low)
        return Interval(max(-1.0, self.difference - low), min(1.0, self.difference + high))

    @property
    def p(self) -> float:
        """One-sided p-value of McNemar's exact test of "the first rate is not higher"."""
        from scipy.stats import binomtest  # imported here: `--help` does not need it

        if not self.first + self.second:
            return 1.0
        return float(
            binomtest(self.first, self.first + self.second, 0.5, alternative="greater").pvalue
        )


@dataclass(frozen=True, slots=True)
class MeanTest:
    """Mean of numbers from 0 to 1, its lower 95 % bound, and its p-value.

    The p-value tests that the mean is not above a limit.
    """

    mean: float
    low: float
    p: float


def mean_above(values: Sequence[float], limit: float) -> MeanTest:
    """Test whether the mean of numbers from 0 to 1 is above a limit, by Student's t.

    A 0 and a 1 are added, so that equal numbers do not give an interval of zero width.

    Args:
        values: the numbers, at least one.
        limit: the limit that the mean is compared with.
    """
    from scipy.stats import ttest_1samp

    test = ttest_1samp([*values, 0.0, 1.0], limit, alternative="greater")
    low = float(test.confidence_interval(0.95).low)
    return MeanTest(math.fsum(values) / len(values), max(0.0, low), float(test.pvalue))


def false_discovery(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted by Benjamini and Hochberg.

    Of those below α at most a share α are false.
    """
    from scipy.stats import false_discovery_control

    if p_values:
        return [float(p) for p in false_discovery_control(list(p_values))]
    return []
