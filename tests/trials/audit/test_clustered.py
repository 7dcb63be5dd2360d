"""Estimates over clusters: equal to those of libraries, and numbers of rows that keep their promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from judgegym.statistics.agreement import agreement_sums, kappas
from judgegym_trials.audit.clustered import (
    ClusteredEstimate,
    alphas,
    correlations,
    first_order_agreements,
    jackknife,
    rate,
    ratio,
)

NUMBERS = np.random.default_rng(5)
GOLD = NUMBERS.integers(0, 3, 200)
JUDGE = np.where(NUMBERS.random(200) < 0.7, GOLD, NUMBERS.integers(0, 3, 200))
ROWS = np.arange(200)
ONE_HOT = np.eye(3)


def totals(gold: np.ndarray, judge: np.ndarray) -> np.ndarray:
    return agreement_sums(gold, judge, ROWS).sum(axis=0, keepdims=True)


@pytest.mark.slow
def test_agreement_is_that_of_the_libraries() -> None:
    import krippendorff
    from scipy.stats import rankdata, spearmanr
    from sklearn.metrics import cohen_kappa_score

    labels, scores = (
        totals(ONE_HOT[GOLD], ONE_HOT[JUDGE]),
        totals(GOLD[:, None] * 1.0, JUDGE[:, None] * 1.0),
    )
    ranks = totals(rankdata(GOLD)[:, None], rankdata(JUDGE)[:, None])
    found = [kappas(labels), kappas(scores), alphas(labels), alphas(scores), correlations(ranks)]
    expected = [
        cohen_kappa_score(GOLD, JUDGE),
        cohen_kappa_score(GOLD, JUDGE, weights="quadratic"),
        krippendorff.alpha([GOLD.tolist(), JUDGE.tolist()], level_of_measurement="nominal"),
        krippendorff.alpha([GOLD.tolist(), JUDGE.tolist()], level_of_measurement="interval"),
        spearmanr(GOLD, JUDGE).statistic,
    ]
    assert [float(each[0]) for each in found] == pytest.approx(expected, abs=1e-9)


def test_gwets_ac1_by_its_definition_and_where_kappa_is_misled() -> None:
    # 118 of 125 yes-yes, 5 and 2 apart, 0 no-no (Gwet 2008, table 5's kind): κ is below 0, AC1 near
    # the agreement
    first = ONE_HOT[:2, :2][[0] * 118 + [0] * 5 + [1] * 2]
    second = ONE_HOT[:2, :2][[0] * 118 + [1] * 5 + [0] * 2]
    sums = agreement_sums(first, second, np.arange(125)).sum(axis=0, keepdims=True)
    share = (123 + 120) / 250
    by_chance = 2 * share * (1 - share)
    assert float(first_order_agreements(sums)[0]) == pytest.approx(
        (118 / 125 - by_chance) / (1 - by_chance)
    )
    assert float(kappas(sums)[0]) < 0 < 0.9 < float(first_order_agreements(sums)[0])


def test_agreement_without_variance_is_undefined() -> None:
    same = agreement_sums(ONE_HOT[[0] * 20], ONE_HOT[[0] * 20], np.arange(20))
    assert math.isnan(kappas(same.sum(axis=0, keepdims=True))[0])
    assert isinstance(jackknife(same, kappas), str)
    assert jackknife(same[:1], kappas).endswith("two rows")


@pytest.mark.slow
def test_a_rate_has_the_exact_interval_and_repeated_rows_say_nothing_further() -> None:
    from statsmodels.stats.proportion import proportion_confint

    hits = (NUMBERS.random(80) < 0.9).astype(float)
    once = rate(hits, np.ones(80), np.arange(80))
    twice = rate(2 * hits, np.full(80, 2.0), np.arange(80))
    assert isinstance(once, ClusteredEstimate) and isinstance(twice, ClusteredEstimate)
    expected = proportion_confint(hits.sum(), 80, method="beta")
    assert (once.interval(0.95).low, once.interval(0.95).high) == pytest.approx(expected, rel=0.02)
    assert twice.interval(0.95) == once.interval(0.95)
    assert twice.trials == pytest.approx(79, rel=0.01), (
        "one row is one trial, however often it was asked"
    )
    always = rate(np.ones(30), np.ones(30), np.arange(30))
    assert isinstance(always, ClusteredEstimate)
    assert (always.interval(0.95).low, always.interval(0.95).high) == (
        pytest.approx(0.025 ** (1 / 30)),
        1.0,
    )
    assert rate(np.ones(5), np.ones(5), np.zeros(5, dtype=np.int64)).endswith("two rows")


@pytest.mark.slow
def test_a_slope_and_its_error_are_those_of_a_regression_with_clusters() -> None:
    import statsmodels.api as sm

    clusters = np.repeat(np.arange(40), 3)
    x = NUMBERS.normal(size=120)
    y = 0.3 * x + np.repeat(NUMBERS.normal(size=40), 3)
    found = ratio(x * y, x * x, clusters)
    fitted = sm.OLS(y, x).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False}
    )
    assert isinstance(found, ClusteredEstimate)
    assert (found.value, found.error) == pytest.approx(
        (fitted.params[0], fitted.bse[0] * math.sqrt(40 / 39))
    )


def test_tests_against_a_threshold() -> None:
    one = ClusteredEstimate(0.2, 0.05, 1000)
    assert one.p_above(0.1) == pytest.approx(0.0228, abs=5e-4) and one.p_below(
        0.1
    ) == pytest.approx(0.977, abs=5e-4)
    assert ClusteredEstimate(-0.2, 0.05, 1000).p_outside(0.1) == pytest.approx(
        one.p_above(0.1), rel=1e-3
    )
    of_rate = ClusteredEstimate(0.0, 0.0, 50, trials=50.0)
    assert of_rate.p_below(0.1) == pytest.approx(0.9**50) and of_rate.p_above(0.1) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("truth", "threshold", "alpha"), [(0.6, 0.7, 0.001), (0.9, 0.8, 0.025), (0.0, 0.05, 0.025)]
)
def test_rows_of_a_rate_have_the_power_that_is_planned(
    truth: float, threshold: float, alpha: float
) -> None:
    rows = ClusteredEstimate(0.7, 0.0, 50, trials=50.0).rows_to_decide(
        truth, threshold, rows=50, alpha=alpha, power=0.8
    )
    hits = np.random.default_rng(1).binomial([[rows], [round(rows * 0.8)]], truth, size=(2, 4000))

    def power(each: np.ndarray, count: int) -> float:
        estimates = [
            ClusteredEstimate(hit / count, 0.0, count, trials=float(count)) for hit in each
        ]
        tests = [
            one.p_below(threshold) if truth < threshold else one.p_above(threshold)
            for one in estimates
        ]
        return float(np.mean(np.array(tests) <= alpha))

    assert 0.77 <= power(hits[0], rows) <= (0.85 if truth else 1.0)
    assert power(hits[1], round(rows * 0.8)) < 0.8


def test_rows_of_a_mean_count_pseudo_rows_once() -> None:
    def rows(pseudo: float, clusters: int = 10_000) -> int:
        estimate = ClusteredEstimate(0.0, 0.1, clusters, pseudo=pseudo)
        return estimate.rows_to_decide(0.1, 0.0, rows=100, alpha=0.025, power=0.8)

    assert rows(0.0) == math.ceil(100 * 2.8016**2)
    error = math.sqrt(0.005 * 100 / rows(0.5) + 0.005 * (100 / rows(0.5)) ** 2)
    assert error == pytest.approx(0.1 / 2.8016, rel=0.01)
    assert rows(0.5) < rows(0.0) < rows(-0.5), "a prior makes the error of few rows smaller"
    assert rows(0.0) < rows(0.0, clusters=2), "the interval of few clusters has longer tails"


def test_rows_of_an_estimate_that_not_all_samples_have_are_corrected_for_that() -> None:
    def rows(clusters: int, fewest: int) -> int:
        estimate = ClusteredEstimate(0.0, 0.1, clusters, fewest=fewest)
        return estimate.rows_to_decide(0.02, 0.0, rows=1000, alpha=0.025, power=0.8)

    drawn = np.random.default_rng(1).poisson(12, 10_000)
    sizes, counts = np.unique(drawn[drawn >= 10], return_counts=True)
    taken_for = [size * rows(size, 0) / rows(size, 10) for size in sizes.tolist()]
    assert np.average(sizes, weights=counts) > 13.2
    assert np.average(taken_for, weights=counts) == pytest.approx(12, abs=0.3)
    assert rows(50, 10) == rows(50, 0)
