"""Concurrency and rate limits, and everything else that an attempt waits for.

Guarantees: an attempt holds a slot of the concurrency limit and, if there is a budget, a
reservation; retries go before first attempts; a refused or cancelled attempt holds neither.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import partial

from aiolimiter import AsyncLimiter

from judgegym.llm.cost.budget import CALLER_BUDGET, Budget
from judgegym.llm.errors import FailureKind
from judgegym.llm.ledger import RequestRecord
from judgegym.llm.reachability import CircuitBreaker, Reachability
from judgegym.llm.refusals.request_fields import get_habits
from judgegym.llm.refusals.response_format import has_format
from judgegym.llm.responses.outcome import AttemptFailure, ChatSuccess, Outcome
from judgegym.llm.types import ChatSettings, Replica
from judgegym.llm.usage import Meter

_RECOVERY = 0.05  # share of the ceiling that one window of successes adds
_AT_ONCE = 2
"""Requests admitted per turn of the event loop.

A burst of all allowed requests would be on its way before the first response is read, even if that
asks to stop.
"""


class AdaptiveLimit:
    """A concurrency limit that adapts: additive increase, multiplicative decrease.

    It starts at its ceiling. An overload (429, 503) halves it, but only once for all requests that
    were in flight at the last halving; each window of successes adds five per cent of the ceiling.
    It never falls below one. Requests are admitted in order of arrival, except that urgent ones
    (retries, whose deadline is running) go first. A few are admitted per turn of the event loop, so
    that responses are read in between.
    """

    def __init__(self, ceiling: int, at_once: int = _AT_ONCE) -> None:
        """Start at `ceiling` requests, at least 1; admit `at_once` per turn of the event loop."""
        self.ceiling, self._at_once = ceiling, at_once
        self.in_flight = 0
        self._limit = float(ceiling)
        self._lowered_at = float("-inf")
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()
        self._this_turn = 0

    @property
    def limit(self) -> int:
        """The current concurrency limit."""
        return int(self._limit)

    async def acquire(self, *, urgent: bool = False) -> float:
        """Wait for a free slot and take it.

        Returns:
            The time of admission (monotonic clock), for `note_overload`.
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

    def note_success(self) -> None:
        """Report a response."""
        if self._limit < self.ceiling:
            step = max(1.0, _RECOVERY * self.ceiling) / self._limit
            self._limit = min(float(self.ceiling), self._limit + step)
            self._admit()

    def note_overload(self, admitted: float) -> None:
        """Report an overload, with the time when its request was admitted."""
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
        """Give free slots to the waiting requests."""
        if is_next_turn:
            self._this_turn = 0
        while waiting := self._urgent or self._others:
            if not waiting[0].done():
                if not self._take():
                    return
                waiting[0].set_result(None)
            waiting.popleft()

    def _take(self) -> bool:
        """Take a slot, if one is free in this turn of the event loop; return whether it was."""
        if self.in_flight + 1 > self._limit or self._this_turn >= self._at_once:
            return False
        self.in_flight += 1
        self._this_turn += 1
        if self._this_turn == 1:
            asyncio.get_running_loop().call_soon(partial(self._admit, is_next_turn=True))
        return True


class RateBudget:
    """Rate limits: requests and tokens a minute; `None` for no limit.

    Both are leaky buckets with the capacity of one minute (aiolimiter), as the large providers
    count. Requests wait one at a time, in order of arrival, except that urgent ones (retries) go
    first.
    """

    def __init__(self, requests: int | None, tokens: int | None) -> None:
        """Start with a full minute of both; 0 is no limit."""
        self.requests = AsyncLimiter(requests, 60.0) if requests else None
        self.tokens = AsyncLimiter(tokens, 60.0) if tokens else None
        self._next = AdaptiveLimit(1)

    async def use_up(self) -> None:
        """Take all that is left of this minute, which another process may have used."""
        for limiter in (self.requests, self.tokens):
            if limiter is not None:
                await limiter.acquire(limiter.max_rate)

    async def spend(self, tokens: int, *, urgent: bool = False) -> None:
        """Wait until a request of this many tokens fits; at most a whole minute's tokens."""
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


ON_ADMISSION: ContextVar[Callable[[], None] | None] = ContextVar("on_admission", default=None)
"""Called when a call's first attempt is admitted.

Shared work may have several such calls.
"""
_MOST_IN_BATCHES = 10_000_000


class LimitedClient:
    """What an attempt of a client waits for, and what it costs; the base class of `Transport`.

    An attempt waits for the budget, a reachable replica, the rate limits and a slot, in this order.

    Attributes:
        settings: the model and how to call it.
        meter: totals of responses and cost.
        limit: the concurrency limit.
        rates: the rate limits.
        fields: the request fields that the endpoint accepts, as far as is known.
        formats: whether it accepts response formats.
        reachability: the replicas, and which of them are reachable.
        breaker: the circuit breaker for an endpoint that rejects every request.
    """

    def __init__(self, settings: ChatSettings, budget: Budget | None) -> None:
        """Start without requests; without a budget the cost is not limited."""
        self.settings, self._budget = settings, budget
        self.meter = Meter()
        self.limit = AdaptiveLimit(settings.max_concurrency)
        self.rates = RateBudget(settings.requests_per_minute, settings.tokens_per_minute)
        self._worst_settings = settings  # of the highest prices
        if (batch := settings.batch) is not None:
            self.limit, self.rates = (
                AdaptiveLimit(_MOST_IN_BATCHES, _MOST_IN_BATCHES),
                RateBudget(None, None),
            )
            if batch.is_live_after:
                self._worst_settings = replace(settings, prices=batch.live_prices)
        self.fields = get_habits(settings.endpoints)
        self.formats = self.fields.formats
        replicas = [Replica(endpoint, settings.finish_rules) for endpoint in settings.endpoints]
        self.reachability = Reachability(replicas, settings)
        self.breaker = CircuitBreaker(settings)

    async def _admit(self, call: RequestRecord) -> float:
        """Wait for the budget and then for a slot.

        Returns and raises as `_acquire_slot`; its wait does not count in the budget.
        """
        if (budget := self._find_budget(call)) is None:
            return await self._acquire_slot(call)
        call.worst = budget.worst_cost(call.body or {}, self._worst_settings)
        call.unreachable_s += await budget.reserve(call.worst, urgent=call.failure is not None)
        try:
            return await self._acquire_slot(call)
        except BaseException:  # re-raised; nothing is sent
            budget.give_back(call.worst)
            raise

    async def _acquire_slot(self, call: RequestRecord) -> float:
        """Wait for a reachable replica, the rate limits and a slot; retries go first.

        Returns:
            The time of admission (monotonic clock).

        Raises:
            EndpointError: the deadline passed while a retry waited (the error is that of the
                previous attempt), the model was unreachable for too long, or it refuses a field of
                the request.
            RunStop: no further request may be sent.
        """
        is_retry = call.failure is not None
        while True:
            if not self.reachability.is_any_reachable:
                call.unreachable_s += await self.reachability.wait()
            if not self.breaker.is_closed and not call.is_probe:
                began = time.monotonic()
                call.is_probe = await self.breaker.wait_ready()
                call.unreachable_s += time.monotonic() - began
            await self.rates.spend(call.tokens, urgent=is_retry)
            admitted = await self.limit.acquire(urgent=is_retry)
            if not (
                self.reachability.is_any_reachable and (self.breaker.is_closed or call.is_probe)
            ):
                self.limit.release()  # it has gone away in the meantime
                continue
            try:
                if self.formats.refusal is not None and has_format(
                    call.body
                ):  # of another call, while this one waited
                    raise self.formats.refusal.make_shared_error()
                if (
                    call.path is None
                    and (refusal := self.fields.earlier_refusal(call.body or {})) is not None
                ):
                    raise refusal
                waited = 0.0 if call.row is None else await call.row.ready()
                if not is_retry:
                    call.started, call.unreachable_s = admitted, 0.0
                    self.meter.on_queued(admitted - call.began)
                    if (callback := ON_ADMISSION.get()) is not None:
                        callback()
                call.unreachable_s += waited
                if call.failure is not None and call.elapsed() >= self.settings.deadline_s:
                    raise call.failure
            except BaseException:  # re-raised; nothing is sent
                self.limit.release()
                raise
            return admitted

    def _find_budget(self, call: RequestRecord) -> Budget | None:
        """Return the budget that a call counts in; only calls of policies and judges do."""
        if call.path is not None and call.read is None:
            return None
        budget = CALLER_BUDGET.get()
        if budget is not None and budget.within is self._budget:
            return budget
        return self._budget

    @staticmethod
    def _settle(
        budget: Budget,
        call: RequestRecord,
        outcome: Outcome | None,
        cost: float | None,
        *,
        is_line: bool,
    ) -> None:
        """Replace an attempt's reservation by its cost; end it, unless a response will be recorded.

        Args:
            budget: the budget that it counts in.
            call: the request.
            outcome: the attempt's outcome; `None` if it was cancelled in flight.
            cost: its cost; `None` if it is not known.
            is_line: whether it was a line of a batch, which is not billed without a response.
        """
        if isinstance(outcome, ChatSuccess):
            budget.pay(cost, call.worst)
            call.finish = budget.finish
        elif isinstance(outcome, AttemptFailure) and outcome.kind is FailureKind.UNREACHABLE:
            budget.give_back(call.worst)
        else:
            is_billed = True  # a response that broke off may cost as much as a whole one
            if isinstance(outcome, AttemptFailure):
                is_lost = outcome.status is None and not is_line
                is_billed = outcome.kind is FailureKind.BROKEN and (
                    is_lost or (outcome.status or 400) < 400
                )
            if cost is None:
                cost = call.worst if is_billed else 0.0
            budget.pay(cost, call.worst)
            budget.finish()
