"""What the rows of a run wait for, so that a batch is sent when no further request can join it.

A row is in progress from its begin to its end, and blocked while a call of it waits for something that other rows, or
a batch, must bring: a line of a batch, the budget, an identical call in flight. The run is quiet when every row in
progress is blocked and no other request is on its way. That is counted, not timed. A row of which one call is blocked
and another one is about to be made counts as blocked: the other one then goes with the next batch.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial


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


@contextmanager
def _counted(counts_of: Callable[[Activity], Counter[int]]) -> Iterator[None]:
    """Count the row for the duration of the block."""
    if (activity := ACTIVITY.get()) is None:
        yield
        return
    counts, row = counts_of(activity), _ROW.get()
    counts[row] += 1
    activity.note()
    try:
        yield
    finally:
        counts[row] -= 1
        if not counts[row]:
            del counts[row]
        activity.note()


blocked = partial(_counted, lambda activity: activity.blocked)
"""Count a call of the row as blocked for the duration of the block."""
on_its_way = partial(_counted, lambda activity: activity.requests)
"""Count a request of the row that leaves by itself, or a look into the cache, for the duration of the block."""


@contextmanager
def row_in_progress(row: object) -> Iterator[None]:
    """Count a row as in progress for the duration of the block."""
    token = _ROW.set(id(row))
    try:
        with _counted(lambda activity: activity.rows):
            yield
    finally:
        _ROW.reset(token)
