"""The admission of requests: what each attempt waits for before it is sent.

Guarantees: an attempt holds a slot of the limit and, if there is a budget, a call of it; retries go before all first
attempts; whoever is refused or cancelled holds neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from judgegym.llm.breaker import CircuitBreaker
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import RequestRecord
from judgegym.llm.limits.budget import Budget
from judgegym.llm.limits.in_flight import AdaptiveLimit, RateBudget
from judgegym.llm.presence import Reachability
from judgegym.llm.response_format import FormatHabits
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON

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
