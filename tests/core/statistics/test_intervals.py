"""Intervals against the binomial distribution, against draws, and how often they hold the truth."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from judgegym.statistics.agreement import Interval
from judgegym.statistics.intervals import (
    Ends,
    MeanEstimate,
    estimate_mean,
    estimate_share_mean,
    mean_interval,
)
from judgegym.statistics.paired import PairedIntervals, RatioTerms, paired_intervals


def interval(*columns: object, **options: object) -> tuple[float, float]:
    found = mean_interval(*columns, **options)  # type: ignore[arg-type]
    assert found is not None
    return found.low, found.high


def estimate(*columns: object, **options: object) -> MeanEstimate:
    found = estimate_mean(*columns, **options)  # type: ignore[arg-type]
    assert isinstance(found, MeanEstimate), found
    return found


@pytest.mark.parametrize("rows", [2, 7, 20, 200])
def test_no_hit_and_only_hits_have_the_width_that_the_number_of_rows_gives(rows: int) -> None:
    none, every = interval([0.0] * rows), interval([1.0] * rows)
    reach = 1 - 0.05 ** (1 / rows)  # ½ (1 − p)ⁿ = .025
    assert none == pytest.approx((0.0, reach), abs=1e-6)
    assert every == pytest.approx((1 - reach, 1.0), abs=1e-6)


@pytest.mark.parametrize(("hits", "rows"), [(1, 2), (1, 20), (7, 20), (25, 50), (199, 200)])
def test_a_rate_has_the_mid_p_interval_of_the_binomial_distribution(hits: int, rows: int) -> None:
    low, high = interval([1.0] * hits + [0.0] * (rows - hits))

    def mid_p(rate: float) -> float:  # P(X < hits) + ½ P(X = hits)
        return float(stats.binom.cdf(hits - 1, rows, rate) + stats.binom.pmf(hits, rows, rate) / 2)

    assert 1 - mid_p(low) == pytest.approx(0.025, abs=1e-6)
    assert mid_p(high) == pytest.approx(0.025, abs=1e-6)


def test_values_between_the_ends_have_the_interval_of_random_weights_and_a_row_at_either_end() -> (
    None
):
    """By 200,000 draws of the weights: half of the draws with a further row at 0, half with one at 1."""
    values, weights = (
        np.array([0.2, 0.9, 0.5, 1.0, 0.7, 0.4]),
        np.array([1.0, 2.0, 1.0, 1.0, 3.0, 1.0]),
    )
    drawn = np.random.default_rng(0).exponential(size=(200_000, 7))
    ends = np.repeat([0.0, 1.0], 100_000)
    further = (
        drawn[:, 6] * (weights @ weights) / weights.sum()
    )  # which counts as much as a unit of weight does
    ratios = (drawn[:, :6] @ (values * weights) + further * ends) / (
        drawn[:, :6] @ weights + further
    )
    assert interval(values * weights, weights) == pytest.approx(
        tuple(np.quantile(ratios, [0.025, 0.975])), abs=0.004
    )


@pytest.mark.parametrize("noise", [0.05, 1e-19])
def test_another_part_of_an_estimate_adds_its_error(noise: float) -> None:
    """By 200,000 draws, as above, of shares and a normal error."""
    shares = np.array([0.05, -0.02, -0.04, 0.03, -0.02])
    generator = np.random.default_rng(1)
    weights, ends = generator.exponential(size=(200_000, 6)), np.repeat([0.0, 1.0], 100_000)
    # The part that is no sum over rows counts as it would with weights of 1.
    sums = (
        weights[:, :5] @ (0.7 + 5 * shares)
        + weights[:, 5] * ends
        + 5 * noise * generator.standard_normal(200_000)
    )
    found = estimate_share_mean(0.7, shares, Ends(0, 1), noise=noise).interval()
    expected = np.quantile(sums / weights.sum(axis=1), [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.006)


def test_equal_values_have_a_width_from_their_number_and_the_scale() -> None:
    low, high = interval([4.0] * 30, ends=Ends(1, 5))
    assert 1 < low < 4 < high < 5
    assert high - 4 < 4 - low, "there is less room above"
    wider = interval([4.0] * 10, ends=Ends(1, 5))
    assert wider[0] < low and wider[1] > high


def test_a_change_of_the_scale_changes_the_interval_with_it() -> None:
    values = np.random.default_rng(1).random(30)
    low, high = interval(values)
    assert interval(1 + 4 * values, ends=Ends(1, 5)) == pytest.approx(
        (1 + 4 * low, 1 + 4 * high), abs=1e-6
    )
    assert interval(1 - values) == pytest.approx((1 - high, 1 - low), abs=1e-6)


def test_many_rows_that_are_all_different_have_the_interval_of_a_mean() -> None:
    values = np.random.default_rng(2).random(6_000)
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert interval(values) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=0.0004
    )


def test_without_known_ends_it_is_students() -> None:
    values = np.random.default_rng(3).normal(2, 3, 25)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert interval(values) == pytest.approx((expected.low, expected.high))
    assert estimate(values).p_value(1.0) == pytest.approx(stats.ttest_1samp(values, 1.0).pvalue)


def test_there_is_no_interval_of_one_row_of_one_prompt_or_of_equal_values_without_a_scale() -> None:
    assert "two rows" in str(estimate_mean([0.5]))
    assert "one prompt" in str(estimate_mean([0.5, 1.0], clusters=np.array([3, 3])))
    assert "of their scale" in str(estimate_mean([7.5, 7.5]))
    with pytest.raises(ValueError, match="one row"):
        estimate_mean([])
    with pytest.raises(ValueError, match="weights above 0"):
        estimate_mean([1.0, 1.0], [1.0, 0.0])


def test_the_p_value_is_1_minus_the_level_at_the_end_of_the_interval() -> None:
    found = estimate(np.random.default_rng(4).random(40))
    bounds = found.interval(0.9)
    assert [found.p_value(end) for end in (bounds.low, bounds.high)] == pytest.approx(
        [0.1, 0.1], abs=1e-6
    )
    assert found.interval(0.5).low > bounds.low and found.interval(0.5).high < bounds.high


def test_responses_to_one_prompt_that_are_alike_count_as_one() -> None:
    values = np.random.default_rng(5).random(20)
    prompts = np.repeat(np.arange(20), 4)
    assert interval(np.repeat(values, 4), clusters=prompts) == pytest.approx(
        interval(values), abs=1e-9
    )


def terms(values: object) -> RatioTerms:
    return RatioTerms(values, np.ones(len(values)))  # type: ignore[arg-type]


def difference(first: object, second: object) -> Interval:
    found = paired_intervals(terms(first), terms(second))
    assert isinstance(found, PairedIntervals), found
    return found.difference


def test_twenty_wins_against_twenty_losses_may_be_less_than_a_difference_of_one() -> None:
    found = difference([1.0] * 20, [0.0] * 20)
    reach = 2 * (1 - 0.05 ** (1 / 20))
    assert (found.low, found.high) == pytest.approx((-1.0, -1 + reach), abs=1e-6)


def test_equal_sides_may_differ_in_rows_that_nobody_has_seen() -> None:
    found = difference([0.0, 1.0, 0.5] * 10, [0.0, 1.0, 0.5] * 10)
    assert found.low < 0 < found.high
    assert found.high == pytest.approx(-found.low, abs=1e-6)


def coverage(draw: Callable[[int], Interval | None], truth: float, runs: int) -> float:
    found = [interval for number in range(runs) if (interval := draw(number)) is not None]
    return sum(each.low <= truth <= each.high for each in found) / runs


def test_intervals_of_rare_hits_hold_the_truth() -> None:
    """A cell of `benchmarks/interval_coverage.py`, with 100 samples; the percentile bootstrap held it in 33."""

    def draw(number: int) -> Interval | None:
        return mean_interval((np.random.default_rng(number).random(20) < 0.02).astype(float))

    assert coverage(draw, 0.02, 100) >= 0.92


@pytest.mark.slow
def test_intervals_of_skewed_paired_and_clustered_rows_hold_the_truth() -> None:
    """Cells of the same benchmark; of 200 samples .92 may be .89."""

    def skewed(number: int) -> Interval | None:
        generator = np.random.default_rng(number)
        return mean_interval(np.where(generator.random(20) < 0.9, 1.0, generator.random(20)))

    def paired(number: int) -> Interval:
        first, second = np.random.default_rng(number).random((2, 20))
        return difference((first < 0.99).astype(float), (second < 0.95).astype(float))

    def clustered(number: int) -> Interval | None:
        generator = np.random.default_rng(number)
        chances = np.repeat(generator.beta(1, 1, 30), 4)
        return mean_interval(
            (generator.random(120) < chances).astype(float), clusters=np.repeat(np.arange(30), 4)
        )

    assert coverage(skewed, 0.95, 200) >= 0.89
    assert coverage(paired, -0.04, 200) >= 0.89
    assert coverage(clustered, 0.5, 200) >= 0.89
