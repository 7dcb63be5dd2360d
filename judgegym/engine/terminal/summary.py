"""The short table of a run: the headline, then sections of lines, each with a label, a value and a remark.

Guarantees: on a terminal no line is wider than it; elsewhere every line is whole, with at least two spaces between its
columns, so that a program can take it apart. Text of data sets is shown without the characters that a terminal obeys.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from judgegym.engine.terminal.output import console, say

if TYPE_CHECKING:  # rich is imported when something is drawn
    from rich.text import Text

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_GAP = "  "
_BOUND = "\u00a0"
_NARROWEST_REMARK, _NARROWEST_LABEL = 24, 9


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """A line: what it is about, its value, and what is to be said of it."""

    label: str
    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a title; a single line without a label stands beside the title.

    Attributes:
        title: what the lines have in common.
        lines: the lines; a section without any is not shown.
        is_alarm: something went wrong.
    """

    title: str
    lines: Sequence[SummaryLine]
    is_alarm: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """What a command prints of its result.

    Attributes:
        title: what was run.
        headline: the number to quote.
        sections: the rest.
        notices: what a reader of the numbers must know, in sentences.
    """

    title: str
    headline: SummaryLine
    sections: Sequence[Section]
    notices: Sequence[str] = ()


def show_summary(summary: Summary) -> None:
    """Print a summary on standard output."""
    out = console()
    rows = [*_rows(summary)]
    labels = max(_width(row.label) for row in rows)
    values = max(_width(row.value) for row in rows if row.value)
    if out.is_terminal:
        labels = min(labels, max(out.width - values - 2 * len(_GAP) - _NARROWEST_REMARK, _NARROWEST_LABEL))
    room = out.width - labels - values - 2 * len(_GAP) if out.is_terminal else 0
    title = _shown(summary.title)
    say(wrapped(title, out.width) if out.is_terminal else title)
    for row in rows:
        for line in _drawn(row, labels, values, room):
            line.rstrip()
            out.print(line)
    for notice in summary.notices:
        say(wrapped(notice, out.width) if out.is_terminal else notice)


def wrapped(sentence: str, width: int) -> str:
    """Break a sentence between its words; a long one, such as a path, stays whole, so that it can be copied."""
    lines = sentence.splitlines() or [""]
    return "\n".join(textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in lines)


@dataclass(frozen=True, slots=True)
class _SummaryRow:
    label: str
    value: str = ""
    remark: str = ""
    style: str = ""


def _rows(summary: Summary) -> Iterator[_SummaryRow]:
    yield _SummaryRow(summary.headline.label, summary.headline.value, summary.headline.remark, "bold")
    for section in summary.sections:
        style = "red" if section.is_alarm else "dim"
        if len(section.lines) == 1 and not section.lines[0].label:
            yield _SummaryRow(section.title, section.lines[0].value, section.lines[0].remark, style)
        elif section.lines:
            yield _SummaryRow(section.title, style=style)
            for line in section.lines:
                yield _SummaryRow(f"{_GAP}{_shown(line.label)}", line.value, line.remark)


def _drawn(row: _SummaryRow, labels: int, values: int, room: int) -> Iterator[Text]:
    """Draw a row; with a limited room, its remark goes on below itself."""
    from rich.cells import set_cell_size
    from rich.text import Text

    label = row.label
    if _width(label) > labels:
        label = f"{set_cell_size(label, labels - 1)}…"
    remark = _shown(row.remark)
    parts = _folded(remark, max(room, _NARROWEST_LABEL)) if room else [remark]
    first = Text(set_cell_size(label, labels), style=row.style)
    value = Text(" " * (values - _width(row.value)) + row.value, style="bold" if row.style == "bold" else "")
    for number, part in enumerate(parts or [""]):
        start = Text.assemble(first, _GAP, value) if number == 0 else Text(" " * (labels + len(_GAP) + values))
        yield Text.assemble(start, _GAP, part)


def _folded(text: str, room: int) -> list[str]:
    """Break a remark after commas and semicolons, and between words only where such a part is too long."""
    if _width(text) > len(text):  # wide characters
        from rich.text import Text

        return [line.plain.rstrip() for line in Text(text).wrap(console(), room)]
    parts = (part.replace(" ", _BOUND) if len(part) <= room else part for part in re.split(r"(?<=[,;]) ", text))
    return [line.replace(_BOUND, " ") for line in textwrap.wrap(" ".join(parts), room, break_on_hyphens=False)]


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _shown(text: str) -> str:
    return _CONTROLS.sub(" ", text)
