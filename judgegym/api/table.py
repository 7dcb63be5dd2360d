"""A table that prints as text, and as HTML in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST_CELL = 300


@dataclass(frozen=True, slots=True, repr=False)
class TextTable:
    """A header and rows of text.

    Cells may hold text of models: no cell is read as markup, and cells are cut at 300 characters.

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
        """The table as text; a line break in a cell is shown as a space."""
        lines = [self.header, *self.rows]
        cells = [[" ".join(_cut(cell).split()) for cell in line] for line in lines]
        widths = [max(len(line[place]) for line in cells) for place in range(len(self.header))]
        padded = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
        ]
        rule = "─" * max(len(line) for line in padded)
        return "\n".join([*([self.title] if self.title else []), padded[0], rule, *padded[1:]])

    def __repr__(self) -> str:
        """The table as text, for prompts and notebooks."""
        return str(self)

    def _repr_html_(self) -> str:
        """The table as HTML, for notebooks."""
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cut(cell))}</td>" for cell in row) + "</tr>" for row in self.rows
        )
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cut(cell: str) -> str:
    return cell if len(cell) <= _LONGEST_CELL else cell[: _LONGEST_CELL - 1] + "…"
