"""Ratings on Arena's scale: 400 points for odds of 10 to 1, with the baseline at 1000.

The strengths are those of a Bradley–Terry fit with ties and an advantage of the first position,
over the games of all rows. Intervals resample rows, since the games about one prompt are not
independent, and fit each resample anew. With style differences as covariates the strengths are
those at equal style.

Guarantees: a player that no games connect with the anchor has no rating, and a reason; a player
with games in a single row has no interval. Numbers are finite also for a player who has won every
game; they then depend on the fit's ridge, and there is no interval: resamples of games that were
all won would show no variation.

Intervals of few rows are too narrow, as with all percentile bootstraps: 95 % is 81 to 85 % with
5 rows, 90 to 92 % with 20, 90 to 95 % with 100 (four players, all pairs both ways, strengths that
vary between rows with deviation 1).

Source: Chiang et al., Chatbot Arena: An Open Platform for Evaluating LLMs by Human Preference
(2024); LMSYS ORG, Does Style Matter? (2024); Ford, Solution of a Ranking Problem from Binary
Comparisons (1957), for when a fit is finite.

This module also has the games of one row between candidates and baseline. Its classes are the
detail of a row's judgment, so they hold names and texts, and are read back from files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from judgegym.engine.completions import Completion
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.parsing.thinking import ThinkingFault
from judgegym.judges.tournament.schedule import Pair, components, make_pair
from judgegym.statistics.bradley_terry import GameOutcome, Strengths, fit, fit_resampled

ANCHOR = 1000.0
"""Rating of the baseline."""
SCALE = 400.0 / math.log(10.0)
"""Rating points per unit of the logarithm of the odds."""
ROUNDS = 1000
"""Number of resamples."""
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Rating:
    """A rating; unknown values are `None`.

    Attributes:
        value: the rating.
        low: the lower end of its 95 % interval.
        high: the upper end.
        reason: why there is no rating, or no interval.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


def rate(
    players: int, rows: Sequence[Sequence[GameOutcome]], *, anchor: int, seed: int
) -> tuple[list[Rating], float]:
    """Rate players by the games of all rows; also return the first position's advantage in points.

    Args:
        players: number of players.
        rows: the games of each row; covariates are scaled here.
        anchor: the player whose rating is 1000.
        seed: seed of the resampling.
    """
    import numpy as np  # imported here: only statistics need it

    rows = _scale_covariates(rows)
    games = list(chain.from_iterable(rows))
    strengths = fit(players, games)
    values = _compute_ratings(strengths, anchor)
    groups = components(range(players), (make_pair(game.first, game.second) for game in games))
    (connected,) = (group for group in groups if anchor in group)
    bounded = _find_bounded(games, anchor)
    appearances: Counter[int] = Counter()
    for row in rows:
        appearances.update({*chain.from_iterable(game[:2] for game in row)})
    low = high = [math.nan] * players
    if len(rows) > 1:
        resampled = [
            _compute_ratings(resample, anchor)
            for resample in fit_resampled(players, rows, rounds=ROUNDS, seed=seed)
        ]
        low, high = np.quantile(
            np.asarray(resampled), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0
        ).tolist()

    def make_rating(player: int) -> Rating:
        if player not in connected:
            return Rating(None, reason="no game connects it with the baseline")
        reason = ""
        if player == anchor:
            reason = "the baseline's rating is given"
        elif appearances[player] < 2:
            reason = "one row says nothing about how much rows vary"
        elif player not in bounded:
            reason = (
                "its games are all won, or all lost, and do not say how far it is from the baseline"
            )
        if reason:
            return Rating(values[player], reason=reason)
        return Rating(values[player], low[player], high[player])

    return list(map(make_rating, range(players))), SCALE * strengths.position


def _compute_ratings(strengths: Strengths, anchor: int) -> list[float]:
    return [ANCHOR + SCALE * (value - strengths.values[anchor]) for value in strengths.values]


def _find_bounded(games: Sequence[GameOutcome], anchor: int) -> set[int]:
    """Return the players with a bounded distance from the anchor: each took points from the other.

    Points also count along chains of players: if one of two sets of players has lost nothing to the
    other, the likelihood grows without end with the distance between the sets (Ford, 1957).
    """
    wins: set[Pair] = set()
    for game in games:
        if game.weight * game.points:
            wins.add((game.first, game.second))
        if game.weight * (1.0 - game.points):
            wins.add((game.second, game.first))
    return _find_reachable(anchor, wins) & _find_reachable(
        anchor, {(loser, winner) for winner, loser in wins}
    )


def _find_reachable(start: int, steps: set[Pair]) -> set[int]:
    reached, new = {start}, {start}
    while new:
        new = {target for origin, target in steps if origin in new} - reached
        reached |= new
    return reached


def _scale_covariates(rows: Sequence[Sequence[GameOutcome]]) -> Sequence[Sequence[GameOutcome]]:
    """Divide covariates by their deviation, so that the ridge is equally weak on each.

    0 stays equal style.
    """
    import numpy as np

    covariates = [game.covariates for game in chain.from_iterable(rows)]
    columns = np.asarray(covariates, dtype=float)
    if not columns.size:
        return rows
    deviation = columns.std(axis=0)
    factors = np.where(deviation > 0, 1.0 / np.where(deviation > 0, deviation, 1.0), 0.0).tolist()
    return [
        [
            game._replace(
                covariates=tuple(
                    value * factor for value, factor in zip(game.covariates, factors, strict=True)
                )
            )
            for game in games
        ]
        for games in rows
    ]


DecidedBy = Literal["judge", "format"]
"""Source of a game's result: the judge's verdict, or an answer in the wrong format."""


@dataclass(frozen=True, slots=True)
class CandidateAnswer:
    """A candidate's answer to a row, or the reason why there is none.

    Attributes:
        candidate: the candidate's name.
        answer: the text to judge; `None` if the candidate never answered.
        error: why it never answered, or why its answer counts as wrong.
        thinking: as in `Completion`, with the three fields below.
        thinking_fault: the fault of the thinking.
        finish_reason: the finish reason, as received.
        short: whether the answer is shorter than `min_response_length`.
    """

    candidate: str
    answer: str | None
    error: str | None = None
    thinking: str = ""
    thinking_fault: ThinkingFault | None = None
    finish_reason: str | None = None
    short: bool = False

    @classmethod
    def from_reply(cls, candidate: str, reply: Completion | str) -> CandidateAnswer:
        """Make a candidate's answer from its completion, or from why there is none."""
        if isinstance(reply, str):
            return cls(candidate, None, reply)
        thinking = reply.thinking
        fault = reply.thinking_fault
        reason = reply.finish_reason
        return cls(candidate, reply.answer, reply.unjudgeable, thinking, fault, reason, reply.short)

    @property
    def is_wrong(self) -> bool:
        """Whether it is an answer that no judge may see: malformed, refused or empty."""
        return self.answer is not None and self.error is not None


@dataclass(frozen=True, slots=True)
class RowGame:
    """A game of two players.

    Attributes:
        first: the player that was shown first.
        second: the player that was shown second.
        points: the first player's points: 1 for a win, 0.5 for a tie, 0 for a loss; `None` without
            a verdict.
        weight: how many times the result counts.
        decided: whether the judge or the format decides the game.
        text: the judge's last text; empty if the judge was not called.
        error: why there is no verdict.
    """

    first: str
    second: str
    points: float | None
    weight: float = 1.0
    decided: DecidedBy = "judge"
    text: str = ""
    error: str | None = None

    def get_points(self, player: str) -> float:
        """Return the points of one of the two players; the game must have a verdict."""
        assert self.points is not None
        if player == self.first:
            return self.points
        return 1.0 - self.points


@dataclass(frozen=True, slots=True)
class RowGames:
    """A row: an answer for each candidate, in the order of the settings, and the games."""

    answers: tuple[CandidateAnswer, ...]
    games: tuple[RowGame, ...] = ()

    @property
    def decided(self) -> list[RowGame]:
        """The games with a result."""
        return [game for game in self.games if game.points is not None]


def sum_points(player: str, games: Iterable[RowGame]) -> tuple[float, float]:
    """Return the weighted points of a player in its games, and their weight; all need a result."""
    player_games = [game for game in games if player in (game.first, game.second)]
    return sum(game.weight * game.get_points(player) for game in player_games), sum(
        game.weight for game in player_games
    )


def list_played_games(judgment: Judgment[RowGames] | None) -> list[RowGame]:
    """Return the games of a row that have a result; empty without a judgment."""
    if judgment is None or judgment.detail is None:
        return []
    return judgment.detail.decided
