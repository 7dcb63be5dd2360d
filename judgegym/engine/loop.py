"""The main loop: run a step for each item, many at once, and stop early if none succeeds.

`run_each` is the loop of `process`. `judge_rows` is the loop of `evaluate` and `score`: its items
are the rows of a data set, and its step calls a judge. `serve` starts groups when its trainer needs
them, with the same `FailureGuard`.

Guarantees: a row's calls are in the ledger before they are used; a result is freed once it is
recorded; nothing new begins if it would waste money: after ten failures without a success, after an
endpoint's outage, and while the disk is full. After one success a run does not stop by itself,
however long its endpoints are down. Workers end together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from judgegym.data.task_list import TaskLike
from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample
from judgegym.engine.runs.disk import Disk
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.terminal import ProgressDisplay, ProgressState
from judgegym.judges.core.judgment import Judgment
from judgegym.llm.at_once import cancel_all
from judgegym.llm.errors import EndpointError, EndpointOutage, JudgeGymError
from judgegym.llm.ledger import record_calls
from judgegym.llm.tracing import row_span
from judgegym.llm.usage import Usage

FAILURE_LIMIT = 10
"""End a run after this many failures without a success."""


class NothingSucceeds(JudgeGymError):
    """The first groups or rows all failed; the message is the last one's error."""


class FailureGuard:
    """Counts groups that an endpoint refused before the first success.

    With a wrong key, a wrong model name or an endpoint without tokens every group fails, while the
    other endpoint still costs money.
    """

    def __init__(self) -> None:
        """Start without refusals and successes."""
        self._any_success = False
        self._refused = 0

    def record_unsampled(self, error: JudgeGymError) -> None:
        """Record a group that could not be sampled.

        Raises:
            NothingSucceeds: the limit is reached.
        """
        if not isinstance(error, EndpointError) or not error.kind.retryable:
            self._record_refusal(explain_unsampled(error))

    def record_judged(self, judgments: Sequence[Judgment[Any]], *, has_scores: bool) -> None:
        """Record a group that was sent to the judge.

        Raises:
            NothingSucceeds: the judge refused it, and the limit is reached.
        """
        calls = list(chain.from_iterable(judgment.calls for judgment in judgments))
        if has_scores:
            self._any_success = True
        elif calls and all(call.rejected for call in calls):
            self._record_refusal(calls[-1].error or "the judge refuses")

    def _record_refusal(self, reason: str) -> None:
        self._refused += 1
        if not self._any_success and self._refused >= FAILURE_LIMIT:
            raise NothingSucceeds(reason)


def explain_unsampled(error: JudgeGymError) -> str:
    """Explain why a group could not be sampled, for the log."""
    if isinstance(error, EndpointError):
        return f"the policy at {error}"
    return f"the policy: {error}"


def explain_unscored(judgments: Sequence[Judgment[Any]]) -> str:
    """Explain why the first failed judgment of a group failed, for the log."""
    for judgment in judgments:
        if judgment.status.is_failure and judgment.explanation:
            return judgment.explanation
    return "no reason"


ItemT = TypeVar("ItemT")


async def run_workers(workers: Iterable[Coroutine[None, None, None]]) -> None:
    """Run workers to their end; if one raises, or we are cancelled, the others are cancelled."""
    running = [asyncio.create_task(worker) for worker in workers]
    try:
        await asyncio.gather(*running)
    finally:
        await cancel_all(running)


async def run_each(
    take: Callable[[], ItemT | None],
    step: Callable[[ItemT], Awaitable[None]],
    *,
    disk: Disk,
    in_flight: int,
) -> None:
    """Run a step for each item of a source, many at once.

    No new step begins while the disk is full or after an endpoint's outage. Steps in progress
    finish, so that paid responses of other endpoints are recorded.

    Args:
        take: returns the next item; `None` ends the worker.
        step: processes an item and records the result.
        disk: the disk of the results.
        in_flight: the number of items in progress at once.

    Raises:
        EndpointOutage: an endpoint answers no call.
        DiskFull: the disk could not be written to for too long.
    """
    outage: EndpointOutage | None = None

    async def worker() -> None:
        nonlocal outage
        while outage is None and (item := take()) is not None:
            await disk.ready()
            try:
                await step(item)
            except EndpointOutage as error:
                outage = outage or error

    await run_workers(worker() for _ in range(in_flight))
    if outage is not None:
        raise outage


TaskT = TypeVar("TaskT", bound=TaskLike)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class RowEnd:
    """The outcome of a row.

    Attributes:
        is_complete: whether a resumed run has nothing to add.
        error: why it has no score; `None` if it has one.
        was_asked: whether an endpoint was asked in this run; an earlier run's failure says nothing
            about the endpoints of this one.
    """

    is_complete: bool
    error: str | None = None
    was_asked: bool = True


async def judge_rows(
    tasks: Sequence[TaskT],
    numbers: Sequence[int],
    judge: Callable[[TaskT], Awaitable[ResultT]],
    get_end: Callable[[TaskT, ResultT], RowEnd],
    record: Callable[[int, TaskT, ResultT, float], None],
    ledger: CallLedger,
    *,
    in_flight: int,
    is_first_run: bool,
) -> None:
    """Judge rows.

    Args:
        tasks: all rows; each task is made on access.
        numbers: the indices of the rows to judge.
        judge: judges a row; a failure is a result, not an exception.
        get_end: returns the outcome of a row.
        record: writes a result to the run directory, with its index, its task and its seconds.
        ledger: the calls of this run and of the earlier one, in the run directory.
        in_flight: the number of rows in progress at once; the endpoints have their own limits.
        is_first_run: whether no row of the run has ended yet.

    Raises:
        NothingSucceeds: ten rows failed before one succeeded, and so did the other rows in
            progress. They are recorded.
        EndpointOutage: an endpoint answers no call; rows in progress that do not need it have
            ended.
        DiskFull: the run directory could not be written to for too long.
        BudgetError: no further request may be sent. Nothing is in flight, and all responses are
            recorded.
    """
    missing, rows = len(numbers), iter(numbers)
    done, attempted, failed, last_error, has_failed = 0, 0, 0, "", False

    async def finish(number: int) -> None:
        nonlocal done, attempted, failed, last_error, has_failed
        task = tasks[number]
        calls, started = ledger.row(task.uid), time.monotonic()
        with record_calls(calls), row_span(task.uid):
            result = await judge(task)
        end = get_end(task, result)
        if not end.is_complete:
            calls.mark_failed()
        record(number, task, result, time.monotonic() - started)
        done += 1
        attempted += end.was_asked
        failed += end.was_asked and end.error is not None
        last_error = end.error or last_error
        has_failed = is_first_run and failed == attempted >= min(FAILURE_LIMIT, missing)

    while done < missing:  # again, if rows that were in progress have succeeded after all
        at_once = min(in_flight, missing - done)
        await run_each(
            lambda: None if has_failed else next(rows, None),
            finish,
            disk=ledger.disk,
            in_flight=at_once,
        )
        if has_failed:
            raise NothingSucceeds(last_error)


class RunProgress:
    """Adds up the samples of a run for its progress display.

    Attributes:
        done: the number of samples so far, including those of an earlier run.
    """

    def __init__(
        self, words: str, waiting: Callable[[], str | None], display: ProgressDisplay | None
    ) -> None:
        """Start without samples.

        Args:
            words: the label of the headline metric.
            waiting: returns what the endpoints' calls wait for.
            display: shows the numbers; `None` shows nothing.
        """
        self.done = 0
        self._words, self._waiting, self._display = words, waiting, display
        self._total = self._weight = 0.0
        self._failed = 0
        self._usage: dict[str, Usage] = {}

    def add(self, sample: Sample[Any]) -> None:
        """Count a sample."""
        self.done += 1
        self._failed += not sample.finished
        self.add_paid(
            sample.headline, "judge", [run.usage for run in (sample.run.judge_calls or {}).values()]
        )
        self.add_paid(None, "policy", [run.usage for run in sample.run.policy_calls])
        self.add_paid(None, "user", [run.usage for run in sample.run.user_calls])

    def add_paid(self, share: HeadlineTerm | None, role: str, usages: Sequence[Usage]) -> None:
        """Add a sample's part of the headline metric, and the cost of its calls of a role."""
        if share is not None:
            self._total += share.total
            self._weight += share.weight
        if usages:
            self._usage[role] = sum(usages, self._usage.get(role, Usage()))

    @contextmanager
    def show(self, disk: Disk, log: Callable[[str], None], *, left: int) -> Iterator[None]:
        """Show the progress during the block, starting with the samples added so far.

        Args:
            disk: the disk of the run directory, which may be full.
            log: writes a line only to the run's log.
            left: the number of samples still to come.
        """
        if self._display is None:
            yield
            return
        with self._display.follow(lambda: self._state(disk), log, left=left):
            yield

    def _state(self, disk: Disk) -> ProgressState:
        headline = None
        if self._weight:
            headline = self._total / self._weight
        waiting = "; ".join(filter(None, (disk.waiting, self._waiting()))) or None
        costs: Mapping[str, float | None] = {
            role: usage.cost for role, usage in sorted(self._usage.items())
        }
        return ProgressState(self.done, self._words, headline, self._failed, costs, waiting)
