"""The fit of strengths: that of a reference, finite for whoever wins all, and the same in whatever order games come."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize

from judgegym.statistics.bradley_terry import RIDGE, GameOutcome, Strengths, fit, fit_resampled

TOURNAMENTS = 100
EXACT = 1e-6


def tournament(
    seed: int, *, points: Sequence[float] = (0.0, 0.5, 1.0), covariates: int = 0
) -> tuple[int, list[GameOutcome]]:
    """Some games of some players, with gaps, winners of all and strong results."""
    chance = random.Random(seed)
    players = chance.randint(2, 12)
    true = [chance.gauss(0.0, 2.0) for _ in range(players)]
    games = []
    for _ in range(chance.randint(1, 60)):
        first, second = chance.sample(range(players), 2)
        rests_on = chance.random() < 1 / (1 + math.exp(true[second] - true[first] - 0.5))
        result = chance.choice(points) if chance.random() < 0.3 else float(rests_on)
        style = tuple(chance.uniform(-1.0, 1.0) for _ in range(covariates))
        games.append(GameOutcome(first, second, result, chance.choice((1.0, 1.0, 3.0)), style))
    return players, games


def most_likely(players: int, games: Sequence[GameOutcome]) -> NDArray[np.float64]:
    """Where the slope of the penalised likelihood is 0, which is concave: all games one by one, with scipy's solver."""
    width = players + 1 + len(games[0].covariates)
    columns = np.zeros((len(games), width))
    for line, game in zip(columns, games, strict=True):
        line[game.first], line[game.second], line[players] = 1.0, -1.0, 1.0
        line[players + 1 :] = game.covariates
    points = np.array([game.points for game in games])
    weights = np.array([game.weight for game in games])

    def slope(at: NDArray[np.float64]) -> NDArray[np.float64]:
        chances = 1 / (1 + np.exp(-columns @ at))
        return columns.T @ (weights * (chances - points)) + RIDGE * at

    def curvature(at: NDArray[np.float64]) -> NDArray[np.float64]:
        chances = 1 / (1 + np.exp(-columns @ at))
        return (columns.T * (weights * chances * (1 - chances))) @ columns + RIDGE * np.eye(width)

    found = optimize.root(slope, np.zeros(width), jac=curvature, tol=1e-12)
    assert np.abs(slope(found.x)).max() < 1e-8
    solution: NDArray[np.float64] = found.x
    return solution


def all_of(strengths: Strengths) -> list[float]:
    return [*strengths.values, strengths.position, *strengths.covariates]


@pytest.mark.slow
@pytest.mark.parametrize("covariates", [0, 2])
def test_fit_is_the_maximum_of_the_likelihood_with_ties_position_and_weights(
    covariates: int,
) -> None:
    for seed in range(TOURNAMENTS):
        players, games = tournament(seed, covariates=covariates)
        expected = most_likely(players, games)
        assert all_of(fit(players, games)) == pytest.approx(expected.tolist(), abs=EXACT), seed


def test_whoever_wins_all_has_a_finite_strength_and_the_mean_is_zero() -> None:
    strengths = fit(
        3,
        [
            GameOutcome(0, 1, 1.0),
            GameOutcome(1, 0, 0.0),
            GameOutcome(1, 2, 1.0),
            GameOutcome(0, 2, 1.0),
        ],
    )
    best, middle, worst = strengths.values
    assert 10 > best > middle > worst > -10
    assert sum(strengths.values) == pytest.approx(0.0, abs=1e-8)


def test_advantage_of_the_first_is_no_strength() -> None:
    strengths = fit(2, [GameOutcome(0, 1, 1.0), GameOutcome(1, 0, 1.0)] * 20)
    assert strengths.values == (0.0, 0.0)
    assert strengths.position > 2.0


def test_tie_is_half_a_win_and_half_a_loss_and_a_weight_is_a_number_of_games() -> None:
    others = [GameOutcome(0, 2, 1.0), GameOutcome(2, 1, 0.0)]
    halves = fit(3, [*others, GameOutcome(0, 1, 1.0, 0.5), GameOutcome(0, 1, 0.0, 0.5)])
    assert fit(3, [*others, GameOutcome(0, 1, 0.5)]) == halves
    assert fit(3, [*others, GameOutcome(0, 1, 1.0, 3.0)]) == fit(
        3, [*others, *[GameOutcome(0, 1, 1.0)] * 3]
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("players", range(2, 9))
def test_judge_that_always_ties_gives_equal_strengths_without_a_warning(players: int) -> None:
    games = [
        GameOutcome(one, other, 0.5, 3.0)
        for one in range(players)
        for other in range(players)
        if one != other
    ]
    assert fit(players, games) == Strengths((0.0,) * players)


def test_order_of_games_changes_nothing_and_a_player_without_games_is_at_the_mean() -> None:
    players, games = tournament(5)
    shuffled = random.Random(1).sample(games, len(games))
    assert fit(players, shuffled) == fit(players, games)
    assert fit(players + 1, games).values[players] == 0.0
    assert fit(3, []) == Strengths((0.0, 0.0, 0.0))


@pytest.mark.slow
def test_resamples_draw_rows_and_fit_each() -> None:
    rows = [[GameOutcome(0, 1, 1.0), GameOutcome(1, 0, 0.0)]] * 30 + [
        [GameOutcome(0, 1, 0.0), GameOutcome(1, 0, 1.0)]
    ] * 10
    drawn = [each.values[0] for each in fit_resampled(2, rows, rounds=50, seed=3)]
    assert len(set(drawn)) > 5
    middle = fit(2, [game for row in rows for game in row]).values[0]
    assert min(drawn) < middle < max(drawn)
    assert drawn == [each.values[0] for each in fit_resampled(2, rows, rounds=50, seed=3)]
    assert drawn != [each.values[0] for each in fit_resampled(2, rows, rounds=50, seed=4)]


@pytest.mark.parametrize(
    ("games", "message"),
    [
        ([GameOutcome(0, 0, 1.0)], "two different players"),
        ([GameOutcome(0, 2, 1.0)], "two different players"),
        ([GameOutcome(0, 1, 1.5)], r"points .*, not 1\.5 and 1\.0"),
        ([GameOutcome(0, 1, 1.0, -1.0)], r"weight .*, not 1\.0 and -1\.0"),
        (
            [GameOutcome(0, 1, 1.0), GameOutcome(0, 1, 1.0, 1.0, (1.0,))],
            "numbers of covariates",
        ),
    ],
)
def test_games_that_cannot_be_are_refused(games: list[GameOutcome], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(2, games)


def test_resamples_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="one row"):
        fit_resampled(2, [], rounds=1)
