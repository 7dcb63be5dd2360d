"""How many calls run at once, and how fast they are started."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass

from aiolimiter import AsyncLimiter

_RECOVERY = 0.05  # share of the ceiling that one window of successes wins back


class AdaptiveLimit:
    """A limit on calls in flight that follows what the endpoint bears.

    It starts at its ceiling. An overload (429, 503) halves it, once for all calls that were already in flight at the
    last halving; each window of successes wins back five per cent of the ceiling. Never below one. Fair: first come,
    first served, but for urgent calls (retries, whose deadline is running), which go first.
    """

    def __init__(self, ceiling: int) -> None:
        """Start at the ceiling, a number of calls ≥ 1."""
        self.ceiling = ceiling
        self.in_flight = 0
        self._limit = float(ceiling)
        self._lowered_at = float("-inf")
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return int(self._limit)

    async def acquire(self, *, urgent: bool = False) -> float:
        """Wait for a place and take it.

        Returns:
            The time of admission (monotonic clock), for `overloaded`.
        """
        if self.in_flight < self.limit and not self._urgent and (urgent or not self._others):
            self.in_flight += 1
            return time.monotonic()
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._others).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release()  # the place was given just as we left
            raise
        return time.monotonic()

    def release(self) -> None:
        """Give the place back."""
        self.in_flight -= 1
        self._admit()

    def succeeded(self) -> None:
        """Tell of an answer."""
        if self._limit < self.ceiling:
            step = max(1.0, _RECOVERY * self.ceiling) / self._limit
            self._limit = min(float(self.ceiling), self._limit + step)
            self._admit()

    def overloaded(self, admitted: float) -> None:
        """Tell of an overload, met by a call that was admitted at that time."""
        if admitted > self._lowered_at:
            self._limit = max(1.0, self._limit / 2)
            self._lowered_at = time.monotonic()

    def rescale(self, ceiling: int) -> None:
        """Move the ceiling; the limit keeps its share of it."""
        if ceiling != self.ceiling:
            self._limit = max(1.0, self._limit * ceiling / self.ceiling)
            self.ceiling = ceiling
            self._admit()

    def _admit(self) -> None:
        while (waiting := self._urgent or self._others) and self.in_flight < self.limit:
            place = waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)


@dataclass(frozen=True, slots=True)
class RateBudget:
    """Requests and tokens a minute; `None` where there is no such limit.

    Both are leaky buckets that hold one minute's worth (aiolimiter), which is how the large providers count.
    """

    requests: AsyncLimiter | None = None
    tokens: AsyncLimiter | None = None

    @classmethod
    def per_minute(cls, requests: int | None, tokens: int | None) -> RateBudget:
        """Budgets of so many requests and tokens a minute."""
        return cls(
            AsyncLimiter(requests, 60.0) if requests else None,
            AsyncLimiter(tokens, 60.0) if tokens else None,
        )

    async def spend(self, tokens: int) -> None:
        """Wait until one request of so many tokens fits; one larger than a whole minute's tokens takes all of them."""
        if self.requests is not None:
            await self.requests.acquire()
        if self.tokens is not None:
            await self.tokens.acquire(min(float(tokens), self.tokens.max_rate))
