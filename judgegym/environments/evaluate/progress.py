"""What the progress display shows of an evaluation: numbers that are added up when a sample arrives, and no sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic

from judgegym.data.rows import TaskT
from judgegym.engine.records import Sample
from judgegym.engine.terminal import ProgressDisplay, ProgressState
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.usage import Usage


class LiveProgress(Generic[TaskT, DetailT]):
    """Counts the rows of a run as they arrive; the costs are theirs, those of an earlier run included."""

    def __init__(self, env: JudgedEnv[Any, TaskT, DetailT], display: ProgressDisplay | None) -> None:
        """Begin with no row; without a display nothing is counted."""
        self._env = env
        self._display = display
        self._total = self._weight = 0.0
        self._done = self._failures = 0
        self._usage: dict[str, Usage] = {}

    def add(self, task: TaskT, sample: Sample[DetailT]) -> None:
        """Record a row; one at which an earlier run has failed is recorded when it has run again."""
        if self._display is None:
            return
        self._done += 1
        self._failures += not sample.finished
        if sample.headline is not None:
            self._total += sample.headline.total
            self._weight += sample.headline.weight
        self._add_usage("judge", (sample.run.judge_calls or {}).values())
        self._add_usage("policy", sample.run.policy_calls)

    def _add_usage(self, role: str, runs: Iterable[CallRun]) -> None:
        for run in runs:
            self._usage[role] = self._usage.get(role, Usage()) + run.usage

    @contextmanager
    def shown(self, disk: Callable[[], str | None], log: Callable[[str], None], *, left: int) -> Iterator[None]:
        """Show the progress from the rows that have been added until now.

        Args:
            disk: says what the disk waits for.
            log: writes a line to the log of the run alone.
            left: how many rows are to be run.
        """
        if self._display is None:
            yield
            return
        with self._display.following(lambda: self._look(disk()), log, left=left):
            yield

    def _look(self, disk: str | None) -> ProgressState:
        headline = self._total / self._weight if self._weight else None
        waiting = "; ".join(filter(None, (disk, self._env.clients.waiting))) or None
        costs = {role: usage.cost for role, usage in sorted(self._usage.items())}
        return ProgressState(self._done, self._env.headline[1], headline, self._failures, costs, waiting)
