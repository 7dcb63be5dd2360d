"""A comparison as a self-contained HTML page: no script, no network, every text escaped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from judgegym.engine.runs.directory import REPORT
from judgegym.reports.compare import text
from judgegym.reports.compare.comparison import OUTCOMES, ComparedRun, Comparison, Estimate
from judgegym.reports.document import base_style, document, render

Link = Callable[[ComparedRun, str | None], str | None]
"""The address of a run's report, or of a row in it; `None` if there is none."""

WIDTH = 240
"""Of the scale on which differences are drawn, in pixels."""
_MARGIN = 8
_STYLE = Path(__file__).parent / "static" / "compare.css"


def html(comparison: Comparison, link: Link = lambda run, uid: None) -> Iterator[bytes]:
    """Write the page, part by part.

    Args:
        comparison: what it shows.
        link: where the reports of the runs are.
    """
    title = text.title(comparison)
    body = render(
        "compare.html",
        title=title,
        comparison=comparison,
        runs={run.letter: run for run in comparison.runs},
        outcomes=OUTCOMES[comparison.kind],
        link=link,
        text=text,
        forest=forest,
        width=WIDTH,
    )
    yield from document(title=title, body=body, styles=[base_style(), _STYLE.read_text("utf-8")], scripts=[])


def report_link(run: ComparedRun, uid: str | None, *, seen_from: Path) -> str | None:
    """The address of a run's report, or of a row in it, relative to a folder; `None` if it has no report."""
    path = Path(run.path).expanduser().resolve() / REPORT
    if not path.is_file():
        return None
    address = quote(os.fsencode(os.path.relpath(path, seen_from)))
    return address if uid is None else f"{address}#{quote(uid, safe='', errors='replace')}"


@dataclass(frozen=True, slots=True)
class ForestLine:
    """A difference, in pixels from the left; without an interval `low` and `high` are the difference."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Forest:
    """Differences and their intervals as lines on one scale, and the place of 0 on it."""

    zero: float
    lines: Sequence[ForestLine]


def forest(estimates: Sequence[Estimate]) -> Forest:
    """Place differences on a scale that holds all of them and 0."""
    lines = [
        (each.value, each.value, each.value)
        if each.interval is None
        else (each.interval.low, each.value, each.interval.high)
        for each in estimates
    ]
    values = [0.0, *(value for line in lines for value in line)]
    least, span = min(values), (max(values) - min(values)) or 1.0

    def place(value: float) -> float:
        return round(_MARGIN + (value - least) / span * (WIDTH - 2 * _MARGIN), 1)

    return Forest(place(0.0), [ForestLine(*map(place, line)) for line in lines])
