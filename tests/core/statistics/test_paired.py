"""Paired statistics against scipy, scikit-learn and their definitions, and the coverage of the paired interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from judgegym.statistics.agreement import quadratic_kappa
from judgegym.statistics.intervals import mean_interval
from judgegym.statistics.paired import (
    PairedIntervals,
    PairedTest,
    RatioTerms,
    holm,
    paired_intervals,
    rows_for_half_width,
    rows_needed,
    sign_test,
    wilcoxon_test,
)

THIRDS = st.lists(
    st.tuples(st.sampled_from((0.0, 0.5, 1.0)), st.sampled_from((0.0, 0.5, 1.0))), min_size=1
)
BITS = st.lists(
    st.tuples(st.sampled_from((0.0, 1.0)), st.sampled_from((0.0, 1.0))), min_size=1, max_size=60
)
LEVELS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=80)


def means(values: list[float] | np.ndarray) -> RatioTerms:  # type: ignore[type-arg]
    return RatioTerms(values, [1.0] * len(values))


def intervals(first: RatioTerms, second: RatioTerms) -> PairedIntervals:
    found = paired_intervals(first, second)
    assert isinstance(found, PairedIntervals), found
    return found


@pytest.mark.slow
@given(THIRDS)
@settings(deadline=None)
def test_the_sign_test_is_scipys_binomial_test_over_the_rows_that_differ(
    pairs: list[tuple[float, float]],
) -> None:
    first, second = zip(*pairs, strict=True)
    higher = sum(other > one for one, other in pairs)
    lower = sum(other < one for one, other in pairs)
    found = sign_test(first, second)
    assert (found.higher, found.lower) == (higher, lower)
    assert (found.name == "mcnemar") is (0.5 not in {*first, *second}), (
        "the exact test of McNemar is the same"
    )
    if higher + lower:
        assert found.p == pytest.approx(stats.binomtest(higher, higher + lower).pvalue)
    else:
        assert found.p is None and "equal values" in found.reason


def test_values_that_differ_by_rounding_alone_are_equal() -> None:
    assert sign_test([0.3, 0.0], [0.1 + 0.2, 1.0]) == PairedTest("sign", 1.0, 1, 0)


def test_values_between_zero_and_one_are_no_case_for_mcnemar() -> None:
    assert sign_test([0.0, 1.0, 0.5], [1.0, 1.0, 1.0]).name == "sign"


@pytest.mark.slow
@given(THIRDS)
@settings(deadline=None, max_examples=40)
def test_wilcoxon_is_scipys(pairs: list[tuple[float, float]]) -> None:
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    found = wilcoxon_test(first, second)
    if (first == second).all():
        assert found == PairedTest("wilcoxon", None, 0, 0, found.reason)
        assert "equal values" in found.reason
    else:
        changes = (second - first)[second != first]
        assert found.p == pytest.approx(stats.wilcoxon(changes).pvalue)


def test_wilcoxon_of_few_rows_that_differ_is_exact_however_many_are_equal() -> None:
    second = [1.0] * 5 + [0.5] * 95
    assert wilcoxon_test([0.5] * 100, second).p == pytest.approx(2 / 2**5)


def test_wilcoxon_gives_equal_differences_one_rank_though_they_are_rounded_otherwise() -> None:
    first, second = [0.1, 0.2, 0.6, 0.1, 0.9], [0.2, 0.3, 0.5, 0.4, 0.5]
    in_tenths = np.array([1, 1, -1, 3, -4])
    assert wilcoxon_test(first, second).p == pytest.approx(stats.wilcoxon(in_tenths).pvalue)


@pytest.mark.slow
@given(LEVELS)
@settings(deadline=None)
def test_quadratic_kappa_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import cohen_kappa_score

    first, second = zip(*pairs, strict=True)
    found = quadratic_kappa(
        [x / 10 for x in first], [y / 10 for y in second]
    )  # the unit of the scale does not matter
    if len({*first, *second}) == 1:
        assert "same value" in str(found)
    else:
        expected = cohen_kappa_score(first, second, labels=[1, 2, 3, 4, 5], weights="quadratic")
        assert found == pytest.approx(expected, abs=1e-9)


def test_holm_multiplies_the_smallest_p_by_the_number_of_tests_and_keeps_the_order() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_interval_of_a_difference_of_ratios_is_near_that_of_all_resamples() -> None:
    """Weights differ from row to row and from side to side, as those of decisive games do."""
    generator = np.random.default_rng(6)
    weights, others = generator.choice([2.0, 6.0], (2, 40))
    totals, points = weights * generator.random(40), others * generator.random(40)
    drawn = generator.integers(0, 40, (10_000, 40))
    ratios = [
        top[drawn].sum(axis=1) / bottom[drawn].sum(axis=1)
        for top, bottom in ((totals, weights), (points, others))
    ]
    found = intervals(RatioTerms(totals, weights), RatioTerms(points, others))
    assert found.difference.low == pytest.approx(
        np.quantile(ratios[1] - ratios[0], 0.025), abs=0.04
    )
    assert found.difference.high == pytest.approx(
        np.quantile(ratios[1] - ratios[0], 0.975), abs=0.04
    )


def test_the_interval_of_each_side_is_the_one_of_a_run_alone() -> None:
    first, second = np.random.default_rng(1).random((2, 100))
    found = intervals(means(first), means(second))
    assert found.first == mean_interval(first)
    assert found.second == mean_interval(second)


def test_one_row_has_no_interval() -> None:
    assert "two rows" in str(paired_intervals(means([1.0]), means([0.0])))


def test_unequal_numbers_of_rows_and_weights_of_zero_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 rows .*first side, 1 .*second"):
        paired_intervals(means([1.0, 0.0]), means([0.0]))
    with pytest.raises(ValueError, match=r"weight .*not positive"):
        paired_intervals(RatioTerms([1.0, 0.0], [1.0, 0.0]), means([0.0, 0.0]))


def repetition(number: int, rows: int = 400) -> bool:
    """Whether the interval covers a difference of 5 points that is planted in win rates over the same rows.

    Most rows end alike on both sides. Of 100 rows 16 become wins, which are half wins already, and
    6 become losses: 0.16 · 0.5 − 0.06 · 0.5 = 0.05.
    """
    generator = np.random.default_rng([15, number])
    first = generator.choice((0.0, 0.5, 1.0), p=(0.4, 0.2, 0.4), size=rows)
    turned = generator.random(rows)
    second = np.where(turned < 0.16, 1.0, np.where(turned < 0.22, 0.0, first))
    found = intervals(means(first), means(second)).difference
    return found.low <= 0.05 <= found.high


@pytest.mark.slow
def test_the_interval_covers_a_planted_difference_of_five_points_in_at_least_93_of_100_repetitions() -> (
    None
):
    assert sum(repetition(number) for number in range(100)) >= 93


def test_rows_needed_give_the_power_that_they_promise() -> None:
    """With so many rows from the same population, the interval excludes 0 about 80 times in 100."""
    generator = np.random.default_rng(4)
    first, second = generator.normal(0, 1, 4000), generator.normal(0, 1, 4000)
    second += 0.1 - second.mean() + first.mean()  # the observed difference is 0.1
    needed = rows_needed(means(first), means(second)).rows
    assert needed is not None
    assert needed == pytest.approx((2.8016 * np.std(second - first, ddof=1) / 0.1) ** 2, rel=0.001)
    drawn = generator.normal(0.1, np.std(second - first), (2000, needed))
    excludes = np.abs(drawn.mean(axis=1)) > 1.96 * drawn.std(axis=1, ddof=1) / math.sqrt(needed)
    assert excludes.mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("shift", [0.0, 10.0])
def test_an_interval_over_the_planned_rows_has_the_half_width(shift: float) -> None:
    """Scores from 0 to 1, whose ends are known, and the same without known ends (Student's t)."""
    generator = np.random.default_rng(6)
    first = generator.random(5000)
    second = np.clip(first + generator.normal(0, 0.2, 5000), 0, 1)
    for half_width in (0.02, 0.1):
        needed = rows_for_half_width(means(first + shift), means(second + shift), half_width)
        assert needed.rows is not None
        drawn = generator.integers(0, 5000, (50, needed.rows))
        between = [
            intervals(means(first[rows] + shift), means(second[rows] + shift)).difference
            for rows in drawn
        ]
        widths = [interval.high - interval.low for interval in between]
        assert np.mean(widths) / 2 == pytest.approx(half_width, rel=0.06)


def test_rows_for_a_half_width_that_nothing_tells() -> None:
    assert "one row" in rows_for_half_width(means([0.0]), means([0.5]), 0.1).reason
    raw = means([3.0, 4.0]), means([4.0, 5.0])
    assert "same amount" in rows_for_half_width(*raw, 0.1).reason
    assert "too large" in rows_for_half_width(*raw[:1], means([4.0, 6.0]), 1e-200).reason
    with pytest.raises(ValueError, match="half width"):
        rows_for_half_width(*raw, 0.0)


def test_rows_needed_of_ratios_take_the_weights_into_account() -> None:
    """A side whose rows all have its own ratio adds nothing to the variation, whatever their weights."""
    weights = [1.0, 3.0, 1.0, 3.0]
    even = RatioTerms([0.5 * weight for weight in weights], weights)
    values = [0.0, 1.0, 1.0, 1.0]
    assert rows_needed(even, means(values)) == rows_needed(means([0.5] * 4), means(values))


def test_a_difference_of_zero_is_settled_by_no_number_of_rows() -> None:
    found = rows_needed(means([0.0, 1.0]), means([1.0, 0.0]))
    assert found.rows is None
    assert "difference is 0" in found.reason


def test_rows_that_all_differ_by_the_same_amount_say_nothing_about_the_number_of_rows() -> None:
    assert "same amount" in rows_needed(means([0.0, 0.5]), means([0.5, 1.0])).reason
    assert "one row" in rows_needed(means([0.0]), means([0.5])).reason
