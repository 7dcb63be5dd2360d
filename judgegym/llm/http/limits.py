"""How many requests may be in flight at once, and how many requests and tokens a minute."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import partial

from aiolimiter import AsyncLimiter

_RECOVERY = 0.05  # share of the ceiling that one window of successes adds
_AT_ONCE = 2
"""Requests that are admitted in one turn of the event loop. A burst of all that are allowed would be on its way before
the first answer is read, also where that answer says to stop."""


class AdaptiveLimit:
    """A limit on requests in flight that adapts to the endpoint: additive increase, multiplicative decrease.

    It starts at its ceiling. An overload (429, 503) halves it, once for all requests that were in flight at the last
    halving; each window of successes adds five per cent of the ceiling. It never falls below one. Requests are admitted
    in order of arrival, except that urgent ones (retries, whose deadline is running) go first; a few in each turn of
    the event loop, so that answers are read between them.
    """

    def __init__(self, ceiling: int, at_once: int = _AT_ONCE) -> None:
        """Start at `ceiling` requests, at least 1, of which `at_once` may be admitted in one turn of the event loop."""
        self.ceiling, self._at_once = ceiling, at_once
        self.in_flight = 0
        self._limit = float(ceiling)
        self._lowered_at = float("-inf")
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()
        self._this_turn = 0

    @property
    def limit(self) -> int:
        """Requests that may be in flight now."""
        return int(self._limit)

    async def acquire(self, *, urgent: bool = False) -> float:
        """Wait for a free slot and take it.

        Returns:
            The time of admission (monotonic clock), to be passed to `overloaded`.
        """
        if not self._urgent and (urgent or not self._others) and self._take():
            return time.monotonic()
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._others).append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self.release()  # the slot was assigned while this task was being cancelled
            raise
        return time.monotonic()

    def release(self) -> None:
        """Free the slot."""
        self.in_flight -= 1
        if self._urgent or self._others:
            self._admit()

    def succeeded(self) -> None:
        """Report an answer."""
        if self._limit < self.ceiling:
            step = max(1.0, _RECOVERY * self.ceiling) / self._limit
            self._limit = min(float(self.ceiling), self._limit + step)
            self._admit()

    def overloaded(self, admitted: float) -> None:
        """Report an overload of a request that was admitted at that time."""
        if admitted > self._lowered_at:
            self._limit = max(1.0, self._limit / 2)
            self._lowered_at = time.monotonic()

    def rescale(self, ceiling: int) -> None:
        """Change the ceiling; the limit changes in proportion."""
        if ceiling != self.ceiling:
            self._limit = max(1.0, self._limit * ceiling / self.ceiling)
            self.ceiling = ceiling
            self._admit()

    def _admit(self, *, is_next_turn: bool = False) -> None:
        """Give slots to those who wait, as far as there are any."""
        if is_next_turn:
            self._this_turn = 0
        while waiting := self._urgent or self._others:
            if not waiting[0].done():
                if not self._take():
                    return
                waiting[0].set_result(None)
            waiting.popleft()

    def _take(self) -> bool:
        """Take a slot, if there is one in this turn of the event loop; return whether there was."""
        if self.in_flight + 1 > self._limit or self._this_turn >= self._at_once:
            return False
        self.in_flight += 1
        self._this_turn += 1
        if self._this_turn == 1:
            asyncio.get_running_loop().call_soon(partial(self._admit, is_next_turn=True))
        return True


class RateBudget:
    """Requests and tokens a minute; `None` where there is no such limit.

    Both are leaky buckets with the capacity of one minute (aiolimiter), which is how the large providers count. One
    request at a time waits for them, in order of arrival, except that urgent ones (retries) go first.
    """

    def __init__(self, requests: int | None, tokens: int | None) -> None:
        """Begin with a whole minute of both; 0 is no limit."""
        self.requests = AsyncLimiter(requests, 60.0) if requests else None
        self.tokens = AsyncLimiter(tokens, 60.0) if tokens else None
        self._next = AdaptiveLimit(1)

    async def use_up(self) -> None:
        """Take all that is left of this minute, where another process may have used it."""
        for limiter in (self.requests, self.tokens):
            if limiter is not None:
                await limiter.acquire(limiter.max_rate)

    async def spend(self, tokens: int, *, urgent: bool = False) -> None:
        """Wait until a request of this many tokens fits; one of more than a minute's tokens takes the whole minute."""
        if self.requests is None and self.tokens is None:
            return
        await self._next.acquire(urgent=urgent)
        try:
            if self.requests is not None:
                await self.requests.acquire()
            if self.tokens is not None:
                await self.tokens.acquire(min(float(tokens), self.tokens.max_rate))
        finally:
            self._next.release()
