"""Checks of an audit other than regressions: accuracy, consistency, calibration and operation.

Each function returns estimates by the names of `CHECKS`, or why one is not measured. With fewer
than two clusters of rows no check is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from judgegym.statistics.agreement import agreement_sums, cluster_sums, kappas
from judgegym_trials.audit.clustered import (
    ClusteredEstimate,
    alphas,
    correlations,
    first_order_agreements,
    jackknife,
    rate,
    ratio,
)
from judgegym_trials.audit.judgments import GIVEN, SWAPPED, TIE, Judgments
from judgegym_trials.audit.noise import NoisyEffect, measure_noisy_effects
from judgegym_trials.audit.settings import read_shipped

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Codes, Floats

Unit = Literal["share", "points", "number", "seconds", "dollars"]
Estimate = ClusteredEstimate | NoisyEffect | str
"""An estimate, or the reason why it is not measured."""
Estimates = Mapping[str, Estimate]
BINS = 10
NO_SWAPS = "no row was judged in both orders"


@dataclass(frozen=True, slots=True)
class Check:
    """A check's title in a table, its unit, and a sentence with a placeholder for the effect."""

    title: str
    unit: Unit
    says: str


CHECKS: Mapping[str, Check] = {
    name: Check(**words) for name, words in read_shipped("checks.yaml").items()
}
"""All checks, in the order of the table."""


def measure_all(judgments: Judgments) -> dict[str, Estimate]:
    """Measure every check, in the order of `CHECKS`."""
    estimates: dict[str, Estimate] = {}
    for measure in MEASURES:
        estimates.update(measure(judgments))
    estimates |= judgments.unmeasured
    return {name: estimates.get(name, "it applies to another kind of judgment") for name in CHECKS}


def accuracy(judgments: Judgments) -> Estimates:
    """Measure accuracy over all orders, in each and in both.

    A verdict that cannot be read is wrong; a tie counts half.
    """
    right, clusters = judgments.right, judgments.clusters
    was_asked = np.isfinite(right)
    name = "exact_rate" if judgments.kind == "score" else "accuracy"
    estimates = {
        name: rate(np.nansum(right, axis=1), was_asked.sum(axis=1).astype(float), clusters)
    }
    if not judgments.has_orders:
        if judgments.kind == "choice":
            orders = ("accuracy_given", "accuracy_swapped", "accuracy_both")
            estimates |= dict.fromkeys(orders, NO_SWAPS)
        return estimates
    for name, order in (("accuracy_given", GIVEN), ("accuracy_swapped", SWAPPED)):
        estimates[name] = rate(
            np.nan_to_num(right[:, order]), was_asked[:, order].astype(float), clusters
        )
    both = was_asked.all(axis=1)
    estimates["accuracy_both"] = rate(
        ((right == 1).all(axis=1) & both).astype(float), both.astype(float), clusters
    )
    return estimates


def position(judgments: Judgments) -> Estimates:
    """Measure whether both orders have the same winner, and the first position's advantage.

    The advantage is relative to gold, so it is also fair if only one order was asked or gold is
    first more often.
    """
    if judgments.kind != "choice":
        return {}
    first = judgments.first
    last = (judgments.counts - 1).astype(float)[:, None]
    is_read = np.isfinite(first)
    swapped = np.arange(first.shape[1])[None, :] == SWAPPED

    def sides(numbers: Floats) -> Floats:
        """Return 1 for the response that is shown first, −1 for the last."""
        places = np.where(swapped, last - numbers, numbers)
        return np.where(numbers == TIE, 0.0, 1 - 2 * places / np.maximum(last, 1))

    apart = np.where(
        is_read, sides(first) - sides(np.repeat(judgments.gold[:, None], first.shape[1], 1)), 0.0
    )
    read = is_read.sum(axis=1)
    of_rows = apart.sum(axis=1) / np.maximum(read, 1)
    estimates: dict[str, ClusteredEstimate | str] = {
        "first_place_advantage": ratio(
            of_rows, (read > 0).astype(float), judgments.clusters, pseudo=1.0
        )
    }
    estimates["position_consistency"] = NO_SWAPS
    if judgments.has_orders:
        same = (first[:, GIVEN] == first[:, SWAPPED]).astype(float)
        estimates["position_consistency"] = rate(
            same, is_read.all(axis=1).astype(float), judgments.clusters
        )
    return estimates


def repetition(judgments: Judgments) -> Estimates:
    """Measure whether repeats and other wordings have the same verdict, among readable verdicts."""
    repeats, clusters = judgments.verdicts, judgments.clusters
    pairs = [
        (repeats[:, :, earlier], repeats[:, :, later])
        for earlier, later in combinations(range(repeats.shape[2]), 2)
    ]
    wordings = [(judgments.first, verdicts) for verdicts in judgments.paraphrases.values()]
    estimates: dict[str, ClusteredEstimate | str] = {}
    for name, compared, none in (
        ("repeatability", pairs, "no row was judged several times"),
        ("paraphrase_agreement", wordings, "no other wording of the prompt was recorded"),
    ):
        if compared:
            same = sum((left == right).sum(axis=1) for left, right in compared)
            both = sum(
                (np.isfinite(first) & np.isfinite(second)).sum(axis=1) for first, second in compared
            )
            estimates[name] = rate(
                np.asarray(same, dtype=float), np.asarray(both, dtype=float), clusters
            )
        else:
            estimates[name] = none
    return estimates


def agreement(judgments: Judgments) -> Estimates:
    """Measure chance-corrected agreement of judge and gold.

    The first verdicts that were read count, in all orders.
    """
    first = judgments.first
    rows, orders = np.nonzero(np.isfinite(first))
    judge, gold = first[rows, orders], judgments.gold[rows]
    _, clusters = np.unique(judgments.clusters[rows], return_inverse=True)
    if judgments.kind == "score":
        from scipy.stats import rankdata  # imported here: it takes half a second

        sums = agreement_sums(gold[:, None], judge[:, None], clusters)
        ranks = agreement_sums(rankdata(gold)[:, None], rankdata(judge)[:, None], clusters)
        apart = (judge - gold) / judgments.span
        return {
            "weighted_kappa": jackknife(sums, kappas),
            "alpha": jackknife(sums, alphas),
            "spearman": jackknife(ranks, correlations),
            "leniency": ratio(apart, np.ones(len(apart)), clusters, pseudo=0.02),
        }
    values, codes = np.unique(np.concatenate([gold, judge]), return_inverse=True)
    one_hot = np.eye(len(values))
    gold_codes = codes[: len(gold)]
    judge_codes = codes[len(gold) :]
    sums = agreement_sums(one_hot[gold_codes], one_hot[judge_codes], clusters)
    common = one_hot[np.argsort(-np.bincount(gold_codes, minlength=len(values)))[:2]]
    # The error of a judge that is always right would be 0: one disagreement each way is added to
    # it.
    pseudo = agreement_sums(common, common[::-1], np.arange(len(common)))
    statistics = {"kappa": kappas, "ac1": first_order_agreements, "alpha": alphas}
    return {
        name: jackknife(sums, statistic, pseudo=pseudo) for name, statistic in statistics.items()
    }


def drift(judgments: Judgments) -> Estimates:
    """Measure the slope of accuracy over rows in order of time, with categories held fixed."""
    times = judgments.times
    if times is None:
        return {"drift": "the rows have no times"}
    was_asked = np.isfinite(judgments.right)
    used = np.isfinite(times) & was_asked.any(axis=1)
    right = np.nansum(judgments.right, axis=1)[used] / was_asked.sum(axis=1)[used]
    if used.sum() < 2:
        return {"drift": "it needs at least two rows with a time"}
    _, ranks = np.unique(times[used], return_inverse=True)
    at = ranks / max(1, ranks.max())
    _, codes = np.unique([str(category) for category in judgments.categories], return_inverse=True)
    codes = codes[used] if len(codes) else np.zeros(len(at), dtype=np.int64)
    counts = np.bincount(codes)
    at, right = (
        column - (np.bincount(codes, column) / np.maximum(counts, 1))[codes]
        for column in (at, right)
    )
    if float((at**2).sum()) < 1e-9:
        return {"drift": "all rows of a category have one time"}
    # As if two more rows were half wrong: the error of a faultless judge must not be 0.
    slope = ratio(at * right, at**2, judgments.clusters[used], pseudo=float((at**2).mean()) / 2)
    return {"drift": slope}


def calibration(judgments: Judgments) -> Estimates:
    """Measure the calibration error and the Brier score.

    The error is of ten bins of equally many rows, less what chance adds.

    The squared gap of each bin is reduced by its binomial variance (Kumar, Liang and Ma, 2019), so
    that a calibrated judge has an error near 0 with few rows, too.
    """
    curve = _bin_rows(judgments)
    if curve is None:
        reason = "no probabilities were recorded"
        if judgments.kind == "score":
            reason = "scores have no probability"
        return dict.fromkeys(("calibration_error", "brier"), reason)
    rows, bins, predicted, happened = curve
    _, clusters = np.unique(judgments.clusters[rows], return_inverse=True)
    member = np.eye(int(bins.max()) + 1)[bins]
    size = member.shape[1]
    gaps = member * (predicted - happened)[:, None]
    chance = member * (predicted * (1 - predicted))[:, None]
    sums = cluster_sums(np.column_stack([gaps, chance, np.ones(len(predicted))]), clusters)

    def error(totals: Floats) -> Floats:
        squares = totals[:, :size] ** 2 - totals[:, size : 2 * size]
        errors: Floats = np.sqrt(np.maximum(squares, 0)).sum(axis=1) / totals[:, -1]
        return errors

    brier = ratio((predicted - happened) ** 2, np.ones(len(predicted)), clusters, pseudo=1e-6)
    return {"calibration_error": jackknife(sums, error), "brier": brier}


def calibration_curve(judgments: Judgments) -> list[tuple[int, float, float]]:
    """Return for each bin the rows, the mean probability, and the share with gold as predicted."""
    curve = _bin_rows(judgments)
    if curve is None:
        return []
    _, bins, predicted, happened = curve
    places = [bins == number for number in range(int(bins.max()) + 1)]
    return [
        (int(at.sum()), float(predicted[at].mean()), float(happened[at].mean())) for at in places
    ]


def _bin_rows(judgments: Judgments) -> tuple[Codes, Codes, Floats, Floats] | None:
    """Return the rows with a probability, their bins, probabilities and outcomes.

    An outcome is 1 if gold is as predicted, else 0.
    """
    probabilities = judgments.probabilities
    if probabilities is None or judgments.kind == "score" or not np.isfinite(probabilities).any():
        return None
    rows = np.flatnonzero(np.isfinite(probabilities))
    wanted = 0.0 if judgments.kind == "choice" else float(len(judgments.levels) - 1)
    happened = (judgments.gold[rows] == wanted).astype(float)
    ranks = np.argsort(np.argsort(probabilities[rows], kind="stable"), kind="stable")
    return rows, ranks * min(BINS, len(rows)) // len(rows), probabilities[rows], happened


def contradiction(judgments: Judgments) -> Estimates:
    """Measure how often a pairwise verdict prefers the response with the lower score."""
    scores, first = judgments.scores, judgments.first
    if judgments.kind != "choice" or scores is None:
        return {
            "contradiction": "scores and pairwise verdicts of the same pairs were not both recorded"
        }
    better = np.where(scores[:, 0] > scores[:, 1], 0.0, 1.0)[:, None]
    is_strict = (np.isfinite(scores).all(axis=1) & (scores[:, 0] != scores[:, 1]))[:, None]
    counted = is_strict & np.isfinite(first) & (first != TIE)
    hits = (counted & (first != better)).sum(axis=1).astype(float)
    return {"contradiction": rate(hits, counted.sum(axis=1).astype(float), judgments.clusters)}


def operation(judgments: Judgments) -> Estimates:
    """Measure rates of failures, unreadable verdicts and refusals, latency by call, cost by row."""
    clusters = judgments.clusters
    asked_counts = judgments.was_asked.sum(axis=(1, 2)).astype(float)
    read = (judgments.is_read & judgments.was_asked).sum(axis=(1, 2)).astype(float)
    estimates: dict[str, ClusteredEstimate | str] = {
        "failure_rate": rate(asked_counts - read, asked_counts, clusters)
    }
    estimates |= dict.fromkeys(
        ("redraw_rate", "refusal_rate", "seconds_per_call"), "the calls were not recorded"
    )
    estimates["dollars_per_row"] = "no price or no token counts were recorded"
    for name, (totals, weights) in judgments.operation.items():
        estimate = rate if CHECKS[name].unit == "share" else ratio
        estimates[name] = estimate(totals, weights, clusters)
    return estimates


MEASURES: tuple[Callable[[Judgments], Estimates], ...] = (
    accuracy,
    position,
    repetition,
    agreement,
    measure_noisy_effects,
    drift,
    calibration,
    contradiction,
    operation,
)
"""All measurements; to add one, write a function here and add its names to `CHECKS`."""
