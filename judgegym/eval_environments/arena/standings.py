"""Standings of candidates and baseline over all rows: ratings, pairs' win rates, numbers of games.

Rows are added one by one; a game's result is kept, not its texts. The module also has the metrics
of an evaluation of several candidates, and the win rate at equal style: the win rate if both
answers had the same length and markdown.

It follows Chatbot Arena's style control (LMSYS ORG, Does Style Matter?, 2024): a logistic
regression of the outcomes on the differences in style, evaluated where the differences are zero. It
is not the number that Arena-Hard-Auto publishes, which centres the differences over the games of
all models on its leaderboard, and so is a win rate at their average difference: on the same rows
the two differ (0.394 here, 0.353 with their centring, in one comparison).
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.engine.records import Sample
from judgegym.environments.evaluate.metrics import ANSWER_ERRORS, GAME_ERRORS
from judgegym.eval_environments.arena.environment import BASELINE
from judgegym.eval_environments.arena.ratings import Rating, RowGame, RowGames, rate
from judgegym.llm.usage import Usage, count_tokens
from judgegym.statistics.bradley_terry import GameOutcome

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_CODE_BLOCK = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_LIST_ITEM = re.compile(r"^[ \t]*(?:\d{1,9}[.)]|[-*+])[ \t]", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
MAX_CHARACTERS = 100_000
"""Number of characters of an answer in which markdown is counted; a longer answer's counts are
scaled up."""
# Inverse strength of the penalty: it keeps the fit finite if style separates the outcomes, and
# hardly changes it otherwise.
_WEAK_PENALTY = 1e4


@dataclass(frozen=True, slots=True)
class TextStyle:
    """Style of an answer: its tokens, and counts of markdown outside code blocks."""

    tokens: int
    headers: int
    list_items: int
    bold: int


def measure_style(answer: str) -> TextStyle:
    """Measure the style of an answer."""
    prose = _CODE_BLOCK.sub("", answer[:MAX_CHARACTERS])
    share = min(1.0, MAX_CHARACTERS / max(len(answer), 1))
    headers, list_items, bold = (
        round(len(pattern.findall(prose)) / share) for pattern in (_HEADER, _LIST_ITEM, _BOLD)
    )
    return TextStyle(count_tokens(answer), headers, list_items, bold)


def compute_style_difference(model: TextStyle, baseline: TextStyle) -> list[float]:
    """Return the four differences in style, model minus baseline; each is 0 at equal style.

    Returns:
        Relative length (a−b)/(a+b), then for headers, list items and bold the densities d per
        token, as (d_a−d_b)/(d_a+d_b+1).
    """
    total = model.tokens + baseline.tokens
    differences = [(model.tokens - baseline.tokens) / max(total, 1)]
    for name in ("headers", "list_items", "bold"):
        density = getattr(model, name) / max(model.tokens, 1)
        baseline_density = getattr(baseline, name) / max(baseline.tokens, 1)
        differences.append((density - baseline_density) / (density + baseline_density + 1))
    return differences


def compute_style_controlled_win_rate(
    rows: Iterable[tuple[Sequence[float], Sequence[float]]],
) -> float | None:
    """Compute the win rate at equal style.

    Args:
        rows: the entries of each row, from 0 to 1, with its style differences; iterated over once.

    Returns:
        A number from 0 to 1; `None` if all entries are wins or all are losses, where the regression
        has no finite answer.
    """
    import numpy as np  # imported here, with sklearn: it takes a second
    from sklearn.linear_model import LogisticRegression

    features = array("d")
    outcomes = array("b")
    weights = array("d")
    for entries, difference in rows:
        for entry in entries:
            # A tie is half a win and half a loss.
            for outcome, weight in ((1, entry), (0, 1.0 - entry)):
                if weight:
                    features.extend(difference)
                    outcomes.append(outcome)
                    weights.append(weight)
    if len(set(outcomes)) < 2:
        return None
    # Scaled by their deviation but not centred, so that 0 still means equal style.
    columns = np.asarray(features).reshape(len(outcomes), -1)
    deviation = columns.std(axis=0)
    scaled: NDArray[np.float64] = columns / np.where(deviation > 0, deviation, 1.0)
    fit = LogisticRegression(C=_WEAK_PENALTY, max_iter=1000).fit(
        scaled, np.asarray(outcomes), sample_weight=np.asarray(weights)
    )
    return float(1.0 / (1.0 + np.exp(-fit.intercept_[0])))


class Standings:
    """Results of all rows.

    Attributes:
        players: the names of the candidates, in the order of the settings, and of the baseline.
        games: number of games with a result, by player.
        missing: number of rows without an answer, by candidate.
        wrong: number of answers that count as wrong, by candidate.
        usage: usage of the calls to each candidate's endpoint, including failed rows.
        rows: number of rows, including failed ones.
        judged: number of games with a verdict.
        without_a_call: number of games that the format of an answer decides.
        failed: number of games without a verdict.
    """

    def __init__(self, candidates: Mapping[str, bool], *, seed: int, style: bool) -> None:
        """Begin without a row.

        Args:
            candidates: the names of the candidates, and whether each has an endpoint.
            seed: seed of the intervals.
            style: whether to rate also at equal style.
        """
        self.players = (*candidates, BASELINE)
        self.games = Counter[str]()
        self.missing = Counter[str]()
        self.wrong = Counter[str]()
        self.usage: dict[str, Usage] = {}
        self.rows = self.judged = self.without_a_call = self.failed = 0
        self._seed, self._style = seed, style
        self._endpoint_candidates = [
            name for name, has_endpoint in candidates.items() if has_endpoint
        ]
        self._rows: list[list[GameOutcome]] = []
        self._styled: list[list[GameOutcome]] = []
        # Of a player against another one.
        self._points: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._weights: defaultdict[tuple[str, str], float] = defaultdict(float)

    def add(self, sample: Sample[RowGames], baseline: str | None) -> None:
        """Add a row's sample and baseline; a failed row (`None`) adds missing answers and cost."""
        self.rows += 1
        for name, run in zip(self._endpoint_candidates, sample.run.policy_calls, strict=True):
            self.usage[name] = self.usage.get(name, Usage()) + run.usage
        row = None if sample.judgment is None else sample.judgment.detail
        if row is None:
            self.missing.update(self.players[:-1])
            return
        for answer in row.answers:
            self.missing[answer.candidate] += answer.answer is None
            self.wrong[answer.candidate] += answer.is_wrong
        for game in row.games:
            self.failed += game.points is None
            self.without_a_call += game.decided == "format"
            self.judged += game.points is not None and game.decided == "judge"
        if baseline is None:
            return
        self._rows.append([self._result(game) for game in row.decided])
        for game in row.decided:
            for player, opponent in ((game.first, game.second), (game.second, game.first)):
                self.games[player] += 1
                self._points[player, opponent] += game.weight * game.get_points(player)
                self._weights[player, opponent] += game.weight
        if self._style:
            texts = {answer.candidate: answer.answer or "" for answer in row.answers}
            styles = {
                name: measure_style(text) for name, text in {**texts, BASELINE: baseline}.items()
            }
            self._styled.append([self._result(game, styles) for game in row.decided])

    def _result(self, game: RowGame, styles: Mapping[str, TextStyle] | None = None) -> GameOutcome:
        difference: tuple[float, ...] = ()
        if styles is not None:
            difference = tuple(compute_style_difference(styles[game.first], styles[game.second]))
        first = self.players.index(game.first)
        second = self.players.index(game.second)
        return GameOutcome(first, second, game.get_points(game.first), game.weight, difference)

    @cached_property
    def ratings(self) -> tuple[list[Rating], float]:
        """Each player's rating, and the first position's advantage in rating points."""
        return rate(len(self.players), self._rows, anchor=len(self.players) - 1, seed=self._seed)

    @cached_property
    def style_ratings(self) -> list[Rating] | None:
        """Ratings at equal style, if requested."""
        if not self._style:
            return None
        return rate(len(self.players), self._styled, anchor=len(self.players) - 1, seed=self._seed)[
            0
        ]

    def win_rate(self, player: str, opponent: str | None = None) -> float | None:
        """Return a player's share of points against another player, or in all games.

        `None` without games.
        """
        opponents = self.players if opponent is None else (opponent,)
        weight = sum(self._weights[player, rival] for rival in opponents)
        if weight:
            return sum(self._points[player, rival] for rival in opponents) / weight
        return None

    @cached_property
    def ranking(self) -> Sequence[PlayerRank]:
        """Players, best first; those without a rating last."""
        unknown = Rating(None)
        styled = self.style_ratings or [unknown] * len(self.players)
        ranks = map(PlayerRank, self.players, self.ratings[0], styled)
        return sorted(
            ranks, key=lambda rank: math.inf if rank.rating.value is None else -rank.rating.value
        )


class PlayerRank(NamedTuple):
    """A ranked player: its name, its rating, and its rating at equal style."""

    name: str
    rating: Rating
    at_equal_style: Rating


def name_winrate(player: str, opponent: str) -> str:
    """Return the name of the win rate of one player against another."""
    first, second = slug(player), slug(opponent)
    return f"winrate_{first}_vs_{second}"


def name_bounds(name: str) -> tuple[str, str, str]:
    """Return a metric's name and those of its interval's ends."""
    return name, f"{name}_ci_low", f"{name}_ci_high"


def record_positions(metrics: MetricAggregator, games: Sequence[RowGame]) -> None:
    """Record the first position's advantage (0: no position bias), and whether orders agree.

    Args:
        metrics: the aggregator.
        games: games of a row that the judge has decided.
    """
    points: Mapping[tuple[str, str], float] = {
        (game.first, game.second): game.get_points(game.first) for game in games
    }
    for (first, second), won in points.items():
        metrics.mean("first_position_advantage", 2.0 * won - 1.0)
        reverse_points = points.get((second, first))
        if reverse_points is not None and first < second:
            metrics.rate("position_agreement_rate", won == 1.0 - reverse_points)


def add_metrics(metrics: MetricAggregator, standings: Standings) -> None:
    """Add ratings with intervals, games, answers and costs by candidate, and fault totals."""
    *candidates, _ = standings.players
    ratings, position = standings.ratings
    _add_ratings(metrics, "rating", candidates, ratings)
    if standings.style_ratings is not None:
        _add_ratings(metrics, "style_controlled_rating", candidates, standings.style_ratings)
    metrics.number("first_position_rating", position)
    for name in candidates:
        suffix = slug(name)
        metrics.number(f"games_{suffix}", standings.games[name])
        metrics.number(f"missing_answers_{suffix}", standings.missing[name])
        metrics.number(f"wrong_answers_{suffix}", standings.wrong[name])
        if name in standings.usage:
            metrics.cost(f"answers_cost_usd_{suffix}", standings.usage[name].cost)
    metrics.number("games_played", standings.judged + standings.without_a_call)
    metrics.number("games_without_a_call", standings.without_a_call)
    metrics.number("games_failed", standings.failed)
    metrics.number("wrong_answers", standings.wrong.total())
    metrics.number("missing_answers", standings.missing.total())
    game_count = standings.judged + standings.failed
    metrics.number(GAME_ERRORS, standings.failed / max(game_count, 1))
    metrics.number(ANSWER_ERRORS, standings.missing.total() / (standings.rows * len(candidates)))


def _add_ratings(
    metrics: MetricAggregator, name: str, candidates: Sequence[str], ratings: Sequence[Rating]
) -> None:
    # The last rating is the baseline's, which is fixed.
    for candidate, rating in zip(candidates, ratings, strict=False):
        suffix = slug(candidate)
        names = name_bounds(f"{name}_{suffix}")
        for metric, value in zip(names, (rating.value, rating.low, rating.high), strict=True):
            if value is None:
                metrics.leave_out(metric, rating.reason)
            else:
                metrics.number(metric, value)
