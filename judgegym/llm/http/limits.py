"""How many requests may be in flight at once, how many requests and tokens a minute, and what an attempt waits for.

Guarantees: an attempt holds a slot of the limit and, if there is a budget, its share of that;
retries go before all first attempts; whoever is refused or cancelled holds neither.
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
"""Requests that are admitted in one turn of the event loop. A burst of all that are allowed would be on its way before
the first answer is read, also where that answer says to stop."""


class AdaptiveLimit:
    """A limit on requests in flight that adapts to the endpoint: additive increase, multiplicative decrease.

    It starts at its ceiling. An overload (429, 503) halves it, once for all requests that were in
    flight at the last halving; each window of successes adds five per cent of the ceiling. It never
    falls below one. Requests are admitted in order of arrival, except that urgent ones (retries,
    whose deadline is running) go first; a few in each turn of the event loop, so that answers are
    read between them.
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

    def note_success(self) -> None:
        """Report an answer."""
        if self._limit < self.ceiling:
            step = max(1.0, _RECOVERY * self.ceiling) / self._limit
            self._limit = min(float(self.ceiling), self._limit + step)
            self._admit()

    def note_overload(self, admitted: float) -> None:
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

    Both are leaky buckets with the capacity of one minute (aiolimiter), which is how the large
    providers count. One request at a time waits for them, in order of arrival, except that urgent
    ones (retries) go first.
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


ON_ADMISSION: ContextVar[Callable[[], None] | None] = ContextVar("on_admission", default=None)
"""Called when the first attempt of a call is admitted, of which there may be several for what waits for them."""
_MOST_IN_BATCHES = 10_000_000


class LimitedClient:
    """What an attempt of a client waits for, and what it has cost; the base of `Transport`.

    An attempt waits for the budget, for a replica that is there, for the rates and for a slot, in
    this order.

    Attributes:
        settings: the model and how to call it.
        meter: what was answered and paid for.
        limit: of the requests in flight.
        rates: requests and tokens a minute.
        fields: which fields of requests the model's endpoint takes, as far as is known.
        formats: whether it takes response formats.
        presence: its replicas, and which of them are there.
        breaker: whether it rejects every request.
    """

    def __init__(self, settings: ChatSettings, budget: Budget | None) -> None:
        """Begin with no request; without a budget there is no limit of what may be spent."""
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
        """Wait for the budget and then for a slot, which does not count for the budget; see `_acquire_slot`."""
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
        """Wait for a replica that is there, the rates and a slot; retries go before all first attempts.

        Returns:
            The time of admission (monotonic clock).

        Raises:
            EndpointError: the deadline passed while a retry waited; it is the failure of the
                attempt before. Or the model has been away for too long, or refuses what the request
                has.
            RunStop: no request may be sent any more.
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
        """What the attempts of a call are counted in: those of a policy or a judge are."""
        if call.path is not None and call.read is None:
            return None
        budget = CALLER_BUDGET.get()
        return budget if budget is not None and budget.within is self._budget else self._budget

    @staticmethod
    def _settle(
        budget: Budget,
        call: RequestRecord,
        outcome: Outcome | None,
        cost: float | None,
        *,
        is_line: bool,
    ) -> None:
        """Put the cost of an attempt in the place of its reservation; it ends, unless its answer is to be recorded.

        Args:
            budget: what it counts in.
            call: the request.
            outcome: of the attempt; `None` if it was cancelled on its way.
            cost: what it cost, as far as that is known.
            is_line: it was a line of a batch, which is not billed without a response.
        """
        if isinstance(outcome, ChatSuccess):
            budget.pay(cost, call.worst)
            call.finish = budget.finish
        elif isinstance(outcome, AttemptFailure) and outcome.kind is FailureKind.UNREACHABLE:
            budget.give_back(call.worst)
        else:
            is_billed = True  # what broke off on its way may cost as much as a whole answer, and an error costs nothing
            if isinstance(outcome, AttemptFailure):
                is_lost = outcome.status is None and not is_line
                is_billed = outcome.kind is FailureKind.BROKEN and (
                    is_lost or (outcome.status or 400) < 400
                )
            if cost is None:
                cost = call.worst if is_billed else 0.0
            budget.pay(cost, call.worst)
            budget.finish()
