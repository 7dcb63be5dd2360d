"""The progress of an evaluation: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from environments.terminal.output import console, warn

if TYPE_CHECKING:  # rich is imported when a bar is drawn
    from rich.console import Console
    from rich.progress import Progress

_REFRESH_S = 0.25
_PLAIN_STEPS = 10  # lines of progress where there is no terminal to redraw


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
