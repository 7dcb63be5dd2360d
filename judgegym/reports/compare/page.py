"""Render a comparison as a self-contained HTML page: no script, no network, every text escaped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from judgegym.engine.runs.directory import REPORT
from judgegym.reports.compare.comparison import Comparison
from judgegym.reports.compare.difference import OUTCOMES
from judgegym.reports.compare.rendering import format_value, render_comparison
from judgegym.reports.document import TEMPLATES, document, render

Link = Callable[[str, "str | None"], "str | None"]
"""Returns the address of a run's report (by path), or of a row in it; `None` without a report."""

WIDTH = 240
"""Width of the scale on which differences are drawn, in pixels."""
_MARGIN = 8
_STYLE = Path(__file__).parent / "static" / "compare.css"


def write_page(comparison: Comparison, link: Link = lambda path, uid: None) -> Iterator[bytes]:
    """Write the page, part by part.

    Args:
        comparison: the comparison to show.
        link: returns the addresses of the runs' reports.
    """
    words = render_comparison(comparison)
    body = render(
        TEMPLATES / "compare.html",
        words=words,
        comparison=comparison,
        outcomes=OUTCOMES[comparison["kind"]],
        link=link,
        forest=forest,
        number=format_value,
        width=WIDTH,
    )
    yield from document(title=words["title"], body=body, styles=[_STYLE])


def report_link(path: str, uid: str | None, *, seen_from: Path) -> str | None:
    """Return the address of a run's report, or of a row in it, relative to a folder; or `None`."""
    report = Path(path).expanduser().resolve() / REPORT
    if not report.is_file():
        return None
    address = quote(os.fsencode(os.path.relpath(report, seen_from)))
    return address if uid is None else f"{address}#{quote(uid, safe='', errors='replace')}"


def forest(
    estimates: Sequence[Mapping[str, Any]],
) -> tuple[float, list[tuple[float, float, float]]]:
    """Place differences on a scale that includes all of them and 0.

    Returns:
        In pixels from the left: the position of 0; and for each difference the lower end of its
        interval, the difference, and the upper end.
    """
    lines: list[tuple[float, float, float]] = []
    for estimate in estimates:
        value, interval = estimate["value"], estimate["interval"]
        lines.append(
            (value, value, value) if interval is None else (interval.low, value, interval.high)
        )
    values = [0.0, *chain.from_iterable(lines)]
    least = min(values)
    span = (max(values) - min(values)) or 1.0

    def to_pixels(value: float) -> float:
        return round(_MARGIN + (value - least) / span * (WIDTH - 2 * _MARGIN), 1)

    return to_pixels(0.0), [
        (to_pixels(low), to_pixels(value), to_pixels(high)) for low, value, high in lines
    ]
