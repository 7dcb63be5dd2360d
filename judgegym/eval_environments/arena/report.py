"""The standings of candidates as tables and files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from judgegym.engine.terminal import Table
from judgegym.eval_environments.arena.environment import BASELINE
from judgegym.eval_environments.arena.ratings import Rating
from judgegym.eval_environments.arena.standings import PlayerRank, Standings

_EMPTY = "–"
_MOST_COLUMNS = 6
"""What a terminal of 80 columns has room for, beside names."""


def ratings_table(standings: Standings) -> Table:
    """Each player with its rank, rating, interval, win rate and number of games."""
    has_style = standings.style_ratings is not None
    header = ("rank and name", "rating", "95 %", "win rate", "games", *(["equal style"] if has_style else []))
    rows = tuple(
        (
            _ranked(rank, each),
            _points(each.rating),
            _interval(each.rating),
            _share(each.win_rate),
            f"{each.games:,}",
            *([_points(each.at_equal_style)] if has_style else []),
        )
        for rank, each in enumerate(standings.ranking, start=1)
    )
    return Table("Ratings (400 points: odds of 10 to 1; the baseline has 1000)", header, rows, one_line=True)


def win_rates_table(standings: Standings) -> Table:
    """The win rate of each player against each other one; columns are named by their ranks."""
    ranking = standings.ranking
    shown = ranking[:_MOST_COLUMNS]
    rows = tuple(
        (_ranked(rank, each), *(_share(standings.win_rate(each.name, other.name)) for other in shown))
        for rank, each in enumerate(ranking, start=1)
    )
    cut = f" with rank 1 to {_MOST_COLUMNS}; win_rates.csv has all" if len(ranking) > len(shown) else ""
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
            *_numbers(each.rating),
            _number(each.win_rate),
            str(each.games),
            _number(standings.win_rate(each.name, BASELINE)),
            str(standings.missing[each.name]),
            str(standings.wrong[each.name]),
            *_numbers(each.at_equal_style),
        ]
        for rank, each in enumerate(standings.ranking, start=1)
    ]
    return _csv([header, *rows])


def win_rates_csv(standings: Standings) -> bytes:
    """The win rate of the row's player against that of the column; an empty cell where they did not meet."""
    names = [each.name for each in standings.ranking]
    rows = [[name, *(_number(standings.win_rate(name, other)) for other in names)] for name in names]
    return _csv([["name", *names], *rows])


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def _numbers(rating: Rating | str | None) -> tuple[str, str, str]:
    if not isinstance(rating, Rating):
        return "", "", ""
    bounds = rating.interval
    low, high = (None, None) if isinstance(bounds, str) else (bounds.low, bounds.high)
    return _number(rating.value), _number(low), _number(high)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def _ranked(rank: int, standing: PlayerRank) -> str:
    return f"{rank}. {standing.name}"


def _points(rating: Rating | str | None) -> str:
    return f"{rating.value:.0f}" if isinstance(rating, Rating) else _EMPTY


def _interval(rating: Rating | str) -> str:
    if isinstance(rating, str) or isinstance(rating.interval, str):
        return _EMPTY
    return f"{rating.interval.low:.0f} to {rating.interval.high:.0f}"


def _share(value: float | None) -> str:
    return _EMPTY if value is None else f"{value:.3f}"
