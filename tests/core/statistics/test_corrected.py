"""Corrected means and rates against ppi-python, truescore and their definitions, and how often intervals hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from judgegym.statistics.corrected import (
    CorrectedMean,
    corrected_mean,
    labels_needed,
    labels_to_add,
)
from judgegym.statistics.intervals import Ends, mean_interval


def drawn(
    seed: int, rows: int, labels: int, *, right: float = 0.85, rate: float = 0.6
) -> tuple[Any, Any, Any]:
    """The judge's values, the labels of the first rows, and the truth."""
    generator = np.random.default_rng(seed)
    truth = (generator.random(rows) < rate).astype(float)
    judge = np.where(generator.random(rows) < right, truth, 1 - truth)
    return judge, np.where(np.arange(rows) < labels, truth, np.nan), truth


def corrected(*columns: Any, **options: Any) -> CorrectedMean:
    found = corrected_mean(*columns, **{"kind": "rate", **options})
    assert isinstance(found, CorrectedMean), found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_point_and_weight_are_those_of_ppi_python_and_truescore(scale: float) -> None:
    import ppi_py
    import truescore

    for seed in range(60):
        generator = np.random.default_rng([seed, 1])
        rows = int(generator.integers(8, 200))
        count = int(generator.integers(2, rows - 2))
        judge, labels, _ = drawn(seed, rows, count)
        judge, labels = scale * judge + generator.normal(size=rows), scale * labels
        if np.ptp(labels[:count]) == 0:
            continue
        found = corrected(judge, labels, kind="mean")
        theirs = ppi_py.ppi_mean_pointestimate(labels[:count], judge[:count], judge[count:])
        assert found.value == pytest.approx(float(np.squeeze(theirs)), abs=1e-9)
        other = truescore.ppi_estimate(judge, labels[:count], np.arange(count))
        assert found.value == pytest.approx(other.point, abs=1e-9)
        assert found.weight == pytest.approx(other.lambda_, abs=1e-9)
        assert np.sqrt(found.variance / found.effective_labels) == pytest.approx(
            other.standard_error * np.sqrt((count - 1) / max(count - 2, 1) if found.weight else 1),
            rel=1e-9,
        )


def test_labels_only_are_wilsons_interval_and_students() -> None:
    from scipy.stats import t
    from statsmodels.stats.proportion import proportion_confint

    judge, labels, truth = drawn(0, 200, 40)
    only = corrected(judge, labels).labels_only
    low, high = proportion_confint(truth[:40].sum(), 40, method="wilson")
    assert (only.interval.low, only.interval.high) == pytest.approx((low, high), abs=1e-9)
    only = corrected(judge, labels, kind="mean").labels_only
    half = t.ppf(0.975, 39) * truth[:40].std(ddof=1) / np.sqrt(40)
    assert only.half_width == pytest.approx(half, abs=1e-9)


def test_a_rate_has_wilsons_interval_at_the_effective_number_of_labels() -> None:
    judge, labels, _ = drawn(3, 400, 50)
    found = corrected(judge, labels)
    weight, given, rest = found.weight, slice(0, 50), slice(50, 400)
    rectified = np.append(labels[given] - weight * judge[given], [1 - weight, 1, 0, -weight])
    v = rectified.var(ddof=1) / 54 + weight**2 * judge[rest].var(ddof=1) / 350
    v *= 52 / 50
    theta = weight * judge[rest].mean() + rectified.mean()
    size, square = theta * (1 - theta) / v, 2.009575237**2  # Student's, of 49 degrees of freedom
    value = found.value
    middle = (value + square / 2 / size) / (1 + square / size)
    half = (
        np.sqrt(square)
        * np.sqrt(value * (1 - value) / size + square / 4 / size**2)
        / (1 + square / size)
    )
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (middle - half, middle + half), abs=1e-8
    )
    assert 50 < found.effective_labels < 400
    assert size == pytest.approx(found.effective_labels, rel=0.05)


@pytest.mark.parametrize("judge", ["constant", "unrelated", "all labelled"])
def test_without_use_of_the_judge_the_labels_alone_count(judge: str) -> None:
    values, labels, truth = drawn(1, 60, 30)
    if judge == "constant":
        values = np.full(60, 0.7)
    elif judge == "unrelated":
        values[:30] = 1 - truth[:30]  # the judge is wrong of every label
    else:
        labels = truth
    found = corrected(values, labels)
    assert (found.weight, found.effective_labels) == (0.0, found.labels)
    assert (found.value, found.interval) == (found.labels_only.value, found.labels_only.interval)
    assert found.raw == values.mean()


def test_what_has_no_estimate_says_why() -> None:
    judge, labels, _ = drawn(0, 20, 1)
    assert "1 label;" in str(corrected_mean(judge, labels, kind="rate"))
    assert "0 labels;" in str(corrected_mean(judge, np.full(20, np.nan), kind="mean"))
    same = np.where(np.arange(20) < 5, 3.0, np.nan)
    assert "labels are equal" in str(corrected_mean(judge, same, kind="mean"))
    strata = np.arange(20) % 10
    assert "in a stratum" in str(
        corrected_mean(judge, drawn(0, 20, 12)[1], kind="rate", strata=strata)
    )
    one = np.zeros(20, int)
    assert "1 independent groups" in str(
        corrected_mean(judge, drawn(0, 20, 12)[1], kind="rate", clusters=one)
    )
    assert isinstance(corrected_mean(judge, drawn(0, 20, 2)[1], kind="rate"), CorrectedMean)


def test_columns_that_do_not_fit_are_refused() -> None:
    judge, labels, _ = drawn(0, 20, 5)
    for columns, word in (
        ((judge[:-1], labels), "19 values .*another number"),
        ((np.where(judge == 1, np.nan, judge), labels), "finite number"),
        ((judge * 5, labels), "from 0 to 1"),
        ((judge, labels * 2 - 1), "from 0 to 1"),
    ):
        with pytest.raises(ValueError, match=word):
            corrected_mean(*columns, kind="rate")


def test_labels_that_are_all_alike_have_an_interval_of_a_rate_that_is_not_empty() -> None:
    found = corrected(np.ones(100), np.where(np.arange(100) < 20, 1.0, np.nan))
    assert found.value == 1.0
    assert 0.7 < found.interval.low < 0.9
    judge = np.where(np.arange(100) % 7 == 0, 0.0, 1.0)
    assert corrected(judge, np.where(np.arange(100) < 20, 1.0, np.nan)).interval.low < 0.9


def test_labels_that_are_all_alike_have_an_interval_of_a_mean_whose_scale_is_known() -> None:
    labels = np.where(np.arange(100) < 20, 5.0, np.nan)
    for judge in (np.full(100, 5.0), np.where(np.arange(100) % 7 == 0, 4.0, 5.0)):
        found = corrected(judge, labels, kind="mean", ends=Ends(1, 5))
        assert (found.value, found.interval.high) == (5.0, 5.0)
        assert found.interval.low == pytest.approx(5 - 4 * (1 - 0.05 ** (1 / 20)), abs=0.01)
        needed = labels_needed(found, 0.2).expected
        assert needed is not None and needed > 20


def test_on_a_known_scale_labels_only_are_the_interval_of_their_mean() -> None:
    values = np.random.default_rng(3).integers(1, 6, 100).astype(float)
    labels = np.where(np.arange(100) < 40, values, np.nan)
    only = corrected(np.ones(100), labels, kind="mean", ends=Ends(1, 5))
    expected = mean_interval(values[:40], ends=Ends(1, 5))
    assert expected is not None and only.interval == only.labels_only.interval
    assert (only.interval.low, only.interval.high) == pytest.approx(
        (expected.low, expected.high), abs=0.02
    )


def test_a_judge_that_follows_the_labels_narrows_the_interval_on_a_known_scale() -> None:
    generator = np.random.default_rng(4)
    truth = generator.integers(1, 6, 400).astype(float)
    judge = np.clip(truth + generator.integers(-1, 2, 400), 1, 5)
    found = corrected(
        judge, np.where(np.arange(400) < 60, truth, np.nan), kind="mean", ends=Ends(1, 5)
    )
    assert found.interval.low < truth.mean() < found.interval.high
    assert found.half_width < 0.8 * found.labels_only.half_width


def test_one_stratum_and_rows_as_clusters_change_nothing() -> None:
    for kind in ("rate", "mean"):
        judge, labels, _ = drawn(5, 100, 30)
        plain = corrected(judge, labels, kind=kind)
        assert corrected(judge, labels, kind=kind, strata=np.full(100, 7)) == plain
        clustered = corrected(judge, labels, kind=kind, clusters=np.arange(100))
        assert clustered.interval == plain.interval or kind == "rate"
        assert clustered.value == plain.value


def test_copies_of_rows_add_nothing_where_they_are_clusters() -> None:
    judge, labels, _ = drawn(5, 100, 30)
    single = corrected(judge, labels, kind="mean")
    copies = corrected(
        np.repeat(judge, 4),
        np.repeat(labels, 4),
        kind="mean",
        clusters=np.repeat(np.arange(100), 4),
    )
    assert copies.half_width == pytest.approx(single.half_width, rel=0.05)
    assert (
        corrected(np.repeat(judge, 4), np.repeat(labels, 4), kind="mean").half_width
        < 0.6 * single.half_width
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rate", "mean"])
@pytest.mark.parametrize("design", ["strata", "unequal strata", "clusters"])
def test_intervals_of_strata_and_clusters_hold_the_truth(design: str, kind: str) -> None:
    """500 samples: a coverage of 0.95 is below 0.92 in one of 1,000 such tests."""
    held, generator = [], np.random.default_rng(0)
    for _ in range(500):
        options: dict[str, Any] = {}
        if design == "clusters":
            clusters = np.repeat(np.arange(100), 4)
            truth = (generator.random(400) < np.repeat(generator.beta(1.2, 0.8, 100), 4)).astype(
                float
            )
            judge = np.where(generator.random(400) < 0.8, truth, 1 - truth)
            chosen, options = generator.permutation(400)[:80], {"clusters": clusters}
        else:
            truth = (generator.random(400) < 0.6).astype(float)
            judge = np.where(generator.random(400) < 0.8, truth, 1 - truth)
            strata = (judge > 0).astype(int)
            sizes = [(strata == code).sum() for code in (0, 1)]
            counts = (
                [30, 30]
                if design == "unequal strata"
                else [round(60 * size / 400) for size in sizes]
            )
            at = [
                generator.permutation(np.flatnonzero(strata == code))[: counts[code]]
                for code in (0, 1)
            ]
            chosen, options = np.concatenate(at), {"strata": strata}
        labels = np.full(400, np.nan)
        labels[chosen] = truth[chosen]
        found = corrected(judge, labels, kind=kind, **options)
        held.append(found.interval.low <= 0.6 <= found.interval.high)
        if design == "unequal strata":
            assert found.labels_only.value == pytest.approx(
                sum(truth[each].mean() * size / 400 for each, size in zip(at, sizes, strict=True))
            )
    assert np.mean(held) >= 0.92


def test_a_difference_is_the_mean_of_the_differences() -> None:
    first, second = drawn(1, 200, 50), drawn(1, 200, 60, right=0.7, rate=0.7)
    found = corrected_mean(second[0] - first[0], second[1] - first[1], kind="mean")
    assert isinstance(found, CorrectedMean)
    assert found.labels == 50, "rows with labels in both"
    assert found.labels_only.value == pytest.approx((second[2] - first[2])[:50].mean())
    back = corrected_mean(first[0] - second[0], first[1] - second[1], kind="mean")
    assert isinstance(back, CorrectedMean)
    assert (back.value, back.interval.low) == pytest.approx((-found.value, -found.interval.high))


def test_labels_needed_follow_the_formula_and_their_range_grows_with_uncertainty() -> None:
    judge, labels, _ = drawn(2, 1000, 100)
    found = corrected(judge, labels)
    needed = labels_needed(found, 0.05)
    assert needed.fewest and needed.expected and needed.most
    assert needed.fewest < needed.expected < needed.most
    r2 = (1 - found.labels / found.effective_labels) * 1000 / 900
    bound = lambda n: 1.04 * 1.959964**2 * found.variance / n * (1 - r2 * (1000 - n) / 1000)  # noqa: E731
    assert bound(needed.expected) <= 0.05**2 < bound(needed.expected - 1)
    assert labels_needed(found, 0.001).fewest is None, "more than there are rows"
    few = labels_needed(corrected(*drawn(2, 1000, 30)[:2]), 0.05)
    assert few.fewest and few.most
    assert few.most / few.fewest > needed.most / needed.fewest


def test_labels_are_added_ten_at_a_time_until_the_interval_is_narrow_enough() -> None:
    found = corrected(*drawn(2, 45, 40)[:2])
    assert labels_to_add(found, found.half_width) == 0
    assert labels_to_add(found, 0.01) == 5, "the rest"
    assert labels_to_add(corrected(*drawn(2, 200, 40)[:2]), 0.01) == 10
