"""A table of text: names in the first column, numbers in the others."""

from __future__ import annotations

from dataclasses import dataclass

from environments.terminal.output import console


@dataclass(frozen=True, slots=True)
class Table:
    """A further table of an environment; its cells are text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def show_table(table: Table) -> None:
    """Print a table whose first column holds names, and the others numbers."""
    from rich.table import Table as RichTable
    from rich.text import Text

    out = console()
    if not out.is_terminal:  # whoever reads it from a file wants the cells whole
        widths = (max(map(len, column)) + 3 for column in zip(table.header, *table.rows, strict=True))
        out.width = max(out.width, sum(widths) + 1)
    drawn = RichTable(title=Text(table.title), title_justify="left")
    for number, name in enumerate(table.header):
        drawn.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    out.print(drawn)
