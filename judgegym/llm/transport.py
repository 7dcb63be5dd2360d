"""One request to a model with its retries: what an attempt waits for, the replica that it goes to, the retry loop.

An attempt waits for the budget, for a replica that is there, for the rate limits (requests and tokens a minute) and for
a slot of the concurrency limit, which adapts to the endpoint. `judgegym.llm.outcome` classifies its response,
`judgegym.llm.retry` says whether and when a failed attempt is made again.

Guarantees: an attempt holds a slot of the limit and, if there is a budget, a call of it; retries go before all first
attempts; whoever is refused or cancelled holds neither. Raised are `EndpointError`, a `RunStop` where no request may be
sent any more, and nothing else but what a ledger raises that cannot record the response (the disk stays full).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import aiohttp
from aiolimiter import AsyncLimiter

from judgegym.llm import wire
from judgegym.llm.budget import Budget
from judgegym.llm.connector import CheckedConnector, speaks_tls
from judgegym.llm.errors import EndpointError, FailureKind, RunStop
from judgegym.llm.ledger import RequestRecord
from judgegym.llm.outcome import (
    AttemptFailure,
    ChatSuccess,
    Outcome,
    PlainResponse,
    of_answer,
    of_exception,
    of_other_answer,
)
from judgegym.llm.reachability import ACCOUNT_STATUSES, CircuitBreaker, Reachability
from judgegym.llm.response_format import RESPONSE_FORMAT, FormatHabits, as_refused
from judgegym.llm.retry import RetryPolicy
from judgegym.llm.types import ChatResponse, ChatSettings, Replica, ReplicaSet
from judgegym.llm.urls import with_version
from judgegym.llm.usage import Meter, Usage, count_tokens
from judgegym.llm.wire import JSON, Message

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
        if self.in_flight + 1 > self._limit or self._this_turn >= _AT_ONCE:
            return False
        self.in_flight += 1
        self._this_turn += 1
        if self._this_turn == 1:
            asyncio.get_running_loop().call_soon(partial(self._admit, is_next_turn=True))
        return True


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
        has_format: the body has a response format.
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
    has_format: bool = False
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


_CONNECT_S = 30.0
_LONGEST_BODY = 128 * 1024 * 1024


def open_session() -> aiohttp.ClientSession:
    """An HTTP session for chat clients: no connection limit of its own, no cookies.

    Proxies of the environment are taken from each replica (`Replica.proxy`): with `trust_env` the session would look
    them up, and read `~/.netrc`, on a thread for every request.
    """
    return aiohttp.ClientSession(connector=CheckedConnector(), cookie_jar=aiohttp.DummyCookieJar())


class TransportResponse(NamedTuple):
    """The answer to one request, with the choices that may be used, and how many choices it had in all."""

    answer: ChatResponse
    received: int


class Transport:
    """Sends requests to the replicas of one model."""

    def __init__(
        self,
        settings: ChatSettings,
        meter: Meter,
        session: aiohttp.ClientSession | None,
        budget: Budget | None = None,
    ) -> None:
        """Prepare; the session is opened by the first request, unless one is passed in, which stays open."""
        self.settings = settings
        self.meter = meter
        self.limit = AdaptiveLimit(settings.max_concurrency)
        self.formats = FormatHabits()
        self._replicas = ReplicaSet(settings.endpoints, settings.finish_rules)
        self.presence = Reachability(
            self._replicas.replicas,
            title=settings.title,
            deadline_s=settings.away_deadline_s,
            setting=f"--{settings.section}endpoint_away_deadline",
            start_s=settings.start_deadline_s,
            start_setting=f"--{settings.section}wait_for_endpoints",
            url_setting=settings.url_setting,
        )
        self.breaker = CircuitBreaker(
            title=settings.title,
            names=", ".join(dict.fromkeys(endpoint.shown for endpoint in settings.endpoints)),
            deadline_s=settings.rejected_deadline_s,
            setting=f"--{settings.section}endpoint_rejected_deadline",
        )
        self._budget = budget
        self.rates = RateBudget.per_minute(settings.requests_per_minute, settings.tokens_per_minute)
        self._retries = RetryPolicy(settings.max_retries, settings.retry_delay_s, settings.deadline_s)
        self._timeout = _timeout(min(settings.timeout_s, settings.deadline_s))
        self._session = session
        self._owns_session = session is None

    @property
    def finish_reasons(self) -> Counter[str]:
        """How many choices of all replicas ended with each finish reason."""
        return sum((replica.habits.reasons for replica in self._replicas.replicas), Counter[str]())

    async def close(self) -> None:
        """End the probes, and close the session, if it is this transport's own."""
        await self.presence.close()
        await self.breaker.close()
        if self._owns_session and self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> TransportResponse:
        """Send one request, with its retries; `record` is told when it leaves.

        Raises:
            EndpointError: no attempt succeeded.
            RunStop: no attempt may be made any more.
        """
        call = PendingRequest(
            {"model": "", "messages": wire.messages_json(messages), **parameters},
            record,
            RESPONSE_FORMAT in parameters,
            budget=self._budget,
        )
        if self.rates is not None and self.rates.tokens is not None:
            call.tokens = self._expected_tokens(messages, parameters)
        try:
            outcome = await self._outcome(call)
        finally:
            self.meter.usage += call.paid
        assert isinstance(outcome, ChatSuccess)  # of a request without a path
        self.meter.answered += 1
        answer = ChatResponse(
            outcome.choices,
            call.paid,
            call.elapsed(),
            call.attempts,
            prompt_token_ids=outcome.prompt_token_ids,
            prompt_tokens=outcome.tokens.prompt,
        )
        return TransportResponse(answer, outcome.received)

    async def beside(self, path: str, body: Mapping[str, JSON] | None) -> JSON:
        """Send one request beside the API, with its retries: POST with a body, GET without; return the answer's JSON.

        Raises:
            EndpointError: no attempt succeeded.
        """
        sent = None if body is None else {"model": "", **body}
        outcome = await self._outcome(PendingRequest(sent, RequestRecord(), path=path))
        assert isinstance(outcome, PlainResponse)  # of a request with a path
        return outcome.body

    async def _outcome(self, call: PendingRequest) -> ChatSuccess | PlainResponse:
        """Make attempts until one is answered.

        Raises:
            EndpointError: none was.
            RunStop: none was, and no other may be made.
        """
        self.breaker.calls += 1
        try:
            while True:
                admitted = await self._admitted(call)
                replica = self._replicas.pick()
                attempt = self._attempt if call.budget is None else self._counted_attempt
                outcome = await attempt(replica, call, admitted)
                if not isinstance(outcome, AttemptFailure):
                    if call.has_format:
                        self.formats.taken_by.add(replica.habits.name)
                    self.breaker.answered(admitted)
                    return outcome
                await self._pause(replica, call, as_refused(outcome) if call.has_format else outcome, admitted)
        except (EndpointError, RunStop) as error:
            error.attempts, error.usage = call.attempts, call.paid
            raise
        finally:
            self.breaker.calls -= 1
            self.breaker.settle()

    async def _admitted(self, call: PendingRequest) -> float:
        """Wait for the budget, a replica that is there, the rates and a slot; retries go before all first attempts.

        Returns:
            The time of admission (monotonic clock).

        Raises:
            EndpointError: the deadline passed while a retry waited; it is the failure of the attempt before. Or the
                model has been away for too long, or refuses what the request has.
            RunStop: no request may be sent any more.
        """
        is_retry = call.failure is not None
        while True:
            if call.budget is not None:
                call.away += await call.budget.ready()
            if not self.presence.is_any_there:
                call.away += await self.presence.wait()
            if not self.breaker.is_closed and not call.is_probe:
                began = time.monotonic()
                call.is_probe = await self.breaker.ready()
                call.away += time.monotonic() - began
            if self.rates is not None:
                await self.rates.spend(call.tokens, urgent=is_retry)
            admitted = await self.limit.acquire(urgent=is_retry)
            if not (self.presence.is_any_there and (self.breaker.is_closed or call.is_probe)):
                self.limit.release()  # it has gone away in the meantime
                continue
            try:
                if call.has_format and self.formats.refusal is not None:  # of another call, while this one waited
                    raise self.formats.refusal.of_another_call()
                waited = 0.0 if call.record.row is None else await call.record.row.ready()
                if not is_retry:
                    call.started, call.away = admitted, 0.0
                    if (told := ON_ADMISSION.get()) is not None:
                        told()
                call.away += waited
                if call.failure is not None and call.elapsed() >= self.settings.deadline_s:
                    raise call.failure
            except BaseException:  # re-raised; nothing is sent
                self.limit.release()
                raise
            if call.budget is None or call.budget.take():
                return admitted
            self.limit.release()  # the budget was spent in the meantime

    async def _pause(self, replica: Replica, call: PendingRequest, outcome: AttemptFailure, admitted: float) -> None:
        """Pause between a failed attempt and the next one.

        Raises:
            EndpointError: there must be no other attempt.
            RunStop: there may be none any more.
        """
        failure = call.failure = _error(replica, outcome, call.body)
        if outcome.kind is FailureKind.AWAY:
            call.attempts -= 1  # nothing was sent
            call.record.stays()
            self.presence.lost(replica, failure)
            return
        if outcome.kind is FailureKind.REJECTED and self._rejects_account(replica, call, outcome):
            began, call.is_probe = time.monotonic(), False
            if await self.breaker.rejected(failure, admitted):
                call.is_probe = not self.breaker.is_closed
                call.away += time.monotonic() - began
                return
        call.broken += outcome.kind is FailureKind.BROKEN
        pause = self._retries.pause(failure, failures=call.attempts, broken=call.broken, elapsed=call.elapsed())
        if pause is None:
            raise failure
        if call.budget is not None:
            await call.budget.ready()  # before the pause: there may be no other attempt
        await asyncio.sleep(pause)

    def _rejects_account(self, replica: Replica, call: PendingRequest, outcome: AttemptFailure) -> bool:
        """Whether a rejected completion speaks of the account rather than of the request."""
        if call.path is not None or outcome.status not in ACCOUNT_STATUSES:
            return False
        # Some endpoints answer 404 to a form that they do not know.
        asks_for_form = call.has_format and replica.habits.name not in self.formats.taken_by
        return not (outcome.status == 404 and asks_for_form)

    async def _counted_attempt(self, replica: Replica, call: PendingRequest, admitted: float) -> Outcome:
        """Make one attempt that the budget has admitted. It is finished when it fails, or its answer is recorded."""
        assert call.budget is not None
        before = call.attempts
        try:
            outcome = await self._attempt(replica, call, admitted)
        except BaseException:  # re-raised; it was sent
            call.budget.finish()
            raise
        if not isinstance(outcome, AttemptFailure):
            call.record.finish = call.budget.finish
        elif outcome.kind is FailureKind.AWAY or call.attempts == before:
            call.budget.give_back()
        else:
            call.budget.finish()
        return outcome

    async def _attempt(self, replica: Replica, call: PendingRequest, admitted: float) -> Outcome:
        """Make one attempt in the slot that the call holds; report its outcome to the limit and the replica.

        Nothing is sent to a replica whose answers have shown that none will be usable.
        """
        if (refusal := replica.habits.refusal) is not None:
            self.limit.release()
            return refusal
        call.attempts += 1
        replica.in_flight += 1
        timeout = self._timeout
        if call.failure is not None:  # a retry has what is left of the deadline; aiohttp reads 0 as no time-out
            left = min(self.settings.timeout_s, self.settings.deadline_s - call.elapsed())
            timeout = _timeout(max(0.001, left))
        try:
            call.record.leaves()
            if self._session is None:
                self._session = open_session()
            body = None if call.body is None else wire.dumps({**call.body, "model": replica.endpoint.model})
            async with self._session.request(
                "GET" if body is None else "POST",
                replica.url if call.path is None else replica.endpoint.beside(call.path),
                data=body,
                headers=replica.headers,
                proxy=replica.proxy,
                timeout=timeout,
                allow_redirects=False,  # a redirected POST would lose its body
            ) as response:
                length = response.content_length
                if length is None or length > _LONGEST_BODY or "Content-Encoding" in response.headers:
                    data = await _bounded_body(response)
                else:
                    data = await response.read()
                retry_after = response.headers.get("Retry-After")
                if call.path is None:
                    location = response.headers.get("Location")
                    outcome = of_answer(response.status, data, retry_after, replica.habits, location=location)
                else:
                    outcome = of_other_answer(response.status, data, retry_after)
        except (aiohttp.ClientError, OSError, ValueError, asyncio.TimeoutError) as error:
            outcome = of_exception(error, timeout.total or 0.0)
            if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientResponseError) and await _needs_tls(
                replica
            ):
                outcome = AttemptFailure(
                    FailureKind.REJECTED, "none: the port speaks TLS, so its URL must begin with https://"
                )
        finally:
            replica.in_flight -= 1
            self.limit.release()
        if outcome.tokens is not None:
            tokens = outcome.tokens
            usage = self.settings.prices.usage(tokens.prompt, tokens.completion, tokens.cached)
            call.paid = usage if call.paid is NOTHING_PAID else call.paid + usage
            if call.budget is not None and (usage.cost is not None or not isinstance(outcome, AttemptFailure)):
                call.budget.pay(usage.cost)  # an error that counts no tokens has no price
        if not isinstance(outcome, AttemptFailure):
            self.limit.succeeded()
            replica.reached(succeeded=True)
        elif outcome.kind is not FailureKind.AWAY:
            replica.reached()
            if outcome.kind is FailureKind.BUSY:
                self.limit.overloaded(admitted)
            if outcome.kind is not FailureKind.REJECTED:
                replica.failed(outcome.retry_after, admitted)
        return outcome

    def _expected_tokens(self, messages: Sequence[Message], parameters: Mapping[str, JSON]) -> int:
        """Counted prompt tokens plus the mean of completion tokens so far; before there is one, `max_tokens`."""
        prompt = sum(count_tokens(message["content"]) for message in messages)
        longest = parameters.get("max_tokens")
        if self.meter.answered:
            return prompt + self.meter.usage.completion_tokens // self.meter.answered
        return prompt + (longest if isinstance(longest, int) else 0)


async def _needs_tls(replica: Replica) -> bool:
    """Whether a replica that has never answered is called without TLS, and speaks it; found out once."""
    if replica.habits.reasons or replica.was_tried_with_tls or replica.proxy is not None:
        return False
    replica.was_tried_with_tls = True
    return replica.url.startswith("http://") and await speaks_tls(replica.url)


def _timeout(total_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total_s, sock_connect=_CONNECT_S)


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer that has no length, or whose length is not that of the body.

    Raises:
        ClientPayloadError: it is longer than `_LONGEST_BODY`.
    """
    length = response.content_length
    if length is not None and length > _LONGEST_BODY:
        raise aiohttp.ClientPayloadError(f"a body of {length} bytes")
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > _LONGEST_BODY:
            raise aiohttp.ClientPayloadError(f"a body of more than {_LONGEST_BODY} bytes")
    return b"".join(parts)


def _error(replica: Replica, failed: AttemptFailure, body: Mapping[str, JSON] | None) -> EndpointError:
    """A failed attempt as an error, without secrets."""
    answer = wire.shorten(replica.redact(failed.answer, body))
    if failed.status in (404, 405) and (meant := with_version(replica.endpoint.base_url)) is not None:
        answer += f" (did you mean {meant}?)"
    return EndpointError(
        failed.kind,
        endpoint=replica.endpoint.shown,
        answer=answer,
        status=failed.status,
        retry_after=failed.retry_after,
    )
