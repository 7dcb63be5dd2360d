"""Markdown around texts that are not ours: names of files, settings, models.

Guarantee: such a text is shown as it is, and cannot end the place in which it stands: no heading, table, link, HTML or
head of YAML comes of it. Control characters and those that turn the direction of writing are shown as U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from judgegym.engine.terminal.output import harmless, printable

_TICKS = re.compile(r"`+")


def code(text: str) -> str:
    """A text on one line, as code."""
    shown = printable(" ".join(text.split())) or " "
    fence = "`" * (_longest(shown) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def block(lines: Iterable[str]) -> str:
    """Lines of a shell as a block."""
    text = harmless("\n".join(lines))
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}sh\n{text}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column holds names, the others are set to the right."""
    line = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(_line(row) for row in (header, line, *rows))


def _line(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _longest(text: str) -> int:
    return max((len(found) for found in _TICKS.findall(text)), default=0)
