"""Write to the terminal: tables, progress, messages. No other module does."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from environments.metrics import Metrics
from judges.config.sources import ConfigLine

if TYPE_CHECKING:  # rich is imported when a table or a progress bar is drawn: help and errors do without
    from rich.console import Console
    from rich.progress import Progress

_VALUE_WIDTH = 30
_REFRESH_S = 0.25
_PLAIN_STEPS = 10  # lines of progress where there is no terminal to redraw


def say(text: str) -> None:
    """Write a line to standard output: results."""
    sys.stdout.write(f"{text}\n")


def warn(text: str) -> None:
    """Write a line to standard error: progress, warnings, errors."""
    sys.stderr.write(f"{text}\n")


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


@dataclass(frozen=True, slots=True)
class MetricDisplay:
    """How the metrics of a run are shown.

    Attributes:
        headline: full name and label of the metric to quote, which is shown apart.
        notes: what a metric with a misleading name means, by full name.
        elsewhere: metrics that other tables of the run show.
    """

    headline: tuple[str, str] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()


def show_metrics(
    title: str, metrics: Metrics, notices: Sequence[str], display: MetricDisplay = MetricDisplay()
) -> None:
    """Print the table of metrics, the metrics that were left out, the notices, and the headline."""
    from rich.table import Table as RichTable
    from rich.text import Text

    out = console()
    if not out.is_terminal and metrics.values:  # whoever reads it from a file wants the names whole
        noted = max(map(len, display.notes.values()), default=0)
        out.width = max(out.width, max(map(len, metrics.values)) + _VALUE_WIDTH + noted)
    drawn = RichTable(title=Text(title), title_justify="left")
    drawn.add_column("metric", overflow="fold")
    drawn.add_column("value", justify="right")
    if display.notes.keys() & metrics.values.keys():
        drawn.add_column("", overflow="fold")
    for name, value in metrics.values.items():
        if name not in display.elsewhere:
            note = [display.notes[name]] if name in display.notes else []
            drawn.add_row(name, f"{value:.4f}" if isinstance(value, float) else str(value), *note)
    for name in metrics.unknown:
        drawn.add_row(name, "unknown")
    out.print(drawn)
    if display.elsewhere:
        say(f"{len(display.elsewhere & metrics.values.keys())} more metrics, of single models, are in metrics.json")
    by_reason: dict[str, list[str]] = {}
    for name, reason in metrics.left_out.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        say(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} left out: {reason}")
    if display.headline is not None and display.headline[0] in metrics.values:
        say(_headline(metrics, *display.headline))
    for notice in notices:
        say(notice)


def _headline(metrics: Metrics, name: str, words: str) -> str:
    bounds = [metrics.values.get(f"{name}_{end}") for end in ("ci_low", "ci_high")]
    low, high = (None if bound is None else f"{bound:.4f}" for bound in bounds)
    interval = f" (95 %: {low} to {high})" if low is not None and high is not None else ""
    return f"The result: {words} {metrics.values[name]:.4f}{interval}, {name}"


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


@dataclass(frozen=True, slots=True)
class EvaluationProgress:
    """The progress of an evaluation.

    Attributes:
        rows: the number of rows done, including those of an earlier run.
        words: the label of the headline metric.
        headline: its value so far, if it has one.
        failures: rows that failed so far.
        judge_cost: US dollars so far; `None` if the cost is not known.
        waiting: what the run waits for, if it does.
    """

    rows: int
    words: str
    headline: float | None
    failures: int
    judge_cost: float | None
    waiting: str | None = None


class ProgressDisplay:
    """A progress bar on a terminal; elsewhere a line at each tenth of the way.

    It looks for itself, a few times a second, so that a row that is done need not report to it.
    """

    def __init__(self, total: int) -> None:
        """Show none of `total` rows done."""
        terminal = console(stderr=True)
        self._total, self._done, self._begun_with = total, 0, 0
        self._started = time.monotonic()
        self._bar: Progress | None = None
        if terminal.is_terminal:
            self._bar = _bar(terminal)
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
        """Set the number of rows that an earlier run has finished."""
        self._done = self._begun_with = done
        if self._bar is not None:
            self._bar.update(self._row, completed=done)

    @contextmanager
    def following(self, look: Callable[[], EvaluationProgress]) -> Iterator[None]:
        """Show the progress that `look` returns, a few times a second and once more at the end."""
        self._timer = asyncio.get_running_loop().call_later(_REFRESH_S, self._refresh, look)
        try:
            yield
        finally:
            self._timer.cancel()
            self.show(look())

    def _refresh(self, look: Callable[[], EvaluationProgress]) -> None:
        self.show(look())
        self._timer = asyncio.get_running_loop().call_later(_REFRESH_S, self._refresh, look)

    def show(self, progress: EvaluationProgress) -> None:
        """Show the progress; without a terminal, only after each further tenth of the rows."""
        before, self._done = self._done, progress.rows
        seconds = time.monotonic() - self._started
        rate = f"{(self._done - self._begun_with) / seconds:.1f} rows/s" if seconds > 0 else ""
        parts = [
            "" if progress.headline is None else f"{progress.words} {progress.headline:.3f}",
            f"{progress.failures} failed" if progress.failures else "",
            f"judge ${progress.judge_cost:.2f}" if progress.judge_cost else "",
            progress.waiting or "",
        ]
        tally = ", ".join(part for part in parts if part)
        if self._bar is not None:
            self._bar.update(self._row, completed=self._done, rate=rate, tally=tally)
        elif self._done * _PLAIN_STEPS // self._total > before * _PLAIN_STEPS // self._total:
            said = (f"{self._done}/{self._total} rows", rate, tally)
            warn(", ".join(part for part in said if part))


def _bar(terminal: Console) -> Progress:
    from rich import progress

    return progress.Progress(
        progress.TextColumn("evaluate"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[rate]} {task.fields[tally]}", markup=False),
        console=terminal,
    )
