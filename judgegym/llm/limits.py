"""Limits of one endpoint: requests in flight (adaptive), and requests and tokens a minute.

The admission of requests: what each attempt waits for before it is sent.

Guarantees: an attempt holds a slot of the limit and, if there is a budget, a call of it; retries go before all first
attempts; whoever is refused or cancelled holds neither.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from aiolimiter import AsyncLimiter

from judgegym.llm.breaker import CircuitBreaker
from judgegym.llm.budget import Budget
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import RequestRecord
from judgegym.llm.presence import Reachability
from judgegym.llm.response_format import FormatHabits
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON

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

    def __init__(self, ceiling: int) -> None:
        """Start at `ceiling` requests, at least 1."""
        self.ceiling = ceiling
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
        if self._has_room and not self._urgent and (urgent or not self._others):
            self._take()
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

    def _admit(self) -> None:
        while (waiting := self._urgent or self._others) and self._has_room:
            slot = waiting.popleft()
            if not slot.done():
                self._take()
                slot.set_result(None)

    @property
    def _has_room(self) -> bool:
        return self.in_flight + 1 <= self._limit and self._this_turn < _AT_ONCE

    def _take(self) -> None:
        self.in_flight += 1
        self._this_turn += 1
        if self._this_turn == 1:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._this_turn = 0
        self._admit()


@dataclass(frozen=True, slots=True)
class RateBudget:
    """Requests and tokens a minute; `None` where there is no such limit, and no budget at all without either.

    Both are leaky buckets with the capacity of one minute (aiolimiter), which is how the large providers count. One
    request at a time waits for them, in order of arrival, except that urgent ones (retries) go first.
    """

    requests: AsyncLimiter | None = None
    tokens: AsyncLimiter | None = None
    _next: AdaptiveLimit = field(default_factory=lambda: AdaptiveLimit(1))

    @classmethod
    def per_minute(cls, requests: int | None, tokens: int | None) -> RateBudget | None:
        """The budget for this many requests and tokens a minute; `None` if neither is limited."""
        if not requests and not tokens:
            return None
        return cls(
            AsyncLimiter(requests, 60.0) if requests else None,
            AsyncLimiter(tokens, 60.0) if tokens else None,
        )

    async def use_up(self) -> None:
        """Take all that is left of this minute, where another process may have used it."""
        for limiter in (self.requests, self.tokens):
            if limiter is not None:
                await limiter.acquire(limiter.max_rate)

    async def spend(self, tokens: int, *, urgent: bool = False) -> None:
        """Wait until a request of this many tokens fits; one of more than a minute's tokens takes the whole minute."""
        await self._next.acquire(urgent=urgent)
        try:
            if self.requests is not None:
                await self.requests.acquire()
            if self.tokens is not None:
                await self.tokens.acquire(min(float(tokens), self.tokens.max_rate))
        finally:
            self._next.release()


NOTHING_PAID = Usage()

ON_ADMISSION: ContextVar[Callable[[], None] | None] = ContextVar("on_admission", default=None)
"""Called when the first attempt of a call is admitted, of which there may be several for what waits for them."""


@dataclass(slots=True)
class PendingRequest:
    """One request, over all its attempts.

    Attributes:
        body: what is sent, but for the model's name at the replica; without one, the request is a GET.
        record: of the request in a ledger.
        path: beside the API; `None` for chat completions.
        budget: what its attempts are counted in.
        tokens: what it takes of the tokens a minute.
        attempts: requests sent.
        broken: those that count against `max_retries`.
        paid: the usage of all answers, unusable ones too.
        started: when its first attempt was admitted (monotonic clock).
        away: seconds that it waited since for a model that was away, or until its answer could be recorded.
        failure: of the attempt before; `None` before the first one.
        is_probe: it is sent although the circuit breaker is open.
    """

    body: dict[str, JSON] | None
    record: RequestRecord
    path: str | None = None
    budget: Budget | None = None
    tokens: int = 0
    attempts: int = 0
    broken: int = 0
    paid: Usage = NOTHING_PAID
    started: float = 0.0
    away: float = 0.0
    failure: EndpointError | None = None
    is_probe: bool = False

    def elapsed(self) -> float:
        """Seconds of the deadline: since the first attempt was admitted, without those in which the model was away."""
        return time.monotonic() - self.started - self.away


class RequestGate:
    """What the attempts of all requests to one model wait for."""

    def __init__(
        self,
        limit: AdaptiveLimit,
        rates: RateBudget | None,
        presence: Reachability,
        breaker: CircuitBreaker,
        formats: FormatHabits,
        *,
        deadline_s: float,
    ) -> None:
        """Admit attempts.

        Args:
            limit: on requests in flight.
            rates: requests and tokens a minute; `None` without a limit.
            presence: whether a replica is there.
            breaker: whether the account is rejected.
            formats: which formats of answers the model refuses.
            deadline_s: of a request with its retries, in seconds since its first attempt was admitted.
        """
        self._limit, self._rates = limit, rates
        self._presence, self._breaker, self._formats = presence, breaker, formats
        self._deadline_s = deadline_s

    async def admitted(self, call: PendingRequest) -> float:
        """Wait for the budget, a replica that is there, the rates and a slot; retries go before all first attempts.

        Returns:
            The time of admission (monotonic clock).

        Raises:
            EndpointError: the deadline passed while a retry waited; it is the failure of the attempt before. Or the
                model has been away for too long, or refuses what the request has.
            RunStop: no request may be sent any more.
        """
        while True:
            admitted = await self._in_slot(call)
            if call.budget is None or call.budget.take():
                return admitted
            self._limit.release()  # the budget was spent in the meantime

    async def _in_slot(self, call: PendingRequest) -> float:
        """Wait for all of that but the budget, which is only waited for while it is spent; see `admitted`."""
        is_retry = call.failure is not None
        while True:
            if call.budget is not None:
                call.away += await call.budget.ready()
            if not self._presence.is_any_there:
                call.away += await self._presence.wait()
            if not self._breaker.is_closed and not call.is_probe:
                began = time.monotonic()
                call.is_probe = await self._breaker.ready()
                call.away += time.monotonic() - began
            if self._rates is not None:
                await self._rates.spend(call.tokens, urgent=is_retry)
            admitted = await self._limit.acquire(urgent=is_retry)
            if self._presence.is_any_there and (self._breaker.is_closed or call.is_probe):
                break
            self._limit.release()  # it has gone away in the meantime
        try:
            self._formats.check(call.body)  # another call may have been refused while this one waited
            waited = 0.0 if call.record.call is None else await call.record.call.ready()
        except BaseException:  # re-raised; nothing is sent
            self._limit.release()
            raise
        if call.failure is None:
            call.started, call.away = admitted, 0.0
            if (told := ON_ADMISSION.get()) is not None:
                told()
        call.away += waited
        if call.failure is not None and call.elapsed() >= self._deadline_s:
            self._limit.release()
            raise call.failure
        return admitted
