"""Ratings from games: the scale, the anchor, and what intervals over rows cover."""

from __future__ import annotations

import math
import random

import pytest

from judgegym.eval_environments.arena import ratings
from judgegym.eval_environments.arena.ratings import Rating, rate
from judgegym.statistics.bradley_terry import GameOutcome

POINT = 400 / math.log(10)
PLANTED = (0.8, -0.5, 0.0)
"""The strengths of three players; the last one is the anchor."""


def rows_of(
    count: int, *, seed: int, spread: float = 0.0, times: int = 1, style: float = 0.0
) -> list[list[GameOutcome]]:
    """Rows in which each pair plays in both orders.

    Args:
        count: how many.
        seed: of what is drawn.
        spread: how much the strengths of a row differ from those of all rows.
        times: how often each result counts.
        style: what a unit of the covariate adds to the odds; without, games have none.
    """
    drawn = random.Random(seed)
    rows = []
    for _ in range(count):
        own = [strength + drawn.gauss(0, spread) for strength in PLANTED]
        row = []
        for first in range(3):
            for second in range(3):
                if first != second:
                    covariates = (drawn.gauss(0, 1) + 0.7 * (first - second),) if style else ()
                    odds = own[first] - own[second] + 0.3 + style * sum(covariates)
                    points = float(drawn.random() < 1 / (1 + math.exp(-odds)))
                    row += [GameOutcome(first, second, points, covariates=covariates)] * times
        rows.append(row)
    return rows


def found(rows: list[list[GameOutcome]]) -> list[Rating]:
    return rate(3, rows, anchor=2, seed=0)[0]


def width(rating: Rating) -> float:
    assert rating.low is not None and rating.high is not None
    return rating.high - rating.low


def covers(rating: Rating, value: float) -> bool:
    assert rating.low is not None and rating.high is not None
    return rating.low <= value <= rating.high


@pytest.mark.slow
def test_rating_is_400_points_for_odds_of_ten_to_one_and_the_anchor_has_1000() -> None:
    """The first wins ten of eleven games in each order, so that the ridge of the fit hardly matters."""
    rows = [[GameOutcome(0, 1, 10 / 11, weight=50), GameOutcome(1, 0, 1 / 11, weight=50)]] * 100
    (first, anchor), position = rate(2, rows, anchor=1, seed=0)
    assert first.value == pytest.approx(1400, abs=0.5)
    assert anchor == Rating(1000.0, reason=anchor.reason) and "given" in anchor.reason
    assert position == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_intervals_cover_planted_ratings_about_as_often_as_they_say(
    monkeypatch: pytest.MonkeyPatch, spread: float
) -> None:
    """In 40 of the 40 · 2 · 0.95 = 76 expected cases at least 70; also where rows differ in who is good at them."""
    monkeypatch.setattr(ratings, "ROUNDS", 120)
    attenuation = 1 / math.sqrt(
        1 + 2 * spread**2 * 0.346
    )  # of logits whose noise is normal, approximately
    covered = 0
    for seed in range(40):
        for player, rating in enumerate(found(rows_of(60, seed=seed, spread=spread))[:2]):
            covered += covers(rating, 1000 + POINT * PLANTED[player] * attenuation)
    assert covered >= 70


@pytest.mark.slow
def test_games_of_one_row_count_as_one_observation() -> None:
    """Each result five times over in its row says nothing new, and five times the rows say more."""
    once, repeated = (found(rows_of(80, seed=1, times=times))[0] for times in (1, 5))
    more = found(rows_of(400, seed=1))[0]
    assert width(repeated) == pytest.approx(width(once), rel=0.1)
    assert width(more) < 0.6 * width(once)


@pytest.mark.slow
def test_ratings_at_equal_style_are_without_what_style_adds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ratings, "ROUNDS", 40)
    styled = rows_of(300, seed=2, style=0.8)
    plain = [[game._replace(covariates=()) for game in row] for row in styled]
    for player, (at_equal_style, as_judged) in enumerate(
        zip(found(styled)[:2], found(plain)[:2], strict=True)
    ):
        planted = 1000 + POINT * PLANTED[player]
        assert covers(at_equal_style, planted)
        assert at_equal_style.value is not None and as_judged.value is not None
        assert abs(at_equal_style.value - planted) < abs(as_judged.value - planted)


def test_player_apart_from_the_anchor_has_the_reason() -> None:
    rated, _ = rate(4, [[GameOutcome(0, 3, 1.0), GameOutcome(1, 2, 1.0)]] * 3, anchor=3, seed=0)
    assert rated[0].value is not None
    assert rated[1] == rated[2] == Rating(None, reason=rated[1].reason)
    assert "no game" in rated[1].reason


@pytest.mark.slow
def test_rating_without_bounds_in_the_games_has_no_interval() -> None:
    """The first has won every game: resamples of its games are all equal, and its rating is up to the ridge."""
    rows = [
        [game._replace(points=1.0) if game.first == 0 else game for game in row]
        for row in rows_of(30, seed=6)
    ]
    rows = [
        [game._replace(points=0.0) if game.second == 0 else game for game in row] for row in rows
    ]
    best, other, _ = found(rows)
    assert best.value is not None and best.value > 1500
    assert best.low is best.high is None
    assert "all won" in best.reason
    assert width(other) > 0
    tie = [*rows[0], GameOutcome(1, 0, 0.5)]
    assert all(width(each) > 0 for each in found([tie, *rows[1:]])[:2])  # through the other one


@pytest.mark.slow
def test_player_with_games_in_one_row_has_no_interval() -> None:
    """Whether its row is drawn, and how often, does not say how much rows vary."""
    rows = [
        [game for game in row if number == 0 or 0 not in game[:2]]
        for number, row in enumerate(rows_of(20, seed=7))
    ]
    once, often, _ = found([*rows, []])
    assert once.low is None and "one row" in once.reason
    assert width(often) > 0
