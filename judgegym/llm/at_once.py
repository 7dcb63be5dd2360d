"""Calls that are made at once and end together.

`asyncio.gather` raises while the other calls go on. If that ends a run, as `EndpointOutage` does, the answers of the
others are paid for and recorded nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

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
