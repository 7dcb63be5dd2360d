"""Agreement of judges with gold labels and with each other.

The statistics are computed by scipy, scikit-learn and krippendorff. A statistic that is not defined for its input (one
pair, a judge with constant verdicts) is left out with a reason: it is never 0 and never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judges.core.scale import Scale

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
VERDICT_STATISTICS = ("accuracy", "precision", "recall", "f1", "kappa")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Defined statistics by name, and for each undefined one the reason."""

    values: Mapping[str, float]
    undefined: Mapping[str, str]


def score_agreement(judge: Sequence[float], gold: Sequence[float], scale: Scale) -> Agreement:
    """A judge's scores against gold scores of the same items.

    `exact_rate` and `within_one_rate` (0 to 1) and `quadratic_kappa` compare the nearest levels of the scale, since a
    mean of several scores may lie between two; `mae`, `bias` (judge − gold, in points of the scale), `pearson`,
    `spearman` and `kendall_tau_b` take the scores as they are.

    Args:
        judge: the judge's scores.
        gold: as many gold scores.
        scale: its levels are the labels of kappa, including those that do not occur.

    Source:
        Cohen, Weighted kappa (1968), with quadratic weights; Kendall's tau-b, which corrects for ties.
    """
    if not judge:
        return Agreement({}, dict.fromkeys(SCORE_STATISTICS, "no item has both scores"))
    import numpy as np  # late, with sklearn: half a second, at the end of a run with gold scores
    from sklearn.metrics import cohen_kappa_score

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
        "quadratic_kappa": "judge and gold give one and the same score to every item",
    }
    if len({*near_judge, *near_gold}) > 1:
        kappa = cohen_kappa_score(near_judge, near_gold, labels=list(scale.levels), weights="quadratic")
        values["quadratic_kappa"] = float(kappa)
    return _agreement(values)


def verdict_agreement(judge: Sequence[bool], gold: Sequence[bool]) -> Agreement:
    """A judge's yes/no verdicts against gold verdicts of the same items.

    `accuracy`, `precision`, `recall` and `f1` (of yes; 0 to 1) and Cohen's `kappa`.
    """
    if not judge:
        return Agreement({}, dict.fromkeys(VERDICT_STATISTICS, "no item has both verdicts"))
    from sklearn.metrics import (  # late: as above
        accuracy_score,
        cohen_kappa_score,
        f1_score,
        precision_score,
        recall_score,
    )

    values: dict[str, float | str] = {"accuracy": float(accuracy_score(gold, judge))}
    values["precision"] = float(precision_score(gold, judge)) if any(judge) else "the judge never says yes"
    values["recall"] = float(recall_score(gold, judge)) if any(gold) else "gold is never yes"
    values["f1"] = float(f1_score(gold, judge)) if any((*judge, *gold)) else "neither judge nor gold is ever yes"
    same = len({*judge, *gold}) == 1
    values["kappa"] = "judge and gold are always the same" if same else float(cohen_kappa_score(gold, judge))
    return _agreement(values)


def correlation(kind: Correlation, first: Sequence[float], second: Sequence[float]) -> float | str:
    """A correlation from −1 to 1, or why it is undefined: fewer than two items, or one side is constant."""
    if len(first) < 2:
        return "fewer than two items"
    for side in (first, second):
        if len(set(side)) == 1:
            return f"one side gives {side[0]:g} to every item"
    from scipy import stats  # late: half a second, at the end of a run with gold scores

    compute = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall_tau_b": stats.kendalltau}[kind]
    return float(compute(first, second).statistic)


def krippendorff_alpha(
    ratings: Sequence[Sequence[float | None]], *, level: Literal["nominal", "ordinal", "interval"] = "interval"
) -> float | str:
    """Krippendorff's alpha: 1 is full agreement, 0 agreement by chance.

    Args:
        ratings: for each judge, a rating of each item or `None`.
        level: level of measurement.

    Returns:
        Alpha, or why it is undefined.

    Source:
        Krippendorff, Content Analysis (2004), chapter 11.
    """
    import krippendorff  # late: it imports scipy, which the end of a peer evaluation alone needs
    import numpy as np

    cells = np.array([[math.nan if value is None else value for value in row] for row in ratings], dtype=float)
    if cells.size == 0 or not (np.isfinite(cells).sum(axis=0) > 1).any():
        return "no item has the ratings of two judges"
    paired = cells[:, np.isfinite(cells).sum(axis=0) > 1]
    if np.nanmin(paired) == np.nanmax(paired):
        return "all ratings are the same"
    return float(krippendorff.alpha(reliability_data=cells, level_of_measurement=level))


def rank_correlation(first: Sequence[float | None], second: Sequence[float | None]) -> float | str:
    """Spearman's correlation over the items that both judges rated, or why it is undefined."""
    pairs = [(one, other) for one, other in zip(first, second, strict=True) if one is not None and other is not None]
    return correlation("spearman", [one for one, _ in pairs], [other for _, other in pairs])


def _agreement(values: Mapping[str, float | str]) -> Agreement:
    """The finite values, and the reasons for the others."""
    defined = {name: value for name, value in values.items() if isinstance(value, float) and math.isfinite(value)}
    reasons = {
        name: value if isinstance(value, str) else f"not a finite number ({value})"
        for name, value in values.items()
        if name not in defined
    }
    return Agreement(defined, reasons)
