"""One request to a model with its retries: replicas, concurrency limit, rate budgets and the retry loop.

Raises `EndpointError` and nothing else: each failure of an endpoint is classified here or in `judges.llm.retry`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aiohttp

from judges.llm import completion, retry, wire
from judges.llm.errors import EndpointError, FailureKind
from judges.llm.ledger import note_sent
from judges.llm.limits import AdaptiveLimit, RateBudget
from judges.llm.replicas import Replica, ReplicaSet
from judges.llm.retry import RetryPolicy
from judges.llm.tokens import count_tokens
from judges.llm.types import ChatAnswer, ChatSettings
from judges.llm.usage import Meter, Usage
from judges.llm.wire import JSON, Message


def open_session() -> aiohttp.ClientSession:
    """An HTTP session for chat clients: no connection limit of its own, no cookies.

    Proxies of the environment are taken from each replica (`Replica.proxy`): with `trust_env` the session would look
    them up, and read `~/.netrc`, on a thread for every request.
    """
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar())


@dataclass(slots=True)
class _Call:
    """One request, over all its attempts.

    Attributes:
        body: what is sent, but for the model's name at the replica.
        tokens: what it takes of the budget of tokens.
        attempts: requests sent.
        paid: the usage of all answers, empty ones too.
        started: when its first attempt was admitted (monotonic clock).
        waited: seconds that its retries waited for a slot or a rate budget.
    """

    body: dict[str, JSON]
    tokens: int
    attempts: int = 0
    paid: Usage = Usage()
    started: float = 0.0
    waited: float = 0.0

    def elapsed(self) -> float:
        """Seconds since the first attempt was admitted, without those spent waiting for admission: of the deadline."""
        return time.monotonic() - self.started - self.waited


class Transport:
    """Sends requests to the replicas of one model."""

    def __init__(self, settings: ChatSettings, meter: Meter, session: aiohttp.ClientSession | None) -> None:
        """Prepare; the session is opened by the first request, unless one is passed in, which stays open."""
        self.settings = settings
        self.meter = meter
        self.limit = AdaptiveLimit(settings.max_concurrency)
        self._replicas = ReplicaSet(settings.endpoints)
        self._budget = RateBudget.per_minute(settings.requests_per_minute, settings.tokens_per_minute)
        self._retries = RetryPolicy(settings.max_retries, settings.retry_delay_s, settings.deadline_s)
        self._session = session
        self._owns_session = session is None

    async def close(self) -> None:
        """Close the session, if it is this transport's own."""
        if self._owns_session and self._session is not None:
            await self._session.close()
            self._session = None

    async def request(self, messages: Sequence[Message], parameters: Mapping[str, JSON]) -> ChatAnswer:
        """Send one request, with its retries.

        Returns:
            The answer, with at least one choice.

        Raises:
            EndpointError: no attempt succeeded.
        """
        sent = [{"role": message["role"], "content": message["content"]} for message in messages]
        limits_tokens = self._budget is not None and self._budget.tokens is not None
        tokens = self._expected_tokens(messages, parameters) if limits_tokens else 0
        call = _Call({"model": "", "messages": sent, **parameters}, tokens)
        try:
            try:
                parsed = await self._attempt(call)
            except EndpointError as failure:
                parsed = await self._retry(call, failure)
        except EndpointError as error:
            error.attempts, error.usage = call.attempts, call.paid
            raise
        finally:
            self.meter.usage += call.paid
        self.meter.answered += 1
        return ChatAnswer(
            parsed.choices, call.paid, call.elapsed(), call.attempts, prompt_token_ids=parsed.prompt_token_ids
        )

    async def _retry(self, call: _Call, failure: EndpointError) -> completion.ChatCompletion:
        """Go on after the first attempt has failed, which counts as the first of the loop of attempts."""
        async for attempt in self._retries.retrying(call.elapsed):
            with attempt:
                if attempt.retry_state.attempt_number == 1:
                    raise failure
                return await self._attempt(call)
        raise AssertionError("the loop ends with an answer or an error")

    async def _attempt(self, call: _Call) -> completion.ChatCompletion:
        """Make one attempt under the limits, and report its outcome to the limit and the replica."""
        is_retry = call.attempts > 0
        call.attempts += 1
        asked = time.monotonic()
        if self._budget is not None:
            await self._budget.spend(call.tokens)
        admitted = await self.limit.acquire(urgent=is_retry)
        timeout_s = min(self.settings.timeout_s, self.settings.deadline_s)
        if is_retry:
            call.waited += admitted - asked
            timeout_s = min(timeout_s, self.settings.deadline_s - call.elapsed())
        else:
            call.started = admitted
        replica = self._replicas.pick()
        replica.in_flight += 1
        note_sent()
        try:
            parsed = await self._post(replica, call.body, max(0.001, timeout_s))  # aiohttp reads 0 as no time-out
        except EndpointError as error:
            if error.kind is FailureKind.OVERLOADED:
                self.limit.overloaded(admitted)
            if error.kind is not FailureKind.REJECTED:
                replica.failed(error.retry_after, admitted)
            raise
        else:
            self.limit.succeeded()
            replica.succeeded()
        finally:
            replica.in_flight -= 1
            self.limit.release()
        call.paid += self.settings.prices.usage(parsed.prompt_tokens, parsed.completion_tokens)
        # An empty answer is retried, and paid for all the same.
        if all(choice.state == "empty" for choice in parsed.choices):
            raise EndpointError(FailureKind.EMPTY, endpoint=replica.endpoint.shown, status=200, answer="empty content")
        return parsed

    async def _post(self, replica: Replica, body: dict[str, JSON], timeout_s: float) -> completion.ChatCompletion:
        endpoint = replica.endpoint
        if self._session is None:
            self._session = open_session()
        try:
            async with self._session.post(
                replica.url,
                data=wire.dumps({**body, "model": endpoint.model}),
                headers=replica.headers,
                proxy=replica.proxy,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                allow_redirects=False,  # a redirected POST would lose its body
            ) as response:
                status = response.status
                retry_after = response.headers.get("Retry-After")
                data = await response.read()
        except (aiohttp.ClientError, OSError, ValueError, asyncio.TimeoutError) as error:
            raise _unanswered(replica, error, timeout_s) from error
        if status >= 300:
            raise EndpointError(
                retry.classify_status(status),
                endpoint=endpoint.shown,
                status=status,
                answer=wire.shorten(replica.redact(wire.error_text(data))),
                retry_after=retry.retry_after_seconds(retry_after),
            )
        try:
            return completion.parse_completion(data)
        except completion.NotACompletion as error:
            answer = wire.shorten(replica.redact(str(error)))
            raise EndpointError(FailureKind.MALFORMED, endpoint=endpoint.shown, status=status, answer=answer) from error

    def _expected_tokens(self, messages: Sequence[Message], parameters: Mapping[str, JSON]) -> int:
        """Counted prompt tokens plus the mean of completion tokens so far; before there is one, `max_tokens`."""
        prompt = sum(count_tokens(message["content"]) for message in messages)
        longest = parameters.get("max_tokens")
        if self.meter.answered:
            return prompt + self.meter.usage.completion_tokens // self.meter.answered
        return prompt + (longest if isinstance(longest, int) else 0)


def _unanswered(replica: Replica, error: Exception, timeout_s: float) -> EndpointError:
    kind = retry.classify_exception(error)
    why = f"none within {timeout_s:g} s" if kind is FailureKind.TIMEOUT else f"none ({error or type(error).__name__})"
    return EndpointError(kind, endpoint=replica.endpoint.shown, answer=wire.shorten(replica.redact(why)))
