"""Calls that are made at once and end together.

`asyncio.gather` raises while the other calls go on. If that ends a run, as `EndpointOutage` does, the answers of the
others are paid for and recorded nowhere.

Identical calls in flight at the same time share one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from judgegym.llm.activity import blocked
from judgegym.llm.errors import EndpointError, RunStop

T = TypeVar("T")


async def all_results(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await calls at once; return their results in order.

    Raises:
        RunStop: one of them raised it, and the others have ended.
        EndpointError: one of them raised it, and the others have ended.
        BaseException: any other error of one of them, such as a fault in a judge; the others are cancelled.
    """
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except (EndpointError, RunStop):
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        if stops := [each for each in ended if isinstance(each, RunStop)]:
            raise stops[0] from None
        raise
    except BaseException:  # a fault, or the caller is cancelled: none may be left running
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


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
                with blocked():
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
