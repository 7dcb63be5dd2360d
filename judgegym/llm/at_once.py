"""Concurrent calls that end together, and the activity of a run's rows.

`asyncio.gather` raises while the other calls continue. If the error ends the run, as
`EndpointOutage` does, the responses of the others would be paid for and recorded nowhere.

Identical calls in flight are deduplicated: they share one response.

The activity tells when a batch must be sent because no further request can join it. A row is in
progress from its start to its end. It is blocked while one of its calls waits for something that
depends on other rows or on a batch: a line of a batch, the budget, an identical call in flight. The
run is quiet when every row in progress is blocked and no other request is in flight. This is
counted, not timed. A row with one blocked call counts as blocked even if it is about to make
another call, which then goes into the next batch.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, TypeVar

from judgegym.llm.errors import EndpointError, RunStop

T = TypeVar("T")


@contextmanager
def bind_context(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Bind a context variable to a value in the block, and in the tasks that begin there."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


class Activity:
    """The rows in progress of one run, and their blocked calls.

    Attributes:
        changes: the number of changes so far.
        changed: set by each change.
        rows: the rows in progress.
        blocked: the number of blocked calls of each row.
        requests: the number of live requests of each row.
    """

    def __init__(self) -> None:
        """Start without rows."""
        self.changes, self.changed = 0, asyncio.Event()
        self.rows, self.blocked, self.requests = Counter[int](), Counter[int](), Counter[int]()

    @property
    def is_quiet(self) -> bool:
        """Whether every row in progress is blocked, and no request is on its way."""
        rows, blocked = self.rows, self.blocked
        return not self.requests and len(rows) <= len(blocked) and rows.keys() <= blocked.keys()

    def note(self) -> None:
        """Note a change, and wake whoever waits for one."""
        self.changes += 1
        self.changed.set()


ACTIVITY: ContextVar[Activity | None] = ContextVar("activity", default=None)
"""The activity of the current run, if its requests go into batches."""
_ROW: ContextVar[int] = ContextVar("row_in_progress", default=0)


def _count_row(select_counts: Callable[[Activity], Counter[int]]) -> AbstractContextManager[None]:
    """Count the current row during the block, if the run's requests go into batches."""
    activity = ACTIVITY.get()
    if activity is None:
        return nullcontext()
    return _count(activity, select_counts(activity))


@contextmanager
def _count(activity: Activity, counts: Counter[int]) -> Iterator[None]:
    row = _ROW.get()
    counts[row] += 1
    activity.note()
    try:
        yield
    finally:
        counts[row] -= 1
        if not counts[row]:
            del counts[row]
        activity.note()


blocked = partial(_count_row, lambda activity: activity.blocked)
"""Count a call of the current row as blocked during the block."""
request_in_flight = partial(_count_row, lambda activity: activity.requests)
"""Count a live request of the current row, or a cache access, during the block."""


@contextmanager
def row_in_progress(row: object) -> Iterator[None]:
    """Count a row as in progress during the block."""
    with bind_context(_ROW, id(row)), _count_row(lambda activity: activity.rows):
        yield


async def gather_results(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await calls concurrently; return their results in order.

    Raises:
        RunStop: a call raised it; the others have ended.
        EndpointError: a call raised it; the others have ended.
        BaseException: any other error of a call, such as a bug in a judge; the others are
            cancelled.
    """
    calls = list(calls)
    if len(calls) == 1:  # a single call needs no task
        return [await calls[0]]
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except (EndpointError, RunStop):
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        if stops := [outcome for outcome in ended if isinstance(outcome, RunStop)]:
            raise stops[0] from None
        raise
    except BaseException:  # a fault, or the caller is cancelled: none may be left running
        await cancel_all(tasks)
        raise


async def cancel_all(tasks: Collection[asyncio.Future[T]]) -> list[T | BaseException]:
    """Cancel tasks, and wait until they have ended; return the results or the errors of all."""
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


class Tasks(set["asyncio.Future[Any]"]):
    """Background tasks that are kept until they end; the event loop holds them only weakly."""

    def begin(self, work: Awaitable[object]) -> None:
        """Start a task."""
        task = asyncio.ensure_future(work)
        self.add(task)
        task.add_done_callback(self.discard)


class _RunnerCancelled(Exception):
    """The caller that ran the shared call was cancelled; another caller may run it."""


class SingleFlight(Generic[T]):
    """Deduplicates concurrent calls: callers with the same key share one call.

    They also share a failure. If the caller that runs the call is cancelled, another caller runs it
    again.
    """

    def __init__(self) -> None:
        """Start with no call in flight."""
        self._in_flight: dict[Hashable, asyncio.Future[T]] = {}

    async def run(self, key: Hashable, call: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the result of `call`, or of an identical call in flight.

        Returns:
            The result, and whether another caller ran the call.
        """
        while (running := self._in_flight.get(key)) is not None:
            try:
                with blocked():
                    return await asyncio.shield(running), True
            except _RunnerCancelled:
                continue
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = future
        try:
            answer = await call()
        except asyncio.CancelledError:
            fail(future, _RunnerCancelled())
            raise
        except Exception as error:  # any error: it is passed to all who share the call, and raised
            fail(future, error)
            raise
        else:
            future.set_result(answer)
            return answer, False
        finally:
            del self._in_flight[key]


def fail(future: asyncio.Future[T], error: Exception) -> None:
    """Set a future's error; nobody needs to retrieve it."""
    future.set_exception(error)
    future.exception()  # mark as retrieved
