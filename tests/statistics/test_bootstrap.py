import numpy as np
import pytest

from judgegym.statistics.agreement import ratio_interval

ONES = [1.0] * 50
HALVES = [0.0, 1.0] * 25


def test_no_rows_is_an_error() -> None:
    with pytest.raises(ValueError, match="row"):
        ratio_interval([], [])


def test_one_row_is_its_own_interval() -> None:
    interval = ratio_interval([1.5], [2.0])
    assert (interval.low, interval.high) == (0.75, 0.75)


def test_equal_rows_give_an_interval_of_width_zero() -> None:
    interval = ratio_interval([2.0] * 9, [4.0] * 9)
    assert (interval.low, interval.high) == (0.5, 0.5)


def test_the_interval_is_a_function_of_its_arguments() -> None:
    first, again, other = (ratio_interval(HALVES, ONES, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_lower_level_lies_within_a_higher_one() -> None:
    wide, narrow = (ratio_interval(HALVES, ONES, level=level) for level in (0.95, 0.5))
    assert wide.low < narrow.low < 0.5 < narrow.high < wide.high


@pytest.mark.slow
def test_interval_of_many_rows_has_the_normal_width() -> None:
    rows = 400
    interval = ratio_interval([0.0, 1.0] * (rows // 2), [1.0] * rows, rounds=20_000)
    half = 1.96 * (0.25 / rows) ** 0.5  # the normal interval of a proportion
    assert interval.low == pytest.approx(0.5 - half, abs=0.005)
    assert interval.high == pytest.approx(0.5 + half, abs=0.005)


def test_rows_are_weighted_by_their_denominators() -> None:
    # Two rows drawn twice: both rows 1 (1 round in 4), one of each (2 in 4), both rows 2 (1 in 4).
    interval = ratio_interval([6.0, 0.0], [6.0, 2.0], rounds=4000, level=0.4)
    assert (interval.low, interval.high) == (0.75, 0.75)


@pytest.mark.parametrize("rows", [7, 500, 4999])
@pytest.mark.parametrize("is_mean", [True, False])
def test_rounds_are_those_of_one_draw_of_all(rows: int, is_mean: bool) -> None:
    """The bounds of a seed stay what they were when all rounds were drawn at once."""
    numbers, rounds = np.random.default_rng(1), 300
    top = numbers.random(rows)
    bottom = np.ones(rows) if is_mean else numbers.random(rows) + 0.5
    drawn = np.random.default_rng(5).integers(0, rows, size=(rounds, rows))
    ratios = top[drawn].sum(axis=1) / bottom[drawn].sum(axis=1)
    low, high = np.quantile(ratios, [(1 - 0.95) / 2, (1 + 0.95) / 2])
    interval = ratio_interval(list(top), list(bottom), rounds=rounds, seed=5)
    assert (interval.low, interval.high) == (low, high)
