"""Calls that are made at once and end together.

`asyncio.gather` raises while the other calls go on. If that ends a run, as `EndpointOutage` does,
the answers of the others are paid for and recorded nowhere.

Identical calls in flight at the same time share one answer.

What the rows of a run wait for, so that a batch is sent when no further request can join it.

A row is in progress from its begin to its end, and blocked while a call of it waits for something
that other rows, or
a batch, must bring: a line of a batch, the budget, an identical call in flight. The run is quiet
when every row in progress is blocked and no other request is on its way. That is counted, not
timed. A row of which one call is blocked
and another one is about to be made counts as blocked: the other one then goes with the next batch.
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
    """Let a variable of the context have this value inside, in tasks that begin there, too."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


class Activity:
    """The rows in progress of one run, and which of them are blocked.

    Attributes:
        changes: how often that has changed.
        changed: set by each change.
        rows: the rows in progress.
        blocked: the blocked calls of each.
        requests: those that are on their way by themselves, of each.
    """

    def __init__(self) -> None:
        """Begin without a row."""
        self.changes, self.changed = 0, asyncio.Event()
        self.rows, self.blocked, self.requests = Counter[int](), Counter[int](), Counter[int]()

    @property
    def is_quiet(self) -> bool:
        """Whether every row in progress is blocked, and no request is on its way."""
        rows, blocked = self.rows, self.blocked
        return not self.requests and len(rows) <= len(blocked) and rows.keys() <= blocked.keys()

    def note(self) -> None:
        """Note a change."""
        self.changes += 1
        self.changed.set()


ACTIVITY: ContextVar[Activity | None] = ContextVar("activity", default=None)
"""Of the run, if its requests go into batches."""
_ROW: ContextVar[int] = ContextVar("row_in_progress", default=0)


def _count_row(select_counts: Callable[[Activity], Counter[int]]) -> AbstractContextManager[None]:
    """Count the row for the duration of the block, if the run's requests go into batches."""
    activity = ACTIVITY.get()
    return nullcontext() if activity is None else _count(activity, select_counts(activity))


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
"""Count a call of the row as blocked for the duration of the block."""
request_in_flight = partial(_count_row, lambda activity: activity.requests)
"""Count a request of the row that leaves by itself, or a look into the cache, for the duration of the block."""


@contextmanager
def row_in_progress(row: object) -> Iterator[None]:
    """Count a row as in progress for the duration of the block."""
    with bind_context(_ROW, id(row)), _count_row(lambda activity: activity.rows):
        yield


async def gather_results(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await calls at once; return their results in order.

    Raises:
        RunStop: one of them raised it, and the others have ended.
        EndpointError: one of them raised it, and the others have ended.
        BaseException: any other error of one of them, such as a fault in a judge; the others are
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
    """Tasks that go on by themselves, each until it has ended; the event loop alone holds them weakly."""

    def begin(self, work: Awaitable[object]) -> None:
        """Begin a task."""
        task = asyncio.ensure_future(work)
        self.add(task)
        task.add_done_callback(self.discard)


class _RunnerCancelled(Exception):
    """The caller that ran the call was cancelled; another one may run it."""


class SingleFlight(Generic[T]):
    """Runs one call for all callers that ask for the same key at the same time.

    They share a failure as well. If the caller that runs the call is cancelled, another one runs it
    anew.
    """

    def __init__(self) -> None:
        """Start with no call in flight."""
        self._in_flight: dict[Hashable, asyncio.Future[T]] = {}

    async def run(self, key: Hashable, call: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the answer of `call`, or of an identical one in flight.

        Returns:
            The answer, and whether it was another caller's.
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
    """Give a future an error, for which nobody may wait any more."""
    future.set_exception(error)
    future.exception()  # mark as retrieved
