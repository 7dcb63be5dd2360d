"""Agreement of judges with gold labels and with each other, and means of rewards.

The statistics are scipy's and scikit-learn's, except for κ with quadratic weights and α. A
statistic that is not defined for its input (one pair, a judge with constant verdicts) is left out
with a reason: it is never 0 and never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from judgegym.judges.core.judgment import Scale

    Floats: TypeAlias = NDArray[np.float64]
    Codes: TypeAlias = NDArray[np.int64]
    Ratings: TypeAlias = Sequence[Sequence[float | None]] | Floats
    RatingsOfOne: TypeAlias = Sequence[float | None] | Floats

Correlation = Literal["pearson", "spearman", "kendall_tau_b"]

SCORE_STATISTICS = (
    "exact_rate",
    "within_one_rate",
    "mae",
    "bias",
    "pearson",
    "spearman",
    "kendall_tau_b",
    "quadratic_kappa",
)
_RESAMPLES = 1000
VERDICT_STATISTICS = ("accuracy", "precision", "recall", "f1", "kappa")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Defined statistics by name, and for each undefined one the reason."""

    values: Mapping[str, float]
    undefined: Mapping[str, str]


def agreement_rule(gold: Collection[float], *, has_levels: bool) -> Callable[[float, float], bool]:
    """Return the rule whether a judge's raw score agrees with a gold score.

    `score --gold_column`, `--anchors` and `audit` all use it. On a scale of whole steps both scores
    must have the same nearest level; a score at a half step, gold too, has the upper level, as in
    `Scale.nearest`, `exact_rate` and κ. So every score has exactly one level: a mean of 3.5 agrees
    with gold 4 and not with 3. With "half a step or less" it would agree with both, which rewards
    judges that do not decide; with "less than half" it would never agree.

    Shares have no levels, so they must be equal (to 1e-9). Gold scores are shares if the judge's
    scale is not known, none is above 1, and some are between 0 and 1. If all gold scores are 0 or
    1, a score of 0.5 or more counts as 1.

    >>> (
    ...     agreement_rule([4], has_levels=True)(3.5, 4),
    ...     agreement_rule([0.75, 1], has_levels=False)(0.8, 0.75),
    ... )
    (True, False)

    Args:
        gold: all gold scores.
        has_levels: the judge's scale is known to have levels.

    Returns:
        A function of the judge's score (a NaN never agrees) and a gold score.
    """
    if not has_levels and any(0 < score < 1 for score in gold) and max(gold) <= 1:
        return lambda judge, gold: abs(judge - gold) <= 1e-9
    return lambda judge, gold: (judge + 0.5) // 1 == (gold + 0.5) // 1


def score_agreement(judge: Sequence[float], gold: Sequence[float], scale: Scale) -> Agreement:
    """Compare a judge's scores with gold scores of the same items.

    `exact_rate` and `within_one_rate` (0 to 1) and `quadratic_kappa` compare the nearest levels of
    the scale, since a mean of several scores may lie between two; `mae`, `bias` (judge − gold, in
    points of the scale), `pearson`, `spearman` and `kendall_tau_b` take the scores as they are.

    Args:
        judge: the judge's scores.
        gold: the gold scores of the same rows.
        scale: the scale whose levels are the labels of kappa.

    Source:
        Cohen, Weighted kappa (1968), with quadratic weights; Kendall's tau-b, which corrects for
        ties.
    """
    if not judge:
        return Agreement({}, dict.fromkeys(SCORE_STATISTICS, "no item has both scores"))
    import numpy as np  # imported late: only runs with gold scores need it

    differences = np.subtract(judge, gold)
    near_judge, near_gold = ([scale.nearest(score) for score in scores] for scores in (judge, gold))
    steps = np.abs(np.subtract(near_judge, near_gold))
    values: dict[str, float | str] = {
        "exact_rate": float(np.mean(steps == 0)),
        "within_one_rate": float(np.mean(steps <= 1)),
        "mae": float(np.mean(np.abs(differences))),
        "bias": float(np.mean(differences)),
        "pearson": correlation("pearson", judge, gold),
        "spearman": correlation("spearman", judge, gold),
        "kendall_tau_b": correlation("kendall_tau_b", judge, gold),
        "quadratic_kappa": quadratic_kappa(near_judge, near_gold),
    }
    return _split_defined(values)


def verdict_agreement(judge: Sequence[bool], gold: Sequence[bool]) -> Agreement:
    """Compare a judge's yes/no verdicts with gold verdicts of the same items.

    `accuracy`, `precision`, `recall` and `f1` (of yes; 0 to 1) and Cohen's `kappa`.
    """
    if not judge:
        return Agreement({}, dict.fromkeys(VERDICT_STATISTICS, "no item has both verdicts"))
    from sklearn import metrics  # imported late: this takes half a second

    pairs, any_yes = (gold, judge), any((*judge, *gold))
    values: dict[str, float | str] = {"accuracy": float(metrics.accuracy_score(*pairs))}
    values["precision"] = "the judge never says yes"
    if any(judge):
        values["precision"] = float(metrics.precision_score(*pairs))
    values["recall"] = "gold is never yes"
    if any(gold):
        values["recall"] = float(metrics.recall_score(*pairs))
    values["f1"] = "neither judge nor gold is ever yes"
    if any_yes:
        values["f1"] = float(metrics.f1_score(*pairs))
    same = len({*judge, *gold}) == 1
    values["kappa"] = "judge and gold are always the same"
    if not same:
        values["kappa"] = float(metrics.cohen_kappa_score(*pairs))
    return _split_defined(values)


def correlation(kind: Correlation, first: RatingsOfOne, second: RatingsOfOne) -> float | str:
    """Return a correlation from −1 to 1 over the items with both values, or why there is none.

    `None` and NaN count as missing.

    It is undefined for fewer than two items, and if one side is constant.
    """
    sides = _common_values(first, second)
    if len(sides[0]) < 2:
        return "fewer than two items"
    for side in sides:
        if len(set(side)) == 1:
            return f"one side gives {side[0]:g} to every item"
    from scipy import stats  # imported late: this takes half a second

    compute = {
        "pearson": stats.pearsonr,
        "spearman": stats.spearmanr,
        "kendall_tau_b": stats.kendalltau,
    }[kind]
    return float(compute(*sides).statistic)


def krippendorff_alpha(ratings: Ratings) -> float | str:
    """Return Krippendorff's alpha for intervals: 1 is full agreement, 0 agreement by chance.

    For squared differences, sums over an item's ratings suffice: Σ (x − y)² over all ordered pairs
    of n numbers is 2n Σ x² − 2 (Σ x)². The library krippendorff builds a table with a cell for each
    item and each pair of values.

    Args:
        ratings: for each judge, a rating of each item; `None` or NaN where there is none.

    Returns:
        Alpha, or why it is undefined.

    Source:
        Krippendorff, Content Analysis (2004), chapter 11.
    """
    import numpy as np

    cells = np.array(ratings, dtype=float)
    paired = cells[..., np.isfinite(cells).sum(axis=0) > 1]
    if not paired.size:
        return "no item has the ratings of two judges"
    if np.nanmin(paired) == np.nanmax(paired):
        return "all ratings are the same"

    def squares(count: Floats, total: Floats, squared: Floats) -> Floats:
        return 2.0 * count * squared - 2.0 * total**2

    counts = np.isfinite(paired).sum(axis=0).astype(float)
    centred = paired - np.nanmean(paired)  # avoids cancellation of large numbers
    sums, of_squares = np.nansum(centred, axis=0), np.nansum(centred**2, axis=0)
    observed = (squares(counts, sums, of_squares) / (counts - 1)).sum()
    expected = squares(counts.sum(), sums.sum(), of_squares.sum()) / (counts.sum() - 1)
    return float(1 - observed / expected)


def quadratic_kappa(first: RatingsOfOne, second: RatingsOfOne) -> float | str:
    """Return Cohen's kappa with quadratic weights of rows with both values, or why there is none.

    1 − Σ (x − y)² / Σ of all pairs of an x and a y, (x − y)². Of verdicts 0 and 1 it is Cohen's
    kappa; scores may be any numbers. It is Lin's coefficient of concordance, too.

    Source:
        Cohen, Weighted kappa (1968); Krippendorff (1970) on its equality with the intraclass
        correlation.
    """
    first_values, second_values = _common_values(first, second)
    if not len(first_values):
        return "no row has both values"
    by_chance = (
        first_values.var() + second_values.var() + (first_values.mean() - second_values.mean()) ** 2
    )
    if by_chance < 1e-18:
        return "both give one and the same value to every row"
    return float(1.0 - ((first_values - second_values) ** 2).mean() / by_chance)


def _common_values(first: RatingsOfOne, second: RatingsOfOne) -> tuple[Floats, Floats]:
    """Return the values of the items with both.

    Raises:
        ValueError: the sides have different numbers of values.
    """
    import numpy as np  # imported late: this takes 0.2 s

    if len(first) != len(second):
        counts = len(first), len(second)
        raise ValueError(f"{counts[0]} ratings of one judge, {counts[1]} of the other")
    first_values, second_values = np.array(first, dtype=float), np.array(second, dtype=float)
    both = np.isfinite(first_values) & np.isfinite(second_values)
    return first_values[both], second_values[both]


def _split_defined(values: Mapping[str, float | str]) -> Agreement:
    """Split values into the finite ones, and the reasons for the others."""
    numbers = {name: value for name, value in values.items() if isinstance(value, float)}
    defined = {name: value for name, value in numbers.items() if math.isfinite(value)}
    reasons = {
        name: value if isinstance(value, str) else f"not a finite number ({value})"
        for name, value in values.items()
        if name not in defined
    }
    return Agreement(defined, reasons)


@dataclass(frozen=True, slots=True)
class Interval:
    """The bounds of an interval, in the unit of the statistic."""

    low: float
    high: float


def exact_mean(numbers: Sequence[float]) -> float:
    """Return the mean; the mean of equal numbers is exactly that number.

    So rounding errors give the group no signal.
    """
    if len(set(numbers)) == 1:
        return numbers[0]
    return math.fsum(numbers) / len(numbers)


def clipped_mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value, clipped to 0…1; the values may be outside of it."""
    return min(1.0, max(0.0, math.fsum(values) / len(values)))


def clipped_mean_std(values: Sequence[float], *, seed: int = 0) -> float:
    """Return the standard deviation of `clipped_mean` over resamples with replacement.

    Args:
        values: at least one.
        seed: seed of numpy's default generator, which draws the places of one resample after the
            other.

    Source:
        openai/simple-evals, `healthbench_eval.py`: `bootstrap_std`, with division by the number of
        rounds.
    """
    import numpy as np  # late: as above

    scores, generator = np.asarray(values, dtype=float), np.random.default_rng(seed)
    means = [
        scores[generator.integers(0, len(scores), size=len(scores))].mean()
        for _ in range(_RESAMPLES)
    ]
    return float(np.std(np.clip(means, 0.0, 1.0)))


def expected_minimum(values: Sequence[float], size: int) -> float:
    """Return the mean of the least value over all choices of `size` of the values.

    `size` is from 1 to their number.
    """
    lowest_first, count = sorted(values), len(values)
    ways = (math.comb(count - place, size - 1) for place in range(1, count + 1))
    return sum(value * ways for value, ways in zip(lowest_first, ways, strict=True)) / math.comb(
        count, size
    )


def side(score: float) -> int:
    """Return the verdict of a score from 0 to 1: its side of ½ as −1 or 1, or 0 at ½."""
    rounded = round(score, 9)
    return (rounded > 0.5) - (rounded < 0.5)


def sides(scores: Floats) -> Floats:
    """Return the verdicts of scores from 0 to 1: the side of ½ as −1 or 1, 0 at ½, NaN of NaN."""
    import numpy as np  # late: as above

    signs: Floats = np.sign(np.round(scores, 9) - 0.5)
    return signs


def cluster_sums(values: Floats, clusters: Codes) -> Floats:
    """Sum the columns of values over the rows of each cluster.

    Clusters are numbered from 0 without a gap.
    """
    import numpy as np

    return np.column_stack([np.bincount(clusters, column) for column in values.T])


def agreement_sums(first: Floats, second: Floats, clusters: Codes) -> Floats:
    """Return the sums over clusters that the statistics of agreement are made of.

    Args:
        first: a vector for each label of the first side: one-hot, or the score alone.
        second: the same for the labels of the second side.
        clusters: the cluster of each label.

    Returns:
        Of each cluster: the number of labels, Σ |x − y|², Σ |x|², Σ |y|², Σ x, Σ y.
    """
    import numpy as np

    apart = ((first - second) ** 2).sum(axis=1)
    squares = (first**2).sum(axis=1), (second**2).sum(axis=1)
    return cluster_sums(
        np.column_stack([np.ones(len(first)), apart, *squares, first, second]), clusters
    )


def kappas(totals: Floats) -> Floats:
    """Return Cohen's κ of each row of totals (`agreement_sums`), NaN where undefined.

    Scores have quadratic weights.

    Source: Cohen (1960, 1968): 1 − Σ |x − y|² / E Σ |x − y|².
    """
    count, apart, first_squares, second_squares, first, second = agreement_parts(totals)
    by_chance = (first_squares + second_squares) / count - 2 * (first * second).sum(
        axis=1
    ) / count**2
    return chance_corrected(apart / count, by_chance)


def agreement_parts(totals: Floats) -> tuple[Floats, ...]:
    """Split totals of `agreement_sums` into the single sums."""
    size = (totals.shape[1] - 4) // 2
    return (*totals[:, :4].T, totals[:, 4 : 4 + size], totals[:, 4 + size :])


def chance_corrected(observed: Floats, by_chance: Floats) -> Floats:
    """Return 1 − observed / by chance; NaN where chance allows no disagreement."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by_chance > 1e-12, 1 - observed / by_chance, np.nan)
