"""Peers' tables: leniency taken out by least squares, intervals, self-preference; by numbers worked out by hand."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from judgegym.eval_environments.peer import ranking
from judgegym.eval_environments.peer.ranking import (
    adjust_for_leniency,
    compute_adjusted_intervals,
    compute_means,
    compute_self_preference,
)
from judgegym.statistics.agreement import Interval

NAN = math.nan
Table = list[list[float]]


def one(table: Table) -> NDArray[np.float64]:
    """The scores of one query."""
    return np.array([table], dtype=float)


def adjusted(scores: NDArray[np.float64]) -> list[float | None]:
    found = adjust_for_leniency(scores)
    assert not isinstance(found, str)
    return found


def intervals(scores: NDArray[np.float64], *, rounds: int = 1000, seed: int = 0) -> list[Interval]:
    """Those of a table in which every candidate has a score."""
    found = [
        each
        for each in compute_adjusted_intervals(scores, rounds=rounds, seed=seed)
        if each is not None
    ]
    assert len(found) == scores.shape[2]
    return found


def test_table_and_columns_are_means_over_what_is_there() -> None:
    scores = np.array([[[NAN, 80.0], [60.0, NAN]], [[NAN, 90.0], [NAN, NAN]]])
    assert compute_means(scores, 0) == pytest.approx(
        np.array([[NAN, 85.0], [60.0, NAN]]), nan_ok=True
    )
    assert compute_means(scores, (0, 1)) == pytest.approx([60.0, 85.0])
    assert compute_means(one([[NAN]]), (0, 1)) == pytest.approx([NAN], nan_ok=True)


def test_a_complete_table_gives_the_means_of_its_columns() -> None:
    assert adjusted(one([[10, 20, 30], [40, 90, 20], [100, 0, 50]])) == pytest.approx(
        [50, 110 / 3, 100 / 3]
    )


def test_a_strict_judge_that_spares_itself_flips_the_order() -> None:
    """80 + judge + candidate with judges −30, 0, 0 and candidates 0, 5, −5."""
    scores = one([[NAN, 55, 45], [80, NAN, 75], [80, 85, NAN]])
    assert compute_means(scores, (0, 1)) == pytest.approx([80, 70, 60])
    assert adjusted(scores) == pytest.approx([70, 75, 65])


def test_three_models_with_an_empty_diagonal() -> None:
    """(2·column + row) / 3 − total / 6, from the normal equations."""
    table = [[NAN, 98, 60], [95, NAN, 73], [91, 96, NAN]]
    rows, columns, total = [158, 168, 187], [186, 194, 133], 513
    wanted = [(2 * column + row) / 3 - total / 6 for row, column in zip(rows, columns, strict=True)]
    assert adjusted(one(table)) == pytest.approx(wanted)


def test_queries_weigh_by_their_scores() -> None:
    """Judge 0 saw candidate 0 twice: 3 equations for 3 unknowns but one, worked out by hand.

    Scores 0-0: 10 and 20, 0-1: 40, 1-1: 60. Judge 1 is 20 above judge 0, so candidates are at 15 +
    10 and 40 + 10.
    """
    scores = np.array([[[10, 40], [NAN, 60]], [[20, NAN], [NAN, NAN]]])
    assert adjusted(scores) == pytest.approx([25, 50])


def test_a_judge_without_scores_is_no_judge() -> None:
    assert adjusted(one([[10, 30], [NAN, NAN], [20, 60]])) == pytest.approx([15, 45])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[NAN, NAN], [NAN, NAN]], "no score"),
        ([[10, NAN], [NAN, 20]], "falls apart"),
        ([[10, 20, NAN, NAN], [NAN, NAN, 30, 40]], "falls apart"),
    ],
)
def test_what_cannot_be_compared_has_a_reason(table: Table, words: str) -> None:
    found = adjust_for_leniency(one(table))
    assert isinstance(found, str)
    assert words in found
    assert compute_adjusted_intervals(one(table), rounds=20) == []


def test_a_candidate_without_scores_takes_nothing_from_the_others() -> None:
    """80 + judge + candidate with judges −30, 0, 0, 0 and candidates 0, 5, −5; the fourth judges and never answered."""
    scores = one([[NAN, 55, 45, NAN], [80, NAN, 75, NAN], [80, 85, NAN, NAN], [80, 85, 75, NAN]])
    assert compute_means(scores, (0, 1)) == pytest.approx([80, 75, 65, NAN], nan_ok=True)
    assert adjusted(scores) == [pytest.approx(each) for each in (72.5, 77.5, 67.5)] + [None]
    found = compute_adjusted_intervals(scores, rounds=20)
    assert [each is None for each in found] == [False, False, False, True]


def test_no_noise_of_the_fit_is_published() -> None:
    assert adjusted(one([[40]])) == [40.0]
    assert adjusted(one([[0, 1], [0, 0.5]])) == [0.0, 0.75]
    assert str(adjusted(one([[0, 1], [0, 0.5]]))[0]) == "0.0"


def test_intervals_of_two_queries_reach_from_one_to_the_other() -> None:
    """One round in four draws either query twice."""
    scores = np.array([[[10.0, 70.0], [20.0, 80.0]], [[30.0, 40.0], [40.0, 50.0]]])
    assert [(found.low, found.high) for found in intervals(scores)] == [(15.0, 35.0), (45.0, 75.0)]


def test_intervals_are_over_queries_and_of_the_seed() -> None:
    generator = np.random.default_rng(3)
    scores = generator.integers(0, 101, size=(30, 3, 3)).astype(float)
    first, again, other = (intervals(scores, rounds=200, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    for interval, value in zip(first, adjusted(scores), strict=True):
        assert value is not None
        assert interval.low < value < interval.high
        assert interval.high - interval.low < 30


def slow_intervals(cells: NDArray[np.float64], rounds: int) -> list[tuple[float, float]]:
    """The percentile bootstrap, one table of resampled queries at a time, with another generator."""
    generator = random.Random(1)
    fits = [
        adjusted(np.stack(generator.choices(list(cells), k=len(cells)))) for _ in range(rounds)
    ]  # fmt: skip
    columns = [
        sorted(value for value in column if value is not None) for column in zip(*fits, strict=True)
    ]
    assert {len(column) for column in columns} == {rounds}
    return [(column[round(0.025 * rounds)], column[round(0.975 * rounds)]) for column in columns]


@pytest.mark.slow
def test_intervals_agree_with_a_slow_bootstrap() -> None:
    """Of skewed scores, with an empty diagonal and holes."""
    generator = np.random.default_rng(5)
    cells = 100 * generator.random((25, 3, 3)) ** 4
    cells[:, range(3), range(3)] = NAN
    cells[::4, 0, 1] = NAN
    scores = cells
    slow = slow_intervals(cells, 1500)
    for interval, (low, high) in zip(intervals(scores, rounds=1500), slow, strict=True):
        tolerance = 0.08 * (high - low)  # half of what lies between the quantiles 0.025 and 0.1
        assert interval.low == pytest.approx(low, abs=tolerance)
        assert interval.high == pytest.approx(high, abs=tolerance)


def test_rounds_that_leave_a_candidate_out_are_left_out() -> None:
    """Only one of two queries has candidate 1: a round of the other one alone says nothing of it."""
    scores = np.array([[[10.0, NAN], [10.0, NAN]], [[10.0, 30.0], [10.0, 30.0]]])
    low, high = (
        [getattr(each, name) for each in intervals(scores, rounds=100)] for name in ("low", "high")
    )
    assert low == pytest.approx([10, 30])
    assert high == pytest.approx([10, 30])


def test_self_preference_is_not_leniency() -> None:
    """A judge that is 20 above the other throughout does not favour itself; one that gives itself 9 more does."""
    assert compute_self_preference(one([[70, 90], [50, 70]]), 0, 0) == pytest.approx(0)
    # Centred: 79 − 84.5 = −5.5 of itself; of it by the other 50 − 60 = −10.
    assert compute_self_preference(one([[79, 90], [50, 70]]), 0, 0) == pytest.approx(4.5)


def test_self_preference_over_several_judges() -> None:
    table: Table = [[90, 50, 40], [60, 60, 60], [NAN, NAN, NAN], [30, 0, 60]]
    assert compute_self_preference(one(table), 0, 0) == pytest.approx((90 - 60) - (0 + 0) / 2)
    assert compute_self_preference(one(table), 3, 2) == pytest.approx((60 - 30) - (-20 + 0) / 2)


def test_self_preference_that_cannot_be_had() -> None:
    assert "diagonal" in str(compute_self_preference(one([[NAN, 50], [40, NAN]]), 0, 0))
    assert "no other judge" in str(compute_self_preference(one([[80, 50], [NAN, 70]]), 0, 0))
    assert "diagonal" in str(compute_self_preference(one([[NAN, NAN], [40, 50]]), 0, 0))


EFFECTS = st.lists(st.floats(-50, 50), min_size=2, max_size=6)


@pytest.mark.slow
@given(EFFECTS, EFFECTS, st.randoms(use_true_random=False))
def test_effects_that_add_up_are_found_whatever_is_missing(
    judges: list[float], candidates: list[float], random: object
) -> None:
    """As long as the table hangs together, each candidate is where the mean of the judges that are there puts it."""
    table = np.add.outer(np.array(judges), np.array(candidates))
    mask = np.array([[random.random() < 0.3 for _ in candidates] for _ in judges])  # type: ignore[attr-defined]
    table[mask] = NAN
    found = adjust_for_leniency(table[None])
    assume(not isinstance(found, str))
    there = [effect for effect, row in zip(judges, table, strict=True) if np.isfinite(row).any()]
    for value, effect, column in zip(found, candidates, table.T, strict=True):
        assert (value is None) == (not np.isfinite(column).any())
        assert value is None or value == pytest.approx(effect + sum(there) / len(there), abs=1e-6)


@pytest.mark.parametrize("queries", [1, 2, 7, 300])
def test_rounds_in_blocks_are_those_of_one_draw_of_all(
    queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds of a seed are the same, however many rounds are fitted at once."""
    cells = np.random.default_rng(2).integers(0, 100, size=(queries, 3, 4)).astype(float)
    at_once = compute_adjusted_intervals(cells, rounds=60, seed=4)
    monkeypatch.setattr(ranking, "_CELLS_AT_ONCE", 1)
    assert compute_adjusted_intervals(cells, rounds=60, seed=4) == at_once
    drawn = np.random.default_rng(4).integers(0, queries, size=(60 if queries > 1 else 1, queries))
    columns = [
        cells[each].mean(axis=(0, 1)) for each in drawn
    ]  # without missing cells the adjusted scores are these
    low, high = np.quantile(columns, [0.025, 0.975], axis=0)
    assert [each.low for each in at_once if each is not None] == pytest.approx(low)
    assert [each.high for each in at_once if each is not None] == pytest.approx(high)
