"""Rates of the same rows: intervals that cover, exact p-values, means above a limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from judgegym_trials.attacks.paired_rates import PairedCounts, false_discovery, mean_above


def test_the_p_value_is_the_binomial_tail_of_the_rows_that_differ() -> None:
    counts = PairedCounts.from_outcomes(
        [True] * 6 + [False] * 4, [False] * 5 + [True] * 2 + [False] * 3
    )
    assert counts == (1, 5, 1, 3) and counts.difference == pytest.approx(0.4)
    assert counts.p == pytest.approx(sum(math.comb(6, k) for k in (5, 6)) / 2**6)
    assert PairedCounts(3, 0, 0, 4).p == 1.0


def test_intervals_are_mirrored_and_hold_the_difference() -> None:
    counts = PairedCounts(12, 9, 2, 21)
    found, mirrored = counts.interval(), PairedCounts(12, 2, 9, 21).interval()
    assert found.low < counts.difference < found.high
    assert (mirrored.low, mirrored.high) == (pytest.approx(-found.high), pytest.approx(-found.low))
    everything, nothing = PairedCounts(0, 14, 0, 0).interval(), PairedCounts(0, 0, 0, 0).interval()
    assert everything.high == 1.0 and 0.6 < everything.low < 0.8
    assert (nothing.low, nothing.high) == (-1.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [(0.1, 0.05), (0.5, 0.3), (0.02, 0.02)])
def test_the_interval_covers(first: float, second: float) -> None:
    generator, covered = np.random.default_rng(0), 0
    for _ in range(800):
        counts = PairedCounts.from_outcomes(
            generator.random(60) < first, generator.random(60) < second
        )
        interval = counts.interval()
        covered += interval.low <= first - second <= interval.high
    assert covered >= 0.93 * 800


def test_equal_numbers_have_an_interval_of_some_width() -> None:
    paid = mean_above([0.8] * 40, 0.3)
    assert paid.mean == pytest.approx(0.8) and 0.6 < paid.low < 0.79 and paid.p < 1e-6
    assert mean_above([0.8, 0.8], 0.3).p > 0.05
    assert mean_above([0.2] * 40, 0.3).p > 0.9


def test_adjusted_p_values_are_those_of_benjamini_and_hochberg() -> None:
    assert false_discovery([0.01, 0.04, 0.5]) == pytest.approx([0.03, 0.06, 0.5])
    assert false_discovery([]) == []
