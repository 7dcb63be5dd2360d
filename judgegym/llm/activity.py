"""What the rows of a run wait for, so that a batch is sent when no further request can join it.

A row is in progress from its begin to its end, and blocked while a call of it waits for something that other rows, or
a batch, must bring: a line of a batch, the budget, an identical call in flight. The run is quiet when every row in
progress is blocked and no other request is on its way. That is counted, not timed. A row of which one call is blocked
and another one is about to be made counts as blocked: the other one then goes with the next batch.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Activity:
    """The rows in progress of one run, and which of them are blocked.

    Attributes:
        changes: how often that has changed.
        changed: set by each change.
    """

    def __init__(self) -> None:
        """Begin without a row."""
        self.changes = 0
        self.changed = asyncio.Event()
        self._rows, self._blocked = Counter[int](), Counter[int]()
        self._requests = Counter[int]()

    @property
    def is_quiet(self) -> bool:
        """Whether every row in progress is blocked, and no request is on its way."""
        rows, blocked = self._rows, self._blocked
        return not self._requests and len(rows) <= len(blocked) and rows.keys() <= blocked.keys()

    def note(self) -> None:
        """Note a change."""
        self.changes += 1
        self.changed.set()

    @contextmanager
    def counted(self, counts: Counter[int], key: int) -> Iterator[None]:
        """Count `key` for the duration of the block."""
        counts[key] += 1
        self.note()
        try:
            yield
        finally:
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
            self.note()


ACTIVITY: ContextVar[Activity | None] = ContextVar("activity", default=None)
"""Of the run, if its requests go into batches."""
_ROW: ContextVar[int] = ContextVar("row_in_progress", default=0)


@contextmanager
def row_in_progress(row: object) -> Iterator[None]:
    """Count a row as in progress for the duration of the block."""
    activity = ACTIVITY.get()
    if activity is None:
        yield
        return
    token = _ROW.set(id(row))
    try:
        with activity.counted(activity._rows, id(row)):
            yield
    finally:
        _ROW.reset(token)


@contextmanager
def blocked() -> Iterator[None]:
    """Count the row as blocked for the duration of the block."""
    activity = ACTIVITY.get()
    if activity is None:
        yield
        return
    with activity.counted(activity._blocked, _ROW.get()):
        yield


@contextmanager
def on_its_way() -> Iterator[None]:
    """Count a request that leaves by itself, or a look into the cache, for the duration of the block."""
    activity = ACTIVITY.get()
    if activity is None:
        yield
        return
    with activity.counted(activity._requests, 0):
        yield
