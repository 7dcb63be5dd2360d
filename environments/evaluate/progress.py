"""What the progress display shows of an evaluation: numbers that are added up when a sample arrives, and no sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic

from environments.base import DetailT, JudgedEnv
from environments.data.rows import TaskT
from environments.records import Sample
from environments.terminal import EvaluationProgress, ProgressDisplay


class LiveProgress(Generic[TaskT, DetailT]):
    """Counts the rows of a run as they arrive."""

    def __init__(self, env: JudgedEnv[Any, TaskT, DetailT], display: ProgressDisplay | None) -> None:
        """Begin with no row; without a display nothing is counted."""
        self._env = env
        self._display = display
        self._total = self._weight = 0.0
        self._done = self._failures = 0

    def add(self, task: TaskT, sample: Sample[DetailT]) -> None:
        """Record a row; one at which an earlier run has failed is recorded when it has run again."""
        if self._display is None:
            return
        self._done += 1
        self._failures += not sample.finished
        if sample.headline is not None:
            self._total += sample.headline.total
            self._weight += sample.headline.weight

    @contextmanager
    def shown(self, waiting: Callable[[], str | None]) -> Iterator[None]:
        """Show the progress from the rows that have been added until now; `waiting` says what the disk waits for."""
        if self._display is None:
            yield
            return
        self._display.begin_with(self._done)
        with self._display.following(lambda: self._look(waiting())):
            yield

    def _look(self, disk: str | None) -> EvaluationProgress:
        clients = self._env.clients
        headline = self._total / self._weight if self._weight else None
        waiting = "; ".join(filter(None, (disk, clients.waiting))) or None
        return EvaluationProgress(
            self._done, self._env.headline[1], headline, self._failures, clients.judge_cost, waiting
        )
