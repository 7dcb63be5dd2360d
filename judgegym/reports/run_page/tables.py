"""The tables of an environment in `metrics.json`, for the page of its run.

Guarantee: what is not the form of a table (another program, or somebody else, may have written the file) is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.reports.results.run import SavedRun
from judgegym.reports.run_page.items import PageTable

_MOST_ROWS = 200
"""Of one table; the files of the run directory have all."""


def tables_of(run: SavedRun) -> list[PageTable]:
    """Return the tables of a run; none before it is complete."""
    listed = run.general.get("tables")
    found = (_table(each) for each in listed) if isinstance(listed, list) else ()
    return [table for table in found if table is not None]


def _table(value: JSON) -> PageTable | None:
    title, header, rows = (wire.lookup(value, name) for name in ("title", "header", "rows"))
    names = _texts(header)
    if not isinstance(title, str) or names is None or not isinstance(rows, list):
        return None
    cells = [row for each in rows[:_MOST_ROWS] if (row := _texts(each)) is not None and len(row) == len(names)]
    return PageTable(title, names, cells)


def _texts(value: JSON) -> Sequence[str] | None:
    if not isinstance(value, list):
        return None
    texts = [each for each in value if isinstance(each, str)]
    return texts if texts and len(texts) == len(value) else None
