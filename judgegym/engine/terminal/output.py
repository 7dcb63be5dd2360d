"""Standard output for results, standard error for progress, warnings and errors.

Guarantee: whatever a text holds (names of files, texts of data sets, answers of endpoints), it gives the terminal no
command: control characters and those that turn the direction of writing are shown as U+FFFD.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from judgegym.judges.config.sources import ConfigLine

if TYPE_CHECKING:  # rich is imported when something is drawn: help and errors do without
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

_COMMANDS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)")


def say(text: str) -> None:
    """Write a line to standard output: results."""
    sys.stdout.write(f"{harmless(text)}\n")


def warn(text: str) -> None:
    """Write a line to standard error: progress, warnings, errors."""
    sys.stderr.write(f"{harmless(text)}\n")


def harmless(text: str) -> str:
    """The text, which may have several lines, without what a terminal would obey or what it cannot be sent."""
    return _COMMANDS.sub("�", text)


def printable(text: str) -> str:
    """The text without what would move the cursor, change colours, break the line or turn the direction of writing."""
    return "".join(character if character.isprintable() else "�" for character in text)


def console(*, stderr: bool = False) -> Console:
    """Standard output or standard error, for what is drawn."""
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(harmless(segment.text), segment.style)

        def on_broken_pipe(self) -> None:
            raise  # it is called while the error is handled; rich's own exits with 1

    return Terminal(stderr=stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)


class LogFormatter(logging.Formatter):
    """Records on a standard error that is no terminal of ours, and may be shown on one later."""

    def __init__(self) -> None:
        """Time, level and message."""
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the record without what a terminal would obey."""
        return harmless(super().format(record))


def offline_notice(stand_ins: Sequence[str]) -> str:
    """Return the notice that numbers from a stand-in are no benchmark result."""
    who = f"The {stand_ins[0]} is" if len(stand_ins) == 1 else f"The {' and the '.join(stand_ins)} are"
    return (
        f"{who} an offline stand-in, which counts words and understands nothing: these numbers are no benchmark result."
    )


def show_config(lines: Sequence[ConfigLine]) -> None:
    """Print each setting with its value and its source."""
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        say(f"{line.name:<{width}}  {line.value}  [{line.source}]")
