"""Strengths from pairwise games (Bradley and Terry), with ties and a position term.

The logarithm of the odds that the first player of a game wins is strength(first) − strength(second)
+ position, plus covariates × their coefficients. A tie is half a win and half a loss. The fit is
scikit-learn's logistic regression.

Guarantees: all numbers are finite, also for a player who has won every game, because a small ridge
on all parameters draws them to 0; the mean of the strengths is 0; the order of the games changes
nothing.

Source: Bradley and Terry, Rank Analysis of Incomplete Block Designs (1952); Davidson and Beaver, On
Extending the Bradley-Terry Model to Incorporate Within-Pair Order Effects (1977), for the position
term.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from threadpoolctl import ThreadpoolController

RIDGE = 0.6
"""Half of it times the sum of the squared parameters is added to the negative log-likelihood.

With it the rewards of `benchmarks/group_judging.py` correlate the most with quality, over all
schedules.
"""

_TOLERANCE = 1e-10  # for the largest component of the gradient
_MOST_STEPS = 1000
_ALONE = Lock()
_DIGITS = 9  # of a strength; further digits differ between processes


class GameOutcome(NamedTuple):
    """The result of a game.

    Attributes:
        first: the number of the player that was shown first, from 0.
        second: the number of the other player.
        points: the points of the first player, from 0 to 1: 1 for a win, 0.5 for a tie, 0 for a
            loss.
        weight: how many times the game counts.
        covariates: further explanations of the result, such as differences in style, first −
            second.
    """

    first: int
    second: int
    points: float
    weight: float = 1.0
    covariates: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Strengths:
    """Parameters of a fit, as logarithms of odds.

    Attributes:
        values: the strength of each player; their mean is 0.
        position: the advantage of being shown first.
        covariates: the coefficient of each covariate.
    """

    values: tuple[float, ...]
    position: float = 0.0
    covariates: tuple[float, ...] = ()


def fit(players: int, games: Sequence[GameOutcome]) -> Strengths:
    """Return the strengths that explain the games best.

    Args:
        players: number of players; a player without games has strength 0.
        games: all games; those with the same players, order and covariates are added up first.

    Raises:
        ValueError: a game names an unknown player or the same one twice, has points outside 0…1 or
            a weight below 0, or games have different numbers of covariates.
    """
    kinds = _Kinds.from_rows(players, [games])
    return _solve(kinds, kinds.results)


def fit_resampled(
    players: int, rows: Sequence[Sequence[GameOutcome]], *, rounds: int, seed: int = 0
) -> Iterator[Strengths]:
    """Yield the strengths from resamples of rows (the percentile bootstrap).

    Games of the same players, order and covariates are added up once, so that without covariates
    the time of a round does not depend on the number of rows. With few rows, the same draws recur;
    their fit is made once.

    Args:
        players: as in `fit`.
        rows: the games of each row, such as those about one prompt, which are drawn together.
        rounds: number of resamples.
        seed: seed of the resampling.

    Raises:
        ValueError: there is no row, or as in `fit`.
    """
    if not rows:
        raise ValueError("a resample needs at least one row")
    # Imported late, as sklearn is below: that takes a second, which importers of judges are spared.
    import numpy as np

    kinds, generator = _Kinds.from_rows(players, rows), np.random.default_rng(seed)
    return _fit_distinct(kinds, (kinds.draw(generator) for _ in range(rounds)))


def _fit_distinct(kinds: _Kinds, draws: Iterable[NDArray[np.float64]]) -> Iterator[Strengths]:
    """Yield the fit of each draw; equal draws share one."""
    fits: dict[bytes, Strengths] = {}
    for results in draws:
        # With covariates a draw may have megabytes, so its digest is the key.
        drawn = hashlib.sha256(results.tobytes()).digest()
        if drawn not in fits:
            fits[drawn] = _solve(kinds, results)
        yield fits[drawn]


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Games added up by kind: first player, second player, and covariates.

    Attributes:
        players: number of players.
        columns: for each kind its row of the design matrix: players, position, covariates.
        row_count: number of rows of games.
        rows: the number of a row, for each row and kind of game in it.
        entries: the number of the kind.
        points: the weighted points of the first and of the second player.
    """

    players: int
    columns: NDArray[np.float64]
    row_count: int
    rows: NDArray[np.int64]
    entries: NDArray[np.int64]
    points: NDArray[np.float64]

    @classmethod
    def from_rows(cls, players: int, rows: Sequence[Sequence[GameOutcome]]) -> _Kinds:
        import numpy as np

        all_games = list(chain.from_iterable(rows))
        widths = {len(game.covariates) for game in all_games}
        if len(widths) > 1:
            numbers = sorted(widths)
            raise ValueError(f"games have different numbers of covariates: {numbers}")
        distinct = {(game.first, game.second, game.covariates) for game in all_games}
        kinds = {kind: number for number, kind in enumerate(sorted(distinct))}
        sums: dict[tuple[int, int], list[float]] = {}
        for number, games in enumerate(rows):
            for game in games:
                _check(game, players)
                kind = kinds[game.first, game.second, game.covariates]
                total = sums.setdefault((number, kind), [0.0, 0.0])
                total[0] += game.weight * game.points
                total[1] += game.weight * (1.0 - game.points)
        columns = np.zeros((len(kinds), players + 1 + max(widths, default=0)))
        for (first, second, covariates), kind in kinds.items():
            columns[kind, first], columns[kind, second], columns[kind, players] = 1.0, -1.0, 1.0
            columns[kind, players + 1 :] = covariates
        keys = np.array(list(sums), dtype=np.int64).reshape(-1, 2)
        points = np.array(list(sums.values()), dtype=float).reshape(-1, 2)
        return cls(players, columns, len(rows), keys[:, 0], keys[:, 1], points)

    @property
    def results(self) -> NDArray[np.float64]:
        """For all rows, the weighted points of the first and of the second player of each kind."""
        return self._add_up(self.points)

    def draw(self, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return the results of a resample of the rows."""
        import numpy as np

        drawn = np.bincount(
            generator.integers(0, self.row_count, size=self.row_count), minlength=self.row_count
        )
        return self._add_up(self.points * drawn[self.rows][:, None])

    def _add_up(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        import numpy as np

        return np.stack(
            [
                np.bincount(self.entries, weights=points[:, side], minlength=len(self.columns))
                for side in (0, 1)
            ],
            axis=1,
        )


def _solve(kinds: _Kinds, results: NDArray[np.float64]) -> Strengths:
    """Fit added-up games: each kind is a win of the first and a loss, weighted by points."""
    import numpy as np
    from sklearn import config_context
    from sklearn.linear_model import LogisticRegression

    players, width = kinds.players, kinds.columns.shape[1]
    # Without games, or with ties only, the solver's search would fail at the optimum.
    if (results[:, 0] == results[:, 1]).all():
        return Strengths((0.0,) * players, 0.0, (0.0,) * (width - players - 1))
    happened = results > 0.0
    happened[0] = True  # the library requires both outcomes
    features = np.concatenate([kinds.columns[happened[:, side]] for side in (0, 1)])
    outcomes = np.repeat([1, 0], happened.sum(axis=0))
    weights = np.concatenate([results[happened[:, side], side] for side in (0, 1)])
    model = LogisticRegression(
        C=1.0 / RIDGE,
        fit_intercept=False,
        solver="newton-cholesky",
        tol=_TOLERANCE,
        max_iter=_MOST_STEPS,
    )
    # These checks would take half of a small fit's time.
    with config_context(assume_finite=True, skip_parameter_validation=True), _one_thread():
        model.fit(features, outcomes, sample_weight=weights)
    coefficients: NDArray[np.float64] = model.coef_[0]
    # The ridge makes the mean 0, up to the tolerance of the solver.
    values, coefficients = (
        _round_certain(part)
        for part in (coefficients[:players] - coefficients[:players].mean(), coefficients)
    )
    return Strengths(
        tuple(values.tolist()),
        float(coefficients[players]),
        tuple(coefficients[players + 1 :].tolist()),
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in this thread alone.

    Such small matrices take several times as long on several threads, and a hundred times on a busy
    machine. The limit holds for the process: the lock keeps two fits from restoring each other's
    limit.
    """
    with _ALONE, _thread_pools().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _thread_pools() -> ThreadpoolController:
    """Return the loaded libraries of linear algebra, scikit-learn's."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _round_certain(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round numbers to the digits that are certain.

    The last digits of a fit may differ between processes, and 0 may be -0.

    The next games of a tournament and the bytes of a file depend on them, so they must not differ.
    """
    rounded: NDArray[np.float64] = numbers.round(_DIGITS) + 0.0
    return rounded


def _check(game: GameOutcome, players: int) -> None:
    if not (0 <= game.first < players and 0 <= game.second < players and game.first != game.second):
        raise ValueError(
            f"a game is between two different players from 0 to {players - 1}, not {game[:2]}"
        )
    if not (0.0 <= game.points <= 1.0 and 0.0 <= game.weight < math.inf):
        raise ValueError(
            f"points are from 0 to 1 and a weight is at least 0, not {game.points} and "
            f"{game.weight}"
        )
