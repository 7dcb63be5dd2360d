"""Biases of a judge: regressions of its verdicts on properties of responses, with gold held fixed.

For choices, a record is a pair: the chosen response and one of the row's others. The log odds that
it is chosen are linear in the differences of both responses: gold (1, 0 or −1), position (first or
later), and the properties. There is no constant, since a pair has no fixed side. With two responses
this is the logistic regression of the choice; with more it is the conditional one, by pairs. For
labels yes and no it is the logistic regression of yes; for scores the linear regression of the
score. Both regress on gold, a constant and the properties.

Properties without a unit (length, markdown, lists, each by its logarithm) enter as tanh of their
difference in standard deviations, because twice the difference does not sway twice as much. An
effect is a difference of probabilities: how much more often a response is chosen (or gets a yes) if
the property is one standard deviation larger, or present at all, with all else equal, averaged over
the pairs seen from both sides.

Gold separates the verdicts of a good judge, so coefficients have the prior log-F(1, 1), which is
one record of one half for each. Standard errors are robust to clusters: both orders and all pairs
of a row are one cluster. If few clusters differ in a property, such an error is too small in most
samples. So in a logistic regression it is moderated: its square is averaged with that of the model,
inflated as all coefficients together are, with the weights `MODEL_CLUSTERS` and the number of those
clusters.

A property is not measured if it differs within fewer than ten clusters.

Sources: McFadden, Conditional logit analysis (1974); Dubois et al., Length-Controlled AlpacaEval
(2024), for tanh; Greenland and Mansournia, Penalization, bias reduction, and default priors in
logistic and related regressions (2015); Liang and Zeger, Longitudinal data analysis using
generalized linear models (1986), MacKinnon and White, Some heteroskedasticity-consistent covariance
matrix estimators with improved finite sample properties (1985), and Smyth, Linear models and
empirical Bayes methods (2004), for the errors, their residuals, and their moderation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from judgegym.judges.config.extras import report_missing_extra
from judgegym.statistics.agreement import cluster_sums
from judgegym_trials.audit.clustered import ClusteredEstimate
from judgegym_trials.audit.features import (
    INSTRUCTION,
    KEY,
    LENGTH,
    LIST,
    MARKDOWN,
    OWN,
    STANDARDISED,
)
from judgegym_trials.audit.judgments import SWAPPED, TIE, Judgments

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Codes, Floats

FEWEST = 10
"""Minimum number of clusters in which a property differs."""
MODEL_CLUSTERS = 20
"""Weight of the model's error against the robust one, in clusters."""


@dataclass(frozen=True, slots=True)
class _Records:
    """Records of a regression: outcome, fixed regressors, properties by name, clusters."""

    outcome: Floats
    fixed: Floats
    properties: Mapping[str, Floats]
    clusters: Codes


def measure_effects(judgments: Judgments) -> Mapping[str, ClusteredEstimate | str]:
    """Return the effect of each property on the judge's verdicts.

    Gold, place and the other properties are held fixed.

    Returns:
        The effect by check, or why it is not measured: the property differs within fewer than
        ten clusters.
    """
    names = (LENGTH, MARKDOWN, LIST, OWN, KEY, INSTRUCTION)
    measured: dict[str, ClusteredEstimate | str] = dict.fromkeys(
        names, "the texts of the responses were not recorded"
    )
    measured[OWN] = "who wrote the responses, or the judge's family, is not known"
    if not judgments.features:
        return measured
    if judgments.kind == "label" and len(judgments.levels) != 2:
        count = len(judgments.levels)
        return dict.fromkeys(measured, f"it needs two labels, and there are {count}")
    is_pair = judgments.kind == "choice"
    records = _collect_pairs(judgments) if is_pair else _collect_single(judgments)
    columns: list[Floats] = []
    steps: list[float] = []
    informative: dict[str, int] = {}
    for name, values in records.properties.items():
        rows = len(np.unique(records.clusters[find_differing(values, is_pair=is_pair)]))
        if rows < FEWEST:
            measured[name] = f"it needs {FEWEST} rows that differ in it, and there are {rows}"
            continue
        # Single responses are centred, and pairs have no side.
        deviation = float(np.sqrt(np.mean(values**2)))
        if name in STANDARDISED:
            columns.append(np.tanh(values / deviation))
            steps.append(math.tanh(1))
        else:
            columns.append(values)
            steps.append(1.0)
        informative[name] = rows
    if columns:
        design = np.column_stack([records.fixed, *columns])
        rows_of = list(informative.values())
        if judgments.kind == "score":
            estimates = _fit_linear(records, design, steps)
        else:
            estimates = _fit_logistic(records, design, steps, rows_of, is_pair=is_pair)
        for (name, rows), (value, error, of_prior) in zip(
            informative.items(), estimates, strict=True
        ):
            measured[name] = ClusteredEstimate(
                value, max(error, 1e-9), rows, pseudo=of_prior, fewest=FEWEST
            )
    return measured


def find_differing(values: Floats, *, is_pair: bool) -> NDArray[np.bool_]:
    """Return where a property differs within a pair.

    Of single responses, return where it differs from the most frequent value.
    """
    if is_pair:
        return np.abs(values) > 1e-9
    kinds, counts = np.unique(values, return_counts=True)
    differs: NDArray[np.bool_] = values != (kinds[counts.argmax()] if len(kinds) else 0.0)
    return differs


def _collect_pairs(judgments: Judgments) -> _Records:
    """Return pairs of the chosen response and each other one, of all orders."""
    rows, orders = np.nonzero(judgments.is_read[:, :, 0] & (judgments.first != TIE))
    most = next(iter(judgments.features.values())).shape[1]
    chosen = judgments.first[rows, orders].astype(np.int64)
    verdicts, others = np.nonzero(
        (np.arange(most)[None, :] != chosen[:, None])
        & (np.arange(most)[None, :] < judgments.counts[rows][:, None])
    )
    rows = rows[verdicts]
    orders = orders[verdicts]
    chosen = chosen[verdicts]
    gold = judgments.gold[rows]
    last = np.maximum(judgments.counts[rows] - 1, 1)
    of_gold = (chosen == gold).astype(float) - (others == gold)
    of_place = (others - chosen) / last * np.where(orders == SWAPPED, -1.0, 1.0)
    return _Records(
        np.ones(len(rows)),
        np.column_stack([of_gold, of_place]),
        {
            name: np.nan_to_num(values[rows, chosen] - values[rows, others])
            for name, values in judgments.features.items()
        },
        np.unique(judgments.clusters[rows], return_inverse=True)[1],
    )


def _collect_single(judgments: Judgments) -> _Records:
    """Return the records of single responses.

    A label is 1 or 0, a score a share of its scale.
    """
    rows = np.flatnonzero(judgments.is_read[:, 0, 0])
    verdicts = judgments.first[rows, 0]
    gold = judgments.gold[rows]
    if judgments.kind == "score":
        verdicts, gold = (
            (column - judgments.scale[0]) / judgments.span for column in (verdicts, gold)
        )
    properties = {name: values[rows, 0] for name, values in judgments.features.items()}
    return _Records(
        verdicts,
        np.column_stack([np.ones(len(rows)), gold]),
        {
            name: np.nan_to_num(values - np.nanmean(values))
            for name, values in properties.items()
            if len(rows)
        },
        np.unique(judgments.clusters[rows], return_inverse=True)[1],
    )


def _fit_logistic(
    records: _Records,
    design: Floats,
    steps: Sequence[float],
    informative: Sequence[int],
    *,
    is_pair: bool,
) -> list[tuple[float, float, float]]:
    """Return the effect of a step in each property as a difference of probabilities.

    Each comes with its standard error.

    The third number is the share of the squared error that comes from the prior. It is negative,
    because a prior shrinks the error as it shrinks the effect: with few records an effect varies
    less than their number suggests.

    Args:
        records: the records to fit.
        design: a column for each coefficient, those of the properties at the end.
        steps: for each property, the step whose effect is measured.
        informative: for each property, the number of clusters that differ in it.
        is_pair: whether the records are pairs, which have no constant.

    The reweighted least squares of statsmodels overflow if a property alone decides, as for the
    worst judges; otherwise they give the same numbers.
    """
    from scipy.optimize import minimize  # imported here: it takes half a second
    from scipy.special import expit

    size = design.shape[1]
    prior = np.eye(size)[0 if is_pair else 1 :]  # a constant has none
    everything = np.vstack([design, prior])
    outcome = np.concatenate([records.outcome, np.full(len(prior), 0.5)])

    def loss(coefficients: Floats) -> tuple[float, Floats]:
        linear = everything @ coefficients
        return float((np.logaddexp(0, linear) - outcome * linear).sum()), everything.T @ (
            expit(linear) - outcome
        )

    coefficients = minimize(loss, np.zeros(size), jac=True, method="BFGS", options={"gtol": 1e-7}).x
    chance = expit(everything @ coefficients)
    weights = chance * (1 - chance)
    of_model = np.linalg.pinv(everything.T @ (everything * weights[:, None]))
    leverages = weights * ((everything @ of_model) * everything).sum(axis=1)
    groups = np.concatenate([records.clusters, records.clusters.max() + 1 + np.arange(len(prior))])
    sums = cluster_sums(everything * ((outcome - chance) / (1 - leverages))[:, None], groups)
    robust = of_model @ (sums.T @ sums) @ of_model
    inflation = float((robust.diagonal() / of_model.diagonal()).mean())
    of_prior = (prior * weights[len(design) :, None]).T @ prior
    results = []
    seen = np.vstack([design, -design]) if is_pair else design
    for column, step, rows in zip(
        range(records.fixed.shape[1], size), steps, informative, strict=True
    ):
        without = seen.copy()
        without[:, column] = 0.0
        with_it = without.copy()
        with_it[:, column] = step
        high = expit(with_it @ coefficients)
        low = expit(without @ coefficients)
        slope = (
            (high * (1 - high))[:, None] * with_it - (low * (1 - low))[:, None] * without
        ).mean(axis=0)
        covariance = (rows * robust + MODEL_CLUSTERS * inflation * of_model) / (
            rows + MODEL_CLUSTERS
        )
        square = max(1e-18, float(slope @ covariance @ slope))
        # First-order approximation.
        shrunk = -2 * float(slope @ of_model @ of_prior @ covariance @ slope) / square
        results.append((float((high - low).mean()), math.sqrt(square), min(0.0, shrunk)))
    return results


def _fit_linear(
    records: _Records, design: Floats, steps: Sequence[float]
) -> list[tuple[float, float, float]]:
    """Return the effect of a step in each property on the score, as a share of the scale.

    Each comes with its standard error.
    """
    with report_missing_extra("audit"):
        # Imported here: `statsmodels.api` takes seconds.
        from statsmodels.regression.linear_model import OLS
    fitted = OLS(records.outcome, design).fit(
        cov_type="cluster", cov_kwds={"groups": records.clusters}
    )
    columns = slice(records.fixed.shape[1], None)
    fits = zip(fitted.params[columns], fitted.bse[columns], steps, strict=True)
    return [(float(value) * step, float(error) * step, 0.0) for value, error, step in fits]
