"""The calls of a simulated user, collected for the row in which they are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from judgegym.judges.core.judgment import CallRun

_CALLS: ContextVar[list[CallRun] | None] = ContextVar("user_calls", default=None)


@contextmanager
def user_calls() -> Iterator[list[CallRun]]:
    """Collect the calls of simulated users that are made inside, in tasks that begin there, too."""
    calls: list[CallRun] = []
    token = _CALLS.set(calls)
    try:
        yield calls
    finally:
        _CALLS.reset(token)
