"""Standard output for results, standard error for progress, warnings and errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from judges.config.sources import ConfigLine

if TYPE_CHECKING:  # rich is imported when something is drawn: help and errors do without
    from rich.console import Console


def say(text: str) -> None:
    """Write a line to standard output: results."""
    sys.stdout.write(f"{text}\n")


def warn(text: str) -> None:
    """Write a line to standard error: progress, warnings, errors."""
    sys.stderr.write(f"{text}\n")


def printable(text: str) -> str:
    """The text without what would move the cursor, change colours, break the line or turn the direction of writing."""
    return "".join(character if character.isprintable() else "�" for character in text)


def console(*, stderr: bool = False) -> Console:
    """Standard output or standard error, for what is drawn."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise  # it is called while the error is handled; rich's own exits with 1

    return Terminal(stderr=stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)


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
