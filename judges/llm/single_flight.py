"""Identical calls under way at once share one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Abandoned(Exception):
    """The caller that led a call was cancelled; another one may lead."""


class SingleFlight(Generic[T]):
    """Runs one call for all that ask for the same key at the same time.

    A failure is shared like an answer. If the caller that started the call is cancelled, another one takes over.
    """

    def __init__(self) -> None:
        """Start with nothing under way."""
        self._under_way: dict[str, asyncio.Future[T]] = {}

    async def run(self, key: str, call: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The answer of `call`, or of an identical one under way.

        Returns:
            The answer, and whether it was another caller's.
        """
        while (running := self._under_way.get(key)) is not None:
            try:
                return await asyncio.shield(running), True
            except _Abandoned:
                continue
        leading: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._under_way[key] = leading
        try:
            answer = await call()
        except asyncio.CancelledError:
            _fail(leading, _Abandoned())
            raise
        except Exception as error:  # not swallowed: handed to everyone who shares the call
            _fail(leading, error)
            raise
        else:
            leading.set_result(answer)
            return answer, False
        finally:
            del self._under_way[key]


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # marked as seen: there may be nobody else
