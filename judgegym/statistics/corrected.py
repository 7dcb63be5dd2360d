"""Means and rates of a judge, corrected by human labels of a random part of the rows.

N rows have a value of the judge, n of them a label too. The estimate is prediction-powered (PPI++):
θ = λ·mean(judge on unlabelled) + mean(label − λ·judge on labelled). For every λ, and however bad
the judge is, it is centred on the mean of the labels of all rows. Its variance is smallest with λ =
cov(label, judge) / ((1 + n/N_u)·var(judge)), clipped to 0…1. With λ = 0 the judge adds nothing and
the labels alone count. So it is for a constant judge, for one that is unrelated to the labels, and
where no row is left without a label (N_u = 0).

Intervals are for the population that the rows come from. That of a mean on a scale with two ends is
mid-P's generalisation (`intervals`) over the labels' shares in the error of θ, where λ takes a
degree of freedom: one further label is at either end while the judge is as usual, so that labels
which are mostly at one end, or all the same, have an interval that holds the truth. That of a mean
without known ends is θ ± t·√v. That of a rate is Wilson's at the effective number of labels
θ(1−θ)/v: with few labels, or a judge that is nearly always right, θ ± t·√v covers the truth in 57 %
to 90 % of samples. Two pseudo-labels are added to each class, of which the judge has half right,
before v and the θ of θ(1−θ) are computed; v is multiplied by (n + 2)/n. A rate is a mean of values
from 0 to 1, so a tie may count 0.5.

Source:
    Angelopoulos, Duchi and Zrnic, PPI++: Efficient Prediction-Powered Inference (2023), whose λ and
    point these are; Wilson, Probable inference (1927); Cochran, Sampling Techniques (1977),
    sections 5.3 (strata) and 9.3 (clusters).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from judgegym.statistics.agreement import Interval
from judgegym.statistics.intervals import Ends, estimate_share_mean

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Codes, Floats

FEWEST_LABELS = 2
"""Minimum number of labels for an estimate, in each stratum too."""
TOP_UP = 10
"""Labels to add at a time until an interval is narrow enough; stopping keeps the coverage."""
_PLAN_MARGIN = 1.04  # factor of the variance, for the t quantile and the pseudo-labels
_PLAN_REACH = 1.2816  # standard errors of the pilot's estimates to both sides: a range of 80 %

MeanKind = Literal["rate", "mean"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its interval."""

    value: float
    interval: Interval

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.interval.high - self.interval.low) / 2


@dataclass(frozen=True, slots=True)
class CorrectedMean(Estimate):
    """The mean of a judge's values, corrected by labels.

    Attributes:
        value: the corrected mean; of a rate clipped to 0…1.
        interval: its interval.
        raw: the mean of the judge's values over all rows.
        labels_only: the mean of the labels without the judge; with strata, each stratum counts by
            its number of rows.
        weight: λ, the weight of the judge's values, from 0 to 1.
        effective_labels: the number of labels of random rows that would give the same variance
            without the judge.
        labels: n, the number of labelled rows.
        rows: N, the number of all rows.
        variance: the variance of one label; with clusters n times the variance of the mean of n
            labels.
        variance_error: its relative standard error.
    """

    raw: float
    labels_only: Estimate
    weight: float
    effective_labels: float
    labels: int
    rows: int
    variance: float
    variance_error: float


@dataclass(frozen=True, slots=True)
class LabelCount:
    """Number of labels that an interval takes in all; `None` if there are too few rows.

    `fewest` and `most` are a range of 80 %: few labels estimate the judge's correlation and the
    variance only roughly.
    """

    fewest: int | None
    expected: int | None
    most: int | None


def corrected_mean(
    judge: Floats,
    labels: Floats,
    *,
    kind: MeanKind,
    strata: Codes | None = None,
    clusters: Codes | None = None,
    ends: Ends | None = None,
    level: float = 0.95,
) -> CorrectedMean | str:
    """Correct the mean of a judge's values by labels.

    The difference of two systems on the same rows is the mean of their differences. These vary less
    from row to row than either system does, so that the interval is narrower than two separate ones
    imply.

    Args:
        judge: the judge's value of each of N rows, finite.
        labels: the label of each row on the same scale, NaN where there is none. The labelled rows
            are a random sample of all rows, or of those of each stratum.
        kind: `rate` for means of values from 0 to 1, `mean` for others, such as scores and
            differences.
        strata: for each row the number of its stratum in the draw of labels. Each stratum counts by
            its number of rows.
        clusters: for each row the number of its cluster of dependent rows, such as several
            responses to a prompt. The variance is that of the clusters' sums.
        ends: the ends of the scale of a mean, such as 1 and 5, or −4 and 4 for differences of two
            scores; `None` if they are not known. The ends of a rate are 0 and 1.
        level: coverage of the intervals.

    Returns:
        The corrected mean, or why there is none: there are fewer than two labels (in a stratum, or
        in all clusters), or a mean's ends are not known and its labels are all equal, so that
        their variance is not known.

    Raises:
        ValueError: columns of different lengths, a value of the judge that is not finite, a rate
            outside of 0…1.
    """
    import numpy as np  # late, as everywhere in this package

    if any(
        len(column) != len(judge) for column in (labels, strata, clusters) if column is not None
    ):
        count = len(judge)
        raise ValueError(
            f"{count} values of the judge, and labels, strata or clusters of another number of rows"
        )
    known_labels = labels[np.isfinite(labels)]
    if not np.isfinite(judge).all():
        raise ValueError("a value of the judge is not a finite number")
    if kind == "rate" and any(
        ((column < 0) | (column > 1)).any() for column in (judge, known_labels)
    ):
        raise ValueError("a rate is a mean of values from 0 to 1")
    sample = _Sample(judge, labels, kind, strata, clusters, ends)
    if (reason := sample.refusal) is not None:
        return reason
    weight, alone = sample.weight(), sample.fit(0.0)
    only = sample.estimate(alone, level)
    fit, estimate = alone, only
    if weight > 0:
        fit = sample.fit(weight)
        estimate = sample.estimate(fit, level)
    count, simple = len(known_labels), alone.variance
    if len(sample.strata) != 1:
        simple = sample.simple_variance()
    squares = (known_labels - known_labels.mean()) ** 2
    effective_labels, variance, variance_error = float(count), count * simple, 0.0
    if fit.variance > 0:
        effective_labels = count * simple / fit.variance
    if not simple > 0:  # also where it is not a number
        variance = sample.estimate_end_variance()
    if squares.any():
        variance_error = float(squares.std() / squares.mean() / math.sqrt(count))
    return CorrectedMean(
        value=estimate.value,
        interval=estimate.interval,
        raw=float(judge.mean()),
        labels_only=only,
        weight=weight,
        effective_labels=effective_labels,
        labels=count,
        rows=len(judge),
        variance=variance,
        variance_error=variance_error,
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """θ with a weight, its variance v, and values to compute its interval.

    They are θ with the pseudo-labels for a rate, and the shares in its error for a mean.

    Attributes:
        shares: the share of each cluster with a label.
        noise: the standard error of all other clusters together.
    """

    weight: float
    value: float
    variance: float
    smoothed: float
    shares: Floats
    noise: float


class _Sample:
    """Labelled and unlabelled rows by stratum; without strata there is one."""

    def __init__(
        self,
        judge: Floats,
        labels: Floats,
        kind: MeanKind,
        strata: Codes | None,
        clusters: Codes | None,
        ends: Ends | None,
    ) -> None:
        """Keep the columns and the indices of each stratum's labelled and unlabelled rows."""
        import numpy as np

        self.judge, self.labels, self.kind, self.ends = judge, labels, kind, ends
        self.clusters: Codes = np.arange(len(judge))
        if clusters is not None:
            self.clusters = np.unique(clusters, return_inverse=True)[1]
        self.is_clustered = clusters is not None
        self.labelled = np.isfinite(labels)
        self.count = int(self.labelled.sum())
        codes = np.zeros(len(judge), np.int64) if strata is None else strata
        self.strata = [
            (np.flatnonzero(within & self.labelled), np.flatnonzero(within & ~self.labelled))
            for within in (codes == code for code in np.unique(codes))
        ]
        self.groups = len(np.unique(self.clusters[self.labelled]))
        self.freedom = self.groups - len(self.strata)

    @property
    def refusal(self) -> str | None:
        """Why there is no estimate."""
        import numpy as np

        fewest = min(len(labelled) for labelled, _ in self.strata)
        if fewest < FEWEST_LABELS:
            where = "" if len(self.strata) == 1 else " in a stratum"
            plural = "s" if fewest != 1 else ""
            return f"{fewest} label{plural}{where}; at least {FEWEST_LABELS} are needed"
        if self.freedom < 1:
            return f"the labels are of {self.groups} independent groups of rows, which are too few"
        if self.kind == "mean" and self.ends is None and np.ptp(self.labels[self.labelled]) == 0:
            return "all labels are equal, so their variance is not known"
        return None

    def weight(self) -> float:
        """Return λ: the weight with the smallest variance over strata; with one stratum PPI++'s."""
        import numpy as np

        covariance = variance = 0.0
        for labelled, unlabelled in self.strata:
            rows = np.concatenate([labelled, unlabelled])
            # The variance of equal numbers may be rounded to > 0.
            if not len(unlabelled) or np.ptp(self.judge[rows]) == 0:
                continue
            share, values = (len(rows) / len(self.judge)) ** 2, self.judge[labelled]
            products = (self.labels[labelled] - self.labels[labelled].mean()) * (
                values - values.mean()
            )
            covariance += share * float(products.mean()) / len(labelled)
            variance += (
                share
                * float(self.judge[rows].var(ddof=1))
                * (1 / len(labelled) + 1 / len(unlabelled))
            )
        if variance > 0:
            return min(1.0, max(0.0, covariance / variance))
        return 0.0

    def fit(self, weight: float) -> _Fit:
        """Return θ and its variance.

        Each row has a share in the error of θ. The shares of a cluster are added up before they are
        squared.
        """
        import numpy as np

        shares, value, smoothed, added = np.zeros(len(self.judge)), 0.0, 0.0, 0.0
        for labelled, unlabelled in self.strata:
            part = (len(labelled) + len(unlabelled)) / len(self.judge)
            rectified, used = self.labels[labelled], weight if len(unlabelled) else 0.0
            if used:  # a stratum with all labels does not need the judge
                rectified, judged = rectified - used * self.judge[labelled], self.judge[unlabelled]
                middle = float(judged.mean())
                shares[unlabelled] = (
                    part * used * (judged - middle) / len(unlabelled) * _bessel(len(unlabelled))
                )
                value += part * used * middle
            total = float(rectified.sum())
            value += part * total / len(labelled)
            # How many times a pseudo-label counts.
            times = len(labelled) / self.count if self.kind == "rate" else 0.0
            size = len(labelled) + 4 * times
            mean = (total + times * (2 - 2 * used)) / size
            smoothed += part * (mean + used * middle if used else mean)
            factor = part / size * _bessel(size)
            shares[labelled] = factor * (rectified - mean)
            # Labels of 1 and 0, with the judge right and wrong.
            pseudo = (1.0 - used, 1.0, -used, 0.0)
            added += times * factor**2 * sum((label - mean) ** 2 for label in pseudo)
        sums, factor = np.bincount(self.clusters, shares).astype(float), 1.0
        if self.is_clustered:
            factor = (_bessel(self.groups) / _bessel(self.count)) ** 2
        if self.kind == "mean" and weight > 0:  # λ is estimated, as a slope is
            factor *= (self.groups - 1) / max(self.groups - 2, 1)
        variance = float(sums @ sums) * factor
        if self.kind == "rate":
            variance = (variance + added) * (self.count + 2) / self.count
        sums *= math.sqrt(factor)
        has_label = np.bincount(self.clusters, self.labelled) > 0
        noise = math.sqrt(float((sums[~has_label] ** 2).sum()))
        return _Fit(weight, value, variance, smoothed, sums[has_label], noise)

    def simple_variance(self) -> float:
        """Return the variance of a mean of as many labels drawn at random over all strata."""
        mean = square = 0.0
        for labelled, unlabelled in self.strata:
            part, values = (
                (len(labelled) + len(unlabelled)) / len(self.judge),
                self.labels[labelled],
            )
            mean += part * float(values.mean())
            square += part * (float(values.mean()) ** 2 + float(values.var(ddof=1)))
        return (square - mean**2) / self.count

    def estimate_end_variance(self) -> float:
        """Return the variance of labels that are all the same.

        It is computed as if one more label were at either end.
        """
        assert self.ends is not None
        label = float(self.labels[self.labelled][0])
        return ((label - self.ends.low) ** 2 + (self.ends.high - label) ** 2) / 2 / (self.count + 1)

    def estimate(self, fit: _Fit, level: float) -> Estimate:
        """Return θ with its interval.

        For a rate of independent labelled rows only, it is Wilson's interval.
        """
        if self.kind == "mean" and self.ends is not None:
            value = min(self.ends.high, max(self.ends.low, fit.value))
            mean_estimate = estimate_share_mean(value, fit.shares, self.ends, noise=fit.noise)
            return Estimate(value, mean_estimate.interval(level))
        reach = t_quantile(level, self.freedom)
        if self.kind == "mean":
            half = reach * math.sqrt(fit.variance)
            return Estimate(fit.value, Interval(fit.value - half, fit.value + half))
        # The end for labels that are all equal.
        value, end = min(1.0, max(0.0, fit.value)), 2 / (self.count + 4)
        smoothed = min(1 - end, max(end, fit.smoothed))
        size = smoothed * (1 - smoothed) / fit.variance
        if fit.weight == 0 and len(self.strata) == 1 and not self.is_clustered:
            size, reach = float(self.count), t_quantile(level)
        return Estimate(value, wilson(value, size, reach))


def _bessel(size: float) -> float:
    """Return the factor that corrects the deviations of a sample for their mean (Bessel)."""
    if size > 1:
        return math.sqrt(size / (size - 1))
    return 1.0


def wilson(rate: float, size: float, reach: float) -> Interval:
    """Return Wilson's interval of a rate over `size` rows, perhaps a fraction."""
    square = reach**2 / size
    half = reach * math.sqrt(rate * (1 - rate) / size + square / (4 * size)) / (1 + square)
    middle = (rate + square / 2) / (1 + square)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def t_quantile(level: float, freedom: float = math.inf) -> float:
    """Return how many standard errors an interval reaches.

    With infinite degrees of freedom it is the normal quantile.
    """
    from scipy.special import stdtrit  # imported late; `scipy.stats` would take half a second

    return float(stdtrit(freedom, (1 + level) / 2))


def labels_needed(estimate: CorrectedMean, half_width: float) -> LabelCount:
    """Return how many labels make the 95 % interval ± `half_width`, judging by those so far.

    They are drawn at random; the count includes the labels so far.

    The smallest n with z²σ²/n · (1 − r²(N − n)/N) · 1.04 ≤ half_width², where r is the correlation
    of labels and judge. The range takes the ends of the intervals of r (by Fisher's z) and of σ².
    """
    count, rows = estimate.labels, estimate.rows
    explained = 0.0
    if rows > count:
        explained = (1 - count / estimate.effective_labels) * rows / (rows - count)
    r = math.sqrt(min(max(explained, 0.0), 0.9999))
    reach = _PLAN_REACH / math.sqrt(max(count - 3, 1))
    factor = _PLAN_MARGIN * t_quantile(0.95) ** 2 * estimate.variance
    spread = _PLAN_REACH * estimate.variance_error

    def fewest(r: float, factor: float) -> int | None:
        room = half_width**2 - factor * r**2 / rows
        needed = math.inf
        if room > 0:
            needed = factor * (1 - r**2) / room
        if needed > rows:
            return None
        return math.ceil(needed)

    return LabelCount(
        fewest(math.tanh(math.atanh(r) + reach), factor * max(0.0, 1 - spread)),
        fewest(r, factor),
        fewest(max(0.0, math.tanh(math.atanh(r) - reach)), factor * (1 + spread)),
    )


def labels_to_add(estimate: CorrectedMean, half_width: float) -> int:
    """Return how many labels to add next: ten, or the remaining ones.

    0 if the interval is ± `half_width` or narrower.
    """
    if estimate.half_width <= half_width:
        return 0
    return min(TOP_UP, estimate.rows - estimate.labels)
