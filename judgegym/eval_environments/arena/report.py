"""The standings of candidates as tables and files."""

from __future__ import annotations

from judgegym.engine.terminal import Table
from judgegym.eval_environments.arena.environment import BASELINE
from judgegym.eval_environments.arena.ratings import Rating
from judgegym.eval_environments.arena.standings import PlayerRank, Standings
from judgegym.eval_environments.models import csv_file

_EMPTY = "–"
_MOST_COLUMNS = 6
"""What a terminal of 80 columns has room for, beside names."""


def ratings_table(standings: Standings) -> Table:
    """Each player with its rank, rating, interval, win rate and number of games."""
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
            _ranked(rank, each),
            _points(each.rating),
            _EMPTY
            if each.rating.low is None
            else f"{each.rating.low:.0f} to {each.rating.high:.0f}",
            _share(standings.win_rate(each.name)),
            f"{standings.games[each.name]:,}",
            *([_points(each.at_equal_style)] if has_style else []),
        )
        for rank, each in enumerate(standings.ranking, start=1)
    )
    return Table(
        "Ratings (400 points: odds of 10 to 1; the baseline has 1000)", header, rows, one_line=True
    )


def win_rates_table(standings: Standings) -> Table:
    """The win rate of each player against each other one; columns are named by their ranks."""
    ranking = standings.ranking
    shown = ranking[:_MOST_COLUMNS]
    rows = tuple(
        (
            _ranked(rank, each),
            *(_share(standings.win_rate(each.name, other.name)) for other in shown),
        )
        for rank, each in enumerate(ranking, start=1)
    )
    cut = (
        f" with rank 1 to {_MOST_COLUMNS}; win_rates.csv has all"
        if len(ranking) > len(shown)
        else ""
    )
    return Table(
        f"Win rate of the row's player against that of the column{cut}",
        ("rank and name", *(str(rank) for rank in range(1, len(shown) + 1))),
        rows,
        one_line=True,
    )


def ratings_csv(standings: Standings) -> bytes:
    """All that is known of each player, best first: only numbers, and an empty cell for what is not known."""
    header = ["rank", "name", "rating", "rating_ci_low", "rating_ci_high", "win_rate", "games"]
    header += ["win_rate_vs_baseline", "missing_answers", "wrong_answers"]
    header += ["equal_style_rating", "equal_style_ci_low", "equal_style_ci_high"]
    rows = [
        [
            str(rank),
            each.name,
            *map(
                _number,
                (
                    each.rating.value,
                    each.rating.low,
                    each.rating.high,
                    standings.win_rate(each.name),
                ),
            ),
            str(standings.games[each.name]),
            _number(standings.win_rate(each.name, BASELINE)),
            str(standings.missing[each.name]),
            str(standings.wrong[each.name]),
            *map(
                _number,
                (each.at_equal_style.value, each.at_equal_style.low, each.at_equal_style.high),
            ),
        ]
        for rank, each in enumerate(standings.ranking, start=1)
    ]
    return csv_file([header, *rows])


def win_rates_csv(standings: Standings) -> bytes:
    """The win rate of the row's player against that of the column; an empty cell where they did not meet."""
    names = [each.name for each in standings.ranking]
    rows = [
        [name, *(_number(standings.win_rate(name, other)) for other in names)] for name in names
    ]
    return csv_file([["name", *names], *rows])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def _ranked(rank: int, standing: PlayerRank) -> str:
    return f"{rank}. {standing.name}"


def _points(rating: Rating) -> str:
    return _EMPTY if rating.value is None else f"{rating.value:.0f}"


def _share(value: float | None) -> str:
    return _EMPTY if value is None else f"{value:.3f}"
