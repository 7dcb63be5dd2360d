"""Standings of candidates as tables and CSV files."""

from __future__ import annotations

from collections.abc import Mapping

from judgegym.engine.terminal import Table
from judgegym.eval_environments.arena.environment import BASELINE
from judgegym.eval_environments.arena.ratings import Rating
from judgegym.eval_environments.arena.standings import PlayerRank, Standings
from judgegym.eval_environments.models import make_csv

RATINGS_COLUMNS: Mapping[str, str] = {
    "rank": "from 1",
    "name": "the candidate, or `baseline`",
    "rating": "on Arena's scale",
    "rating_ci_low": "low end of its 95 % interval",
    "rating_ci_high": "high end",
    "win_rate": "share of points",
    "games": "games with a result",
    "win_rate_vs_baseline": "share of points against the baseline",
    "missing_answers": "rows without its answer",
    "wrong_answers": "malformed, refused and empty answers",
    "equal_style_rating": "rating at equal style, with `style_control`",
    "equal_style_ci_low": "low end of its 95 % interval",
    "equal_style_ci_high": "high end",
}
"""The columns of `ratings.csv`."""

_EMPTY = "–"
_MOST_COLUMNS = 6
"""Columns that fit a terminal of 80 characters, besides the names."""


def make_ratings_table(standings: Standings) -> Table:
    """Return a table of the players with rank, rating, interval, win rate and number of games."""
    has_style = standings.style_ratings is not None
    header = (
        "rank and name",
        "rating",
        "95 %",
        "win rate",
        "games",
        *(["equal style"] if has_style else []),
    )
    rows = tuple(
        (
            _format_rank(rank, player),
            _format_points(player.rating),
            _format_interval(player.rating),
            _format_share(standings.win_rate(player.name)),
            f"{standings.games[player.name]:,}",
            *([_format_points(player.at_equal_style)] if has_style else []),
        )
        for rank, player in enumerate(standings.ranking, start=1)
    )
    return Table(
        "Ratings (400 points: odds of 10 to 1; the baseline has 1000)", header, rows, one_line=True
    )


def make_win_rates_table(standings: Standings) -> Table:
    """Return a table of each player's win rates against others; columns are named by ranks."""
    ranking = standings.ranking
    shown = ranking[:_MOST_COLUMNS]
    rows = tuple(
        (
            _format_rank(rank, player),
            *(_format_share(standings.win_rate(player.name, column.name)) for column in shown),
        )
        for rank, player in enumerate(ranking, start=1)
    )
    note = ""
    if len(ranking) > len(shown):
        note = f" with rank 1 to {_MOST_COLUMNS}; win_rates.csv has all"
    return Table(
        f"Win rate of the row's player against that of the column{note}",
        ("rank and name", *(str(rank) for rank in range(1, len(shown) + 1))),
        rows,
        one_line=True,
    )


def make_ratings_csv(standings: Standings) -> bytes:
    """Return all numbers of each player, best first; cells are empty for unknown values."""
    rows = [
        [
            str(rank),
            player.name,
            *map(
                _format_number,
                (
                    player.rating.value,
                    player.rating.low,
                    player.rating.high,
                    standings.win_rate(player.name),
                ),
            ),
            str(standings.games[player.name]),
            _format_number(standings.win_rate(player.name, BASELINE)),
            str(standings.missing[player.name]),
            str(standings.wrong[player.name]),
            *map(
                _format_number,
                (
                    player.at_equal_style.value,
                    player.at_equal_style.low,
                    player.at_equal_style.high,
                ),
            ),
        ]
        for rank, player in enumerate(standings.ranking, start=1)
    ]
    return make_csv([list(RATINGS_COLUMNS), *rows])


def make_win_rates_csv(standings: Standings) -> bytes:
    """Return the win rate of each row's player against each column's; empty if they never met."""
    names = [player.name for player in standings.ranking]
    rows = [
        [name, *(_format_number(standings.win_rate(name, column)) for column in names)]
        for name in names
    ]
    return make_csv([["name", *names], *rows])


def _format_number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.10g}"


def _format_rank(rank: int, standing: PlayerRank) -> str:
    return f"{rank}. {standing.name}"


def _format_points(rating: Rating) -> str:
    if rating.value is None:
        return _EMPTY
    return f"{rating.value:.0f}"


def _format_interval(rating: Rating) -> str:
    if rating.low is None or rating.high is None:
        return _EMPTY
    return f"{rating.low:.0f} to {rating.high:.0f}"


def _format_share(value: float | None) -> str:
    if value is None:
        return _EMPTY
    return f"{value:.3f}"
