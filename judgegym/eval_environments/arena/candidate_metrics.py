"""The metrics of an evaluation of several candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.environments.evaluate.metrics import ANSWER_ERRORS, GAME_ERRORS
from judgegym.eval_environments.arena.games import RowGame
from judgegym.eval_environments.arena.ratings import Rating, Ratings
from judgegym.eval_environments.arena.standings import Standings


def winrate_name(one: str, other: str) -> str:
    """Return the name of the win rate of one player against another."""
    return f"winrate_{slug(one)}_vs_{slug(other)}"


def with_bounds(name: str) -> tuple[str, str, str]:
    """Return a metric's name, and those of the ends of its interval."""
    return name, f"{name}_ci_low", f"{name}_ci_high"


def record_positions(metrics: MetricAggregator, games: Sequence[RowGame]) -> None:
    """Record the advantage of being shown first (0 without position bias), and whether the orders of pairs agree.

    Args:
        metrics: where they go.
        games: the games of a row that the judge has decided.
    """
    points: Mapping[tuple[str, str], float] = {(game.first, game.second): game.points_of(game.first) for game in games}
    for (first, second), won in points.items():
        metrics.mean("first_position_advantage", 2.0 * won - 1.0)
        other_order = points.get((second, first))
        if other_order is not None and first < second:
            metrics.rate("position_agreement_rate", won == 1.0 - other_order)


def add_metrics(metrics: MetricAggregator, standings: Standings) -> None:
    """Add ratings with their intervals, games, answers and costs by candidate, and what is missing of all."""
    *candidates, _ = standings.players
    _add_ratings(metrics, "rating", candidates, standings.ratings)
    if standings.style_ratings is not None:
        _add_ratings(metrics, "style_controlled_rating", candidates, standings.style_ratings)
    metrics.number("first_position_rating", standings.ratings.position)
    for name in candidates:
        metrics.number(f"games_{slug(name)}", standings.games[name])
        metrics.number(f"missing_answers_{slug(name)}", standings.missing[name])
        metrics.number(f"wrong_answers_{slug(name)}", standings.wrong[name])
        if name in standings.usage:
            metrics.cost(f"answers_cost_usd_{slug(name)}", standings.usage[name].cost)
    metrics.number("games_played", standings.judged + standings.without_a_call)
    metrics.number("games_without_a_call", standings.without_a_call)
    metrics.number("games_failed", standings.failed)
    metrics.number("wrong_answers", standings.wrong.total())
    metrics.number("missing_answers", standings.missing.total())
    asked = standings.judged + standings.failed
    metrics.number(GAME_ERRORS, standings.failed / asked if asked else 0.0)
    metrics.number(ANSWER_ERRORS, standings.missing.total() / (standings.rows * len(candidates)))


def _add_ratings(metrics: MetricAggregator, name: str, candidates: Sequence[str], ratings: Ratings) -> None:
    for candidate, rating in zip(candidates, ratings.players, strict=False):  # the baseline's is last, and given
        full, low, high = with_bounds(f"{name}_{slug(candidate)}")
        if not isinstance(rating, Rating):
            for each in (full, low, high):
                metrics.leave_out(each, rating)
            continue
        metrics.number(full, rating.value)
        if isinstance(rating.interval, str):
            for each in (low, high):
                metrics.leave_out(each, rating.interval)
        else:
            metrics.number(low, rating.interval.low)
            metrics.number(high, rating.interval.high)
