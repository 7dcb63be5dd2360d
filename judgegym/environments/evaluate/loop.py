"""Run all rows of an evaluation, with a limit on rows in flight, and append each sample to the run directory.

Stops early if nothing succeeds, and if an endpoint's outage ends the run: further rows would cost money for nothing.
Guarantee: a sample is let go once its line is written and `arrived` has seen it.

What the progress display shows of an evaluation: numbers that are added up when a sample arrives, and no sample.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeAlias

from judgegym.data.rows import TaskT
from judgegym.engine.records import Sample
from judgegym.engine.runs.disk import Disk
from judgegym.engine.runs.failure_guard import HOPELESS_AFTER, NothingSucceeds, OutageGuard, all_of
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.terminal import ProgressDisplay, ProgressState
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.evaluate.saved import SavedRows
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.ledger import recorded_in
from judgegym.llm.usage import Usage

Finish: TypeAlias = Callable[[TaskT], Awaitable[Sample[DetailT]]]


async def finish_rows(
    saved: SavedRows[TaskT, DetailT],
    numbers: Sequence[int],
    finish: Finish[TaskT, DetailT],
    *,
    is_complete: Callable[[Sample[DetailT]], bool],
    disk: Disk,
    ledger: CallLedger,
    in_flight: int,
    arrived: Callable[[TaskT, Sample[DetailT]], None],
) -> None:
    """Finish the rows that an earlier run has not finished, or some of them.

    Args:
        saved: all rows.
        numbers: which of them are run.
        finish: finishes a row, as `RowRunner.finish` does; a failure is a sample, not an exception.
        is_complete: whether a resumed run has nothing to add to a row.
        disk: the disk of the run directory.
        ledger: the calls of this run and of the earlier one.
        in_flight: rows in progress at once; the endpoints have limits of their own.
        arrived: called with each row and its new sample once its line is written.

    Raises:
        NothingSucceeds: ten rows failed before one was finished, and so did the rows in progress with them. Their
            samples are on disk.
        EndpointOutage: an endpoint answers no call; the rows in progress that do not need it have ended.
        DiskFull: the run directory could not be written to for too long.
    """
    missing, rows = len(numbers), iter(numbers)
    guard = OutageGuard()
    is_first_run = missing == len(saved)
    done, asked, failures, last_error = 0, 0, 0, ""

    async def run(number: int) -> None:
        nonlocal done, asked, failures, last_error
        if not disk.is_open:
            await disk.ready()
        task = saved.tasks[number]
        calls = ledger.row(task.uid)
        with recorded_in(calls):
            sample = await finish(task)
        complete = is_complete(sample)
        if not complete:
            calls.failed()
        saved.append(number, sample, is_complete=complete)
        arrived(task, sample)
        done += 1
        asked += not _is_former_failure(sample)
        failures += not sample.finished and not _is_former_failure(sample)
        last_error = sample.error or "no row has a score"

    def is_hopeless() -> bool:
        return is_first_run and failures == asked >= min(HOPELESS_AFTER, missing)

    async def worker() -> None:
        for number in rows:
            await guard.run(partial(run, number), None)
            if is_hopeless() or not guard.may_begin:
                return  # begin no further rows; one that is in progress may still succeed

    while done < missing:
        await all_of(worker() for _ in range(min(in_flight, missing - done)))
        guard.check()
        if is_hopeless():
            raise NothingSucceeds(last_error)


def _is_former_failure(sample: Sample[DetailT]) -> bool:
    """Whether the policy failed in the run whose completions are judged again: that says nothing of an endpoint."""
    return sample.policy_error is not None and not sample.run.policy_calls


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
