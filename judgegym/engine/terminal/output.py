"""Terminal output: results on standard output; progress, warnings and errors on standard error.

Guarantee: no text (file names, data sets, responses) can control the terminal: control characters
and characters that change the text's direction are shown as U+FFFD.

The module also prints tables, formats times and costs, and sends a command's log to the terminal.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from judgegym.judges.config.exit_code import remove_control_characters
from judgegym.judges.config.sources import ConfigLine

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment


def say(text: str) -> None:
    """Write a line to standard output: results."""
    sys.stdout.write(remove_control_characters(text) + "\n")


def warn(text: str) -> None:
    """Write a line to standard error: progress, warnings, errors."""
    sys.stderr.write(remove_control_characters(text) + "\n")


def printable(text: str) -> str:
    """Replace characters that move the cursor, change colours, break lines or turn the text."""
    return "".join(character if character.isprintable() else "�" for character in text)


def console(*, stderr: bool = False) -> Console:
    """Return a console for drawing on standard output or standard error."""
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(remove_control_characters(segment.text), segment.style)

        def handle_broken_pipe(self) -> None:
            raise  # it is called while the error is handled; rich's own exits with 1

    return Terminal(stderr=stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)


class LogFormatter(logging.Formatter):
    """Formats records for a standard error that may be shown on a terminal later."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record without terminal control characters."""
        return remove_control_characters(super().format(record))


def offline_notice(stand_ins: Sequence[str]) -> str:
    """Return the notice that numbers from a stand-in are no benchmark result."""
    *others, last = (f"the {role}" for role in stand_ins)
    subject = f"{last} is"
    if others:
        listed = ", ".join(others)
        subject = f"{listed} and {last} are"
    subject = subject[0].upper() + subject[1:]
    return (
        f"{subject} an offline stand-in, which counts words and understands nothing: these "
        "numbers are no benchmark result."
    )


def show_config(lines: Sequence[ConfigLine]) -> None:
    """Print each setting with its value and its source."""
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        say(f"{line.name:<{width}}  {line.value}  [{line.source}]")


@dataclass(frozen=True, slots=True)
class Table:
    """A further table of an environment; its cells are text.

    Attributes:
        title: the title above it.
        header: the names of the columns.
        rows: the cells of each row.
        one_line: whether to cut the names of the first column on a narrow terminal instead of
            folding cells, so that each row is one line.
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
        widths = (
            max(map(len, column)) + 3 for column in zip(table.header, *table.rows, strict=True)
        )
        out.width = max(out.width, sum(widths) + 1)
    drawn = RichTable(title=Text(table.title), title_justify="left")
    for number, name in enumerate(table.header):
        is_whole = table.one_line and number > 0
        drawn.add_column(
            name, justify="right" if number else "left", overflow="fold", no_wrap=is_whole
        )
    for name, *cells in table.rows:
        cut = Text(name, no_wrap=True, overflow="ellipsis") if table.one_line else Text(name)
        drawn.add_row(cut, *map(Text, cells))
    out.print(drawn)


UNKNOWN = "unknown"


def format_count(count: int, noun: str) -> str:
    """Format a number of things: 1 row, 60 rows."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun}s"


def format_duration(seconds: float, *, tenths: bool = True) -> str:
    """Format a time: 2.3 s (2 s without tenths), 41 s, 4 min 05 s, 3 h 07 min."""
    if seconds < 99.5:
        if seconds < 9.95 and tenths:
            return f"{seconds:.1f} s"
        return f"{seconds:.0f} s"
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {remainder:02d} s"
    return f"{hours} h {minutes_left:02d} min"


def format_dollars(cost: float | None) -> str:
    """Format a cost, with four decimals below a dollar; `None` is unknown."""
    if cost is None:
        return UNKNOWN
    if cost >= 1 or cost == 0:
        return f"${cost:,.2f}"
    return f"${cost:.4f}"


def log_to_terminal(*, debug: bool = False) -> None:
    """Send our log to standard error; other libraries' only from warnings on."""
    screen = console(stderr=True)
    if screen.is_terminal:
        from rich.logging import RichHandler

        handler: logging.Handler = RichHandler(console=screen, show_path=False, markup=False)
        logging.basicConfig(
            level=logging.WARNING,
            format="%(message)s",
            datefmt="[%X]",
            handlers=[handler],
            force=True,
        )
    else:
        stream = logging.StreamHandler()
        stream.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(message)s"))
        logging.basicConfig(level=logging.WARNING, handlers=[stream], force=True)
    for name in ("huggingface_hub", "datasets", "transformers"):
        logging.getLogger(
            name
        ).propagate = False  # they have handlers of their own, and each line would come twice
    logging.getLogger("judgegym").setLevel(logging.DEBUG if debug else logging.INFO)
