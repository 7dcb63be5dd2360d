"""The progress of a run: a bar on a terminal, elsewhere a log line from time to time.

Guarantees: the time left is that of the remaining items at the rate of the last minute; a resumed
run does not count the earlier one. Without a terminal, short runs log one line, and no run is
silent for longer than a minute.

`RecentRate` measures the current rate, and estimates the remaining time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from judgegym.engine.terminal.output import UNKNOWN, console, format_dollars, format_duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live


_WINDOW_S = 60.0
_LEAST = 10  # of what is counted: if that took longer than the window, the rate is over these

_WHOLE_FROM = 1000


class RecentRate:
    """The rate over the last minute, or over the last ten items if these took longer.

    Items of an earlier run do not count. While nothing is done the rate falls.
    """

    def __init__(self, done: int, now: float) -> None:
        """Start with what is already done."""
        self._points: deque[tuple[float, int]] = deque([(now, done)])

    def note(self, done: int, now: float) -> None:
        """Note how much is done."""
        points = self._points
        if done != points[-1][1]:
            points.append((now, done))
        while len(points) > 1 and now - points[1][0] > _WINDOW_S and done - points[1][1] >= _LEAST:
            points.popleft()

    def per_second(self, now: float) -> float:
        """Return the rate; 0 before anything is done."""
        (began, before), (_, done) = self._points[0], self._points[-1]
        if now > began:
            return (done - before) / (now - began)
        return 0.0

    def seconds_left(self, total: int, now: float) -> float | None:
        """Return the time for the rest; `None` before anything is done."""
        rate = self.per_second(now)
        if rate:
            return (total - self._points[-1][1]) / rate
        return None


def format_rate(per_second: float, unit: str) -> str:
    """Format a rate with a unit of time that makes it at least one; empty for 0."""
    for seconds, name in ((1, "s"), (60, "min"), (3600, "h")):
        if per_second * seconds >= 1:
            rate = per_second * seconds
            decimals = 0 if rate >= _WHOLE_FROM else 1
            return f"{rate:,.{decimals}f} {unit}/{name}"
    if per_second:
        return f"{per_second * 3600:.2f} {unit}/h"
    return ""


logger = logging.getLogger(__name__)

_REFRESH_S = 0.25
_STEPS = 10  # lines of a log, unless they would come faster or slower than these
_SHORTEST_S = 5.0
_LONGEST_S = 60.0
_NOT_YET_S = 2.0  # a rate over less than this tells nothing
_AFTERWARDS = "computing the metrics, writing the page"


@dataclass(frozen=True, slots=True)
class ProgressState:
    """The state of a run's progress.

    Attributes:
        done: the number of finished items, including those of an earlier run.
        words: the label of the headline metric.
        headline: its value so far, if it has one.
        failures: the number of failures so far.
        costs: US dollars so far by role, of the roles that were asked; `None` if a cost is not
            known.
        waiting: what the run waits for, if it does.
    """

    done: int
    words: str
    headline: float | None
    failures: int
    costs: Mapping[str, float | None] = field(default_factory=dict)
    waiting: str | None = None

    @property
    def tally(self) -> str:
        """The numbers as text, without what the run waits for."""
        parts = []
        if self.headline is not None:
            parts.append(f"{self.words} {self.headline:.3f}")
        if self.failures:
            parts.append(f"{self.failures:,} failed")
        has_cost = any(cost != 0 for cost in self.costs.values())
        if set(self.costs.values()) == {None}:
            parts.append(f"cost {UNKNOWN}")
        elif has_cost:  # otherwise nothing was asked yet, or no endpoint costs anything
            for role, cost in self.costs.items():
                dollars = format_dollars(cost)
                if cost is None:
                    dollars = f"cost {dollars}"
                parts.append(f"{role} {dollars}")
        return ", ".join(parts)


Log = Callable[[str], None]
"""Writes a line to the run's log only."""


class ProgressDisplay:
    """Shows the progress of one run.

    It polls a few times a second, so that finished rows need not report to it.
    """

    def __init__(self, verb: str, unit: str) -> None:
        """Show nothing yet.

        Args:
            verb: the command.
            unit: the noun for the counted items.
        """
        self._verb, self._unit = verb, unit
        self._total = 0
        self._started = self._said_at = time.monotonic()
        self._reported = -1
        self._rate = RecentRate(0, self._started)
        self._duration_s: float | None = None
        self._is_over = False
        self._state: ProgressState | None = None
        terminal = console(stderr=True)
        self._live: Live | None = None
        if terminal.is_terminal and not terminal.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(get_renderable=self._draw, console=terminal, auto_refresh=False)

    def __enter__(self) -> ProgressDisplay:
        """Begin."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop drawing."""
        self._is_over = True
        if self._live is not None:
            self._live.stop()

    @contextmanager
    def follow(
        self, get_state: Callable[[], ProgressState], log: Log, *, left: int
    ) -> Iterator[None]:
        """Show the progress that `get_state` returns, several times a second and once at the end.

        Args:
            get_state: returns the progress; items finished at the start are an earlier run's.
            left: the number of further items.
            log: takes the log lines if there is a terminal, which shows a bar instead.
        """
        self._state = first = get_state()
        self._reported, self._total = first.done, first.done + left
        self._rate = RecentRate(first.done, time.monotonic())
        if self._live is not None:
            self._live.start()

        async def refresh() -> None:
            while True:
                await asyncio.sleep(_REFRESH_S)
                self._show(get_state(), log)

        timer = asyncio.get_running_loop().create_task(refresh())
        try:
            yield
        finally:
            timer.cancel()
            self._show(get_state(), log, is_last=True)

    def _show(self, state: ProgressState, log: Log, *, is_last: bool = False) -> None:
        now, self._state = time.monotonic(), state
        if state.done >= self._total and self._duration_s is None:
            self._duration_s = now - self._started
        self._rate.note(state.done, now)
        if self._live is not None:
            self._live.refresh()
        since = now - self._said_at
        is_step = (
            bool(self._total)
            and state.done * _STEPS // self._total > self._reported * _STEPS // self._total
        )
        is_due = since >= _LONGEST_S or (is_step and since >= _SHORTEST_S)
        if is_last:
            is_due = state.done != self._reported
        if is_due:
            self._reported, self._said_at = state.done, now
            count = f"{state.done:,} of {self._total:,} {self._unit}"
            line = ", ".join(filter(None, (count, self._pace(now), state.tally, state.waiting)))
            if self._live is None:
                logger.info("%s", line)
            else:
                log(line)

    def _pace(self, now: float) -> str:
        """Return the rate and the time left; at the end the duration."""
        if self._duration_s is not None:
            duration = format_duration(self._duration_s)
            return f"in {duration}"
        if now - self._started < _NOT_YET_S:
            return ""
        left = self._rate.seconds_left(self._total, now)
        time_left = ""
        if left is not None:
            time_left = format_duration(left, tenths=False) + " left"
        return ", ".join(
            filter(None, (format_rate(self._rate.per_second(now), self._unit), time_left))
        )

    def _draw(self) -> RenderableType:
        """Draw the bar with its numbers; below it the tally, and what the run waits for."""
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        state = self._state
        if state is None:
            return Text()
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1, min_width=5)
        grid.add_column(no_wrap=True)
        count = f"{state.done:,}/{self._total:,} {self._unit}"
        pace = self._pace(time.monotonic())
        bar = ProgressBar(
            total=self._total, completed=state.done, complete_style="cyan", finished_style="green"
        )
        grid.add_row(self._verb, bar, Text(", ".join(filter(None, (count, pace)))))
        afterwards = ""
        if self._duration_s is not None and not self._is_over:
            afterwards = _AFTERWARDS
        below = (
            (text, style)
            for text, style in ((state.tally, ""), (state.waiting, "yellow"), (afterwards, "dim"))
            if text
        )
        lines = (Text(text, style=style, no_wrap=False, overflow="fold") for text, style in below)
        return Group(grid, *(Padding(line, (0, 0, 0, 2)) for line in lines))
