"""Estimates over clustered rows: standard errors, intervals, tests, and sample sizes.

Judgments of one row (its orders, repeats, paraphrases), or of the rows of one prompt, depend on
each other: they are one cluster. A rate has the interval of Clopper and Pearson at its effective
number of trials; any other estimate is a smooth function of sums over clusters, with a linearised
or jackknifed standard error and Student's t.

Sources: Korn and Graubard, Confidence intervals for proportions with small expected number of
positive counts estimated from survey data (1998); Agresti and Min, Simple improved confidence
intervals for comparing matched proportions (2005); Efron and Tibshirani, An Introduction to the
Bootstrap (1993), chapter 11 (the jackknife).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from judgegym.statistics.agreement import Interval, agreement_parts, chance_corrected, cluster_sums
from judgegym.statistics.corrected import t_quantile

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Codes, Floats

_MOST = 10_000_000


@dataclass(frozen=True, slots=True)
class ClusteredEstimate:
    """An estimate with its standard error.

    Attributes:
        value: the estimate, in the unit of the statistic.
        error: its standard error, > 0, unless the statistic is a rate.
        clusters: number of independent clusters, at least 2.
        trials: a rate's effective number of independent trials; `None` for any other
            statistic.
        pseudo: the share of the squared error that comes from pseudo-rows, whose number does not
            grow with the rows; below 0 if they make it smaller, as a prior does.
        fewest: minimum number of clusters for an estimate; therefore samples with an estimate have
            more clusters than average.
    """

    value: float
    error: float
    clusters: int
    trials: float | None = None
    pseudo: float = 0.0
    fewest: int = 0

    def interval(self, level: float) -> Interval:
        """Return the two-sided interval with this coverage; for a rate it is within 0 to 1."""
        if self.trials is None:
            reach = t_quantile(level, self.clusters - 1) * self.error
            return Interval(self.value - reach, self.value + reach)
        from scipy.stats import beta  # imported here: it takes half a second

        tail = (1 - level) / 2
        hits = self.value * self.trials
        misses = (1 - self.value) * self.trials
        low, high = 0.0, 1.0
        if hits > 0:
            low = float(beta.ppf(tail, hits, misses + 1))
        if misses > 0:
            high = float(beta.ppf(1 - tail, hits + 1, misses))
        return Interval(low, high)

    def p_above(self, threshold: float) -> float:
        """Return the one-sided p-value of "the true value is at most `threshold`"."""
        from scipy.special import betainc, stdtr  # imported here, as above

        if self.trials is None:
            return float(stdtr(self.clusters - 1, (threshold - self.value) / self.error))
        hits = self.value * self.trials  # hits and trials need not be whole numbers
        if hits > 0:
            return float(betainc(hits, self.trials - hits + 1, threshold))
        return 1.0

    def p_below(self, threshold: float) -> float:
        """Return the one-sided p-value of "the true value is at least `threshold`"."""
        end = 0.0 if self.trials is None else 1.0  # the misses of a rate are a rate, too
        return replace(self, value=end - self.value).p_above(end - threshold)

    def p_outside(self, threshold: float) -> float:
        """Return the p-value of "the true value is from −`threshold` to `threshold`"."""
        size = replace(self, value=abs(self.value))
        return min(1.0, size.p_above(threshold) + size.p_above(-threshold))

    def rows_to_decide(
        self, truth: float, threshold: float, *, rows: int, alpha: float, power: float
    ) -> int:
        """Return the number of rows needed to distinguish a true value from a threshold.

        Rows are assumed to be as informative as those of this estimate, whose number of clusters is
        corrected for the mean excess of a Poisson number that is at least `fewest`.

        Args:
            truth: the true value, on either side of the threshold.
            threshold: the threshold.
            rows: number of rows of this estimate.
            alpha: level of the one-sided test.
            power: probability with which the test should reject the threshold.
        """
        if self.trials is not None:
            return math.ceil(_trials_to_decide(truth, threshold, alpha, power) * rows / self.trials)
        from scipy.special import pdtrc, stdtrit  # imported here, as above

        excess = 1.0
        if self.fewest > 1:
            excess = pdtrc(self.fewest - 2, self.clusters) / pdtrc(self.fewest - 1, self.clusters)
        usual = rows / (2 - float(excess))  # average number of clusters in as many rows

        def is_enough(count: int) -> bool:
            # The squared error falls as 1 / rows, the part from pseudo-rows as 1 / rows².
            share = usual / count
            error = self.error * math.sqrt(
                share * (1 - self.pseudo + self.pseudo * min(1.0, share))
            )
            freedom = max(1.0, self.clusters / share - 1)
            return bool(
                (stdtrit(freedom, 1 - alpha) + stdtrit(freedom, power)) * error
                <= abs(truth - threshold)
            )

        return _find_fewest(is_enough)


def _trials_to_decide(truth: float, threshold: float, alpha: float, power: float) -> int:
    """Return the fewest independent trials at which the exact test of a rate has this power."""
    from scipy.stats import binom  # imported here, as above

    if truth < threshold:
        truth, threshold = 1 - truth, 1 - threshold

    def is_enough(trials: int) -> bool:
        needed = binom.isf(alpha, trials, threshold) + 1  # the fewest hits that the test rejects
        return bool(binom.sf(needed - 1, trials, truth) >= power)

    return _find_fewest(is_enough)


def _find_fewest(is_enough: Callable[[int], bool]) -> int:
    """Return the smallest number, from 1 to `_MOST`, that is enough, by bisection."""
    low, high = 0, 1
    while not is_enough(high) and high < _MOST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


def ratio(
    totals: Floats, weights: Floats, clusters: Codes, *, pseudo: float = 0.0
) -> ClusteredEstimate | str:
    """Return the ratio Σ totals / Σ weights, with the linearised standard error over clusters.

    A mean has weights of 1, a slope through the origin has totals x·y and weights x².

    Args:
        totals: one for each row.
        weights: one for each row, ≥ 0; a row of weight 0 does not count.
        clusters: the cluster of each row.
        pseudo: a sum of squares that is added to that of the residuals, so that rows without
            variance do not have an error of 0. With 1, differences of −1, 0 and 1 get the interval
            of Agresti and Min.

    Returns:
        The estimate, or why there is none: it needs two clusters.
    """
    import numpy as np

    counted = weights > 0
    _, codes = np.unique(clusters[counted], return_inverse=True)
    if len(codes) == 0 or (count := int(codes.max()) + 1) < 2:
        return "it needs at least two rows"
    sums = cluster_sums(np.column_stack([totals[counted], weights[counted]]), codes)
    whole = float(sums[:, 1].sum())
    value = float(sums[:, 0].sum()) / whole
    squares = float(((sums[:, 0] - value * sums[:, 1]) ** 2).sum()) * count / (count - 1) + pseudo
    if squares <= 0:
        return "it is the same in all rows, so its variation is unknown"
    return ClusteredEstimate(value, math.sqrt(squares) / whole, count, pseudo=pseudo / squares)


def rate(hits: Floats, trials: Floats, clusters: Codes) -> ClusteredEstimate | str:
    """Return the rate Σ hits / Σ trials, with its effective number of trials.

    That number follows from the variance over clusters, and is at most the number of trials. If all
    trials or none are hits, it is the number of clusters.

    Args:
        hits: each row's hits, from 0 to its trials.
        trials: each row's trials.
        clusters: the cluster of each row.

    Returns:
        The estimate, or why there is none: it needs two clusters.
    """
    # A rate has an interval even if all rows are equal.
    estimate = ratio(hits, trials, clusters, pseudo=1e-300)
    if isinstance(estimate, str):
        return estimate
    spread = estimate.value * (1 - estimate.value)
    if spread <= 0:
        effective = float(estimate.clusters)
    else:
        effective = min(float(trials.sum()), spread / max(estimate.error**2, 1e-12))
    return replace(estimate, trials=max(1.0, effective))


def jackknife(
    sums: Floats, statistic: Callable[[Floats], Floats], *, pseudo: Floats | None = None
) -> ClusteredEstimate | str:
    """Estimate a smooth function of sums over clusters, with the jackknife's standard error.

    Args:
        sums: one row for each cluster.
        statistic: computes the estimate for each row of totals; NaN if undefined.
        pseudo: rows that are added only for the standard error, so that it is not 0.

    Returns:
        The estimate, or why there is none.
    """
    import numpy as np

    if len(sums) < 2:
        return "it needs at least two rows"
    value = float(statistic(sums.sum(axis=0, keepdims=True))[0])
    with_pseudo = sums if pseudo is None else np.vstack([sums, pseudo])
    without_one = statistic(with_pseudo.sum(axis=0) - with_pseudo)
    count = len(with_pseudo)
    error = math.sqrt(float(((without_one - without_one.mean()) ** 2).sum()) * (count - 1) / count)
    if not math.isfinite(value) or not math.isfinite(error):
        return "judge and gold have the same value in all rows, or in all but one"
    return ClusteredEstimate(value, max(error, 1e-12), len(sums))


def alphas(totals: Floats) -> Floats:
    """Return Krippendorff's α of two raters for each row of totals.

    It is nominal for one-hot vectors, interval for scores.

    α is nominal for one-hot vectors, and interval for scores.

    Source: Krippendorff, Content Analysis (2004), chapter 11.
    """
    count, apart, first_squares, second_squares, first, second = agreement_parts(totals)
    pooled = 2 * count
    by_chance = 2 * (
        pooled * (first_squares + second_squares) - ((first + second) ** 2).sum(axis=1)
    )
    return chance_corrected(apart / count, by_chance / (pooled * (pooled - 1)))


def first_order_agreements(totals: Floats) -> Floats:
    """Return Gwet's AC1 for each row of totals of one-hot vectors.

    Source: Gwet, Computing inter-rater reliability and its variance in the presence of high
        agreement (2008).
    """
    count, apart, _, _, first, second = agreement_parts(totals)
    shares = (first + second) / (2 * count)[:, None]
    by_chance = (shares * (1 - shares)).sum(axis=1) / max(1, shares.shape[1] - 1)
    return chance_corrected(apart / (2 * count), 1 - by_chance)


def correlations(totals: Floats) -> Floats:
    """Return Pearson's correlation for each row of totals of scores; with ranks, Spearman's."""
    import numpy as np

    count, apart, first_squares, second_squares, first, second = agreement_parts(totals)
    first, second = first[:, 0], second[:, 0]
    product = (first_squares + second_squares - apart) / 2 - first * second / count
    spread = (first_squares - first**2 / count) * (second_squares - second**2 / count)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 1e-9, product / np.sqrt(spread), np.nan)
