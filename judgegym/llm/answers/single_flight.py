"""Identical calls in flight at the same time share one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _RunnerCancelled(Exception):
    """The caller that ran the call was cancelled; another one may run it."""


class SingleFlight(Generic[T]):
    """Runs one call for all callers that ask for the same key at the same time.

    They share a failure as well. If the caller that runs the call is cancelled, another one runs it anew.
    """

    def __init__(self) -> None:
        """Start with no call in flight."""
        self._in_flight: dict[str, asyncio.Future[T]] = {}

    async def run(self, key: str, call: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The answer of `call`, or of an identical one in flight.

        Returns:
            The answer, and whether it was another caller's.
        """
        while (running := self._in_flight.get(key)) is not None:
            try:
                return await asyncio.shield(running), True
            except _RunnerCancelled:
                continue
        own: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = own
        try:
            answer = await call()
        except asyncio.CancelledError:
            _fail(own, _RunnerCancelled())
            raise
        except Exception as error:  # any error: it is passed to all who share the call, and raised
            _fail(own, error)
            raise
        else:
            own.set_result(answer)
            return answer, False
        finally:
            del self._in_flight[key]


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # mark as retrieved: there may be no other caller
