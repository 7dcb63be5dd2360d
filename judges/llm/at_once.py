"""Calls that are made at once and end together.

`asyncio.gather` raises while the other calls go on. If that ends a run, as `EndpointOutage` does, the answers of the
others are paid for and recorded nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from judges.llm.errors import RunStop

T = TypeVar("T")


async def all_results(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await calls at once; return their results in order.

    Raises:
        BaseException: what one of them raised, when all have ended: a `RunStop` before other errors, otherwise the
            first in order.
    """
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    errors = [each for each in outcomes if isinstance(each, BaseException)]
    if errors:
        raise next((each for each in errors if isinstance(each, RunStop)), errors[0])
    return [each for each in outcomes if not isinstance(each, BaseException)]
