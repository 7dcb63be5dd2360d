"""A table that shows itself: text where it is printed, HTML in a notebook."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST_CELL = 300


@dataclass(frozen=True, slots=True)
class TextTable:
    """A header and rows of text.

    Model text is data: nothing in a cell is markup, and cells are cut at 300 characters.

    Example:
        >>> print(TextTable(("answer", "score"), (("4", "1.0"), ("5", "0.0"))))
        answer  score
        ─────────────
        4       1.0
        5       0.0
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def __str__(self) -> str:
        """The table as text, as wide as the terminal."""
        from rich import box  # late: only a table that is printed needs it
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        shown = Table(title=self.title or None, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, title_justify="left")
        for name in self.header:
            shown.add_column(Text(name))
        for row in self.rows:
            shown.add_row(*(Text(_cut(cell)) for cell in row))
        console = Console(file=io.StringIO(), highlight=False, color_system=None)
        with console.capture() as capture:
            console.print(shown)
        return "\n".join(line.rstrip() for line in capture.get().splitlines())

    def _repr_html_(self) -> str:
        """The table as a notebook shows it."""
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cut(cell))}</td>" for cell in row) + "</tr>" for row in self.rows
        )
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cut(cell: str) -> str:
    return cell if len(cell) <= _LONGEST_CELL else cell[: _LONGEST_CELL - 1] + "…"
