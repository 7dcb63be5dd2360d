"""Workers that end together, also where an endpoint answers no call any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TypeVar

from judgegym.llm.errors import EndpointOutage

T = TypeVar("T")


async def all_of(workers: Iterable[Coroutine[None, None, None]]) -> None:
    """Run workers to their end; if one raises, or we are cancelled, none is left running."""
    running = [asyncio.create_task(worker) for worker in workers]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class OutageGuard:
    """Ends a run whose endpoint answers no call: nothing further begins, and what is in progress ends by itself.

    So the answers of other endpoints, which are paid for, arrive and are recorded.
    """

    def __init__(self) -> None:
        """Begin without an outage."""
        self._outage: EndpointOutage | None = None

    @property
    def may_begin(self) -> bool:
        """Whether a further row may begin."""
        return self._outage is None

    async def run(self, work: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """Await `work()`; return `otherwise` if an endpoint's outage ends it."""
        try:
            return await work()
        except EndpointOutage as outage:
            self._outage = self._outage or outage
            return otherwise

    def check(self) -> None:
        """Raise `EndpointOutage` if there was one. Call it when all that was in progress has ended."""
        if self._outage is not None:
            raise self._outage
