"""A table of text: names in the first column, numbers in the others."""

from __future__ import annotations

from dataclasses import dataclass

from judgegym.engine.terminal.output import console


@dataclass(frozen=True, slots=True)
class Table:
    """A further table of an environment; its cells are text.

    Attributes:
        title: stands above it.
        header: the names of the columns.
        rows: the cells of each row.
        one_line: on a terminal that is too narrow, cut the names of the first column instead of folding cells, so that
            each row is one line.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    one_line: bool = False


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
        is_whole = table.one_line and number > 0
        drawn.add_column(name, justify="right" if number else "left", overflow="fold", no_wrap=is_whole)
    for name, *cells in table.rows:
        cut = Text(name, no_wrap=True, overflow="ellipsis") if table.one_line else Text(name)
        drawn.add_row(cut, *map(Text, cells))
    out.print(drawn)
