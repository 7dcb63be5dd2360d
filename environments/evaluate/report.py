"""What a command shows: the only place that writes to the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

from environments.metrics import Metrics
from judges.config.sources import ConfigLine

_VALUE_WIDTH = 30
_PLAIN_STEPS = 10  # lines of progress where there is no terminal to redraw


def output() -> Console:
    """Standard output: results."""
    return Console(soft_wrap=True, highlight=False, markup=False, emoji=False)


def messages() -> Console:
    """Standard error: progress, warnings, errors."""
    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)


def offline_notice(stand_ins: Sequence[str]) -> str:
    """What must be said of numbers that a stand-in had a part in."""
    who = f"The {stand_ins[0]} is" if len(stand_ins) == 1 else f"The {' and the '.join(stand_ins)} are"
    return (
        f"{who} an offline stand-in, which counts words and understands nothing: these numbers are no benchmark result."
    )


def show_config(lines: Sequence[ConfigLine]) -> None:
    """Print each setting with its value and its source."""
    console = output()
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        console.print(Text(f"{line.name:<{width}}  {line.value}  [{line.source}]"))


def show_metrics(title: str, metrics: Metrics, notices: Sequence[str]) -> None:
    """Print the table of metrics, what was left out, and what the reader must know of it."""
    console = output()
    if not console.is_terminal and metrics.values:  # whoever reads it from a file wants the names whole
        console.width = max(console.width, max(map(len, metrics.values)) + _VALUE_WIDTH)
    table = RichTable(title=Text(title), title_justify="left")
    table.add_column("metric", overflow="fold")
    table.add_column("value", justify="right")
    for name, value in metrics.values.items():
        table.add_row(name, f"{value:.4f}" if isinstance(value, float) else str(value))
    console.print(table)
    for name, reason in metrics.left_out.items():
        console.print(f"{name} is left out: {reason}")
    for notice in notices:
        console.print(notice)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of an environment's own, as text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def show_table(table: Table) -> None:
    """Print a table; its first column is of names, the others of numbers."""
    console = output()
    if not console.is_terminal:  # whoever reads it from a file wants the cells whole
        widths = (max(map(len, column)) + 3 for column in zip(table.header, *table.rows, strict=True))
        console.width = max(console.width, sum(widths) + 1)
    drawn = RichTable(title=Text(table.title), title_justify="left")
    for number, name in enumerate(table.header):
        drawn.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(drawn)


class ProgressDisplay:
    """A progress bar on a terminal; elsewhere a line at each tenth of the way."""

    def __init__(self, total: int) -> None:
        """Show none of `total` rows done."""
        self._console = messages()
        self._total, self._done, self._begun_with = total, 0, 0
        self._started = time.monotonic()
        self._bar: Progress | None = None
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("evaluate"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[rate]} {task.fields[tally]}", markup=False),
                console=self._console,
            )
            self._row = self._bar.add_task("evaluate", total=total, rate="", tally="")

    def __enter__(self) -> ProgressDisplay:
        """Start drawing."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        if self._bar is not None:
            self._bar.stop()

    def begin_with(self, done: int) -> None:
        """So many rows are an earlier run's."""
        self._done = self._begun_with = done
        if self._bar is not None:
            self._bar.update(self._row, completed=done)

    def advance(self, words: str, headline: float | None, failures: int, judge_cost: float) -> None:
        """One more row is done.

        Args:
            words: what the headline metric is.
            headline: its value so far, if it has one.
            failures: rows that failed so far.
            judge_cost: US dollars so far.
        """
        self._done += 1
        seconds = time.monotonic() - self._started
        rate = f"{(self._done - self._begun_with) / seconds:.1f} rows/s" if seconds > 0 else ""
        parts = [
            "" if headline is None else f"{words} {headline:.3f}",
            f"{failures} failed" if failures else "",
            f"judge ${judge_cost:.2f}" if judge_cost else "",
        ]
        tally = ", ".join(part for part in parts if part)
        if self._bar is not None:
            self._bar.update(self._row, completed=self._done, rate=rate, tally=tally)
        elif self._done * _PLAIN_STEPS // self._total > (self._done - 1) * _PLAIN_STEPS // self._total:
            said = (f"{self._done}/{self._total} rows", rate, tally)
            self._console.print(", ".join(part for part in said if part))
