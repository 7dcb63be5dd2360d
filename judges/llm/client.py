"""The chat client: OpenAI-compatible `/chat/completions`, for judges and policies alike.

One HTTP session, one encoder, one HTTP retry layer and one concurrency limit for each client. A call returns an answer
or raises `EndpointError`. The caller decides what a refusal or an answer that was cut off means (`Choice.state`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Literal

import aiohttp

from judges.llm.answers.cache import JudgmentCache, request_key
from judges.llm.answers.single_flight import SingleFlight
from judges.llm.errors import EndpointError, FailureKind
from judges.llm.ledger import OpenCall, RequestRecord, is_held
from judges.llm.outcome import is_usable
from judges.llm.response_format import FormatHabits
from judges.llm.transport import Reply, Transport, open_session
from judges.llm.types import ChatAnswer, ChatSettings
from judges.llm.usage import Meter, Usage
from judges.llm.wire import JSON, Choice, Message

logger = logging.getLogger(__name__)

__all__ = ["ChatAnswer", "ChatClient", "ChatSettings", "open_session"]

Parameter = Literal["default"]

_NAMES_N = re.compile(r"\bn\b")
"""An error about `n`, such as llama.cpp's "Field 'n': Value must be between 1 <= value <= 4", its number of slots."""


class ChatClient:
    """Calls one model.

    Use as an async context manager, or call `close`. A session that is passed in is shared and stays open.
    """

    def __init__(
        self,
        settings: ChatSettings,
        *,
        cache: JudgmentCache | None = None,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        """Prepare the client; the session is opened by the first request.

        Args:
            settings: the model and how to call it.
            cache: where answers are stored; for judges only, since a policy's samples must be independent.
            session: a session to share with other clients.

        Raises:
            ValueError: `settings` names no endpoint.
        """
        self.settings = settings
        self.meter = Meter()
        self._transport = Transport(settings, self.meter, session)
        self._flights: SingleFlight[ChatAnswer] = SingleFlight()
        self._cache = cache
        self._n_is_ignored = settings.n_is_ignored
        self._seed_is_refused = False
        first = settings.endpoints[0]
        self._identity = f"{settings.identity or first.base_url} {first.model}"

    async def __aenter__(self) -> ChatClient:
        """The client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close the session, if it is this client's own; calls in flight fail."""
        await self._transport.close()

    @property
    def waiting(self) -> str | None:
        """What all calls wait for, in one sentence, such as an endpoint that refuses connections; `None` otherwise."""
        return self._transport.presence.waiting

    @property
    def formats(self) -> FormatHabits:
        """Whether the model's endpoint takes response formats, as far as is known."""
        return self._transport.formats

    def holds(
        self,
        messages: Sequence[Message],
        *,
        temperature: float | None | Parameter = "default",
        max_tokens: int | Parameter = "default",
        vote: int = 0,
        seed: int | None = None,
        extra: Mapping[str, JSON] | None = None,
        name: str = "",
    ) -> bool:
        """Whether the ledger of the row's run has an answer to this call of `chat`, of an earlier run."""
        parameters = self._parameters(temperature, max_tokens, extra, seed)
        return is_held(name, vote, self.settings.endpoints[0].model, messages, parameters)

    def rescale(self, share: float) -> None:
        """Limit the requests in flight to a share (0 to 1) of the settings' concurrency, at least one."""
        self._transport.limit.rescale(max(1, int(self.settings.max_concurrency * share)))

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        n: int = 1,
        temperature: float | None | Parameter = "default",
        max_tokens: int | Parameter = "default",
        vote: int = 0,
        seed: int | None = None,
        extra: Mapping[str, JSON] | None = None,
        keep: Callable[[Choice], bool] | None = None,
        verdict_at: Callable[[Choice], tuple[int, int] | None] | None = None,
        fresh: bool = False,
        singly: bool = False,
        unkeyed: Mapping[str, JSON] | None = None,
        name: str = "",
    ) -> ChatAnswer:
        """Ask the model.

        Args:
            messages: the conversation.
            n: number of completions. An endpoint that ignores `n` is sent `n` requests at once.
            temperature: overrides the settings; `None` leaves it out.
            max_tokens: overrides the settings; 0 leaves it out.
            vote: index of this answer among several independent ones; calls with different votes never share an answer.
            seed: sampling seed; left out once the endpoint has refused it.
            extra: further fields of the body; they override the settings' `extra_body`.
            keep: whether a whole choice may be stored in the cache or taken from it, and whether a resumed run may take
                it from its ledger although its row failed; by default all may.
            verdict_at: from where to where in its text a choice has what it was asked for, which the ledger records.
            fresh: neither take the answer from the cache nor store it: it is a sample.
            singly: ask for `n` choices in `n` requests, also where the endpoint takes `n`.
            unkeyed: further fields of the body that change nothing of what is sampled: the run's ledger finds an answer
                whether or not they were sent.
            name: the component of the call in the run's ledger.

        Returns:
            The answer, with exactly `n` choices; as recorded, if the ledger of the row's run has it.

        Raises:
            EndpointError: no attempt succeeded.
        """
        parameters = self._parameters(temperature, max_tokens, extra, seed)
        call = OpenCall.begin(name, vote, self.settings.endpoints[0].model, messages, parameters)
        if unkeyed:
            parameters = {**parameters, **unkeyed}
        if n == 1 and not call.parts:
            cache = None if fresh else self._cache
            one = partial(self._one, messages, parameters, vote, cache, keep)
            answer = await call.ask(one, keep=keep, verdict_at=verdict_at)
        else:
            answer = await self._many(call, messages, parameters, n, singly=singly)
        if logger.isEnabledFor(logging.DEBUG):
            endpoint = self.settings.endpoints[0]
            logger.debug("%s at %s was asked %r and answered %r", endpoint.model, endpoint.shown, messages, answer)
        return answer

    async def beside(self, path: str, body: Mapping[str, JSON] | None = None) -> JSON:
        """Ask for something that a server has beside the API: POST with a body, GET without; limits and retries apply.

        Args:
            path: below the base URL without its version, such as `/tokenize`.
            body: the request's fields, but for the model's name.

        Returns:
            The answer's JSON. It is recorded in no ledger, since it is no completion.

        Raises:
            EndpointError: no attempt succeeded.
        """
        return await self._transport.beside(path, body)

    def _parameters(
        self,
        temperature: float | None | Parameter,
        max_tokens: int | Parameter,
        extra: Mapping[str, JSON] | None,
        seed: int | None,
    ) -> dict[str, JSON]:
        settings, parameters = self.settings, dict[str, JSON]()
        chosen = settings.temperature if temperature == "default" else temperature
        if chosen is not None:
            parameters["temperature"] = chosen
        longest = settings.max_tokens if max_tokens == "default" else max_tokens
        if longest:
            parameters["max_tokens"] = longest
        return {**parameters, **settings.extra_body, **(extra or {}), **({} if seed is None else {"seed": seed})}

    async def _one(
        self,
        messages: Sequence[Message],
        parameters: dict[str, JSON],
        vote: int,
        cache: JudgmentCache | None,
        keep: Callable[[Choice], bool] | None,
        record: RequestRecord,
    ) -> ChatAnswer:
        """Ask for one choice, in the cache and among the calls in flight before the model."""
        is_greedy = parameters.get("temperature") == 0
        if cache is None and not is_greedy:
            return await self._alone(messages, parameters, record)
        key = request_key(self._identity, messages, parameters, vote)
        if not is_greedy:
            return await self._cached_or_asked(cache, key, messages, parameters, record, keep)
        is_own = False

        async def ask() -> ChatAnswer:
            nonlocal is_own
            is_own = True
            # Read the cache within the flight: another flight may end between reading it and starting one.
            return await self._cached_or_asked(cache, key, messages, parameters, record, keep)

        try:
            answer, shared = await self._flights.run(key, ask)
        except EndpointError as error:
            if is_own:
                raise
            raise error.of_another_call() from error
        return ChatAnswer(answer.choices, latency_s=answer.latency_s, cached=True) if shared else answer

    async def _cached_or_asked(
        self,
        cache: JudgmentCache | None,
        key: str,
        messages: Sequence[Message],
        parameters: dict[str, JSON],
        record: RequestRecord,
        keep: Callable[[Choice], bool] | None,
    ) -> ChatAnswer:
        """The answer from the cache, or else from the model; then it is stored if it is whole and `keep` allows."""
        if cache is None:
            return await self._alone(messages, parameters, record)

        def is_kept(choice: Choice) -> bool:
            return is_usable(choice) and choice.state == "whole" and (keep is None or keep(choice))

        row = await cache.get(key)
        if row.choice is not None and is_kept(row.choice):
            return ChatAnswer((row.choice,), cached=True)
        answer = await self._alone(messages, parameters, record)
        if not is_kept(answer.first):
            return answer
        stored = await cache.put(key, answer.first, instead_of=row)
        if stored is answer.first or not is_kept(stored):
            return answer
        return dataclasses.replace(answer, choices=(stored,))  # another process was first: all have the same verdict

    async def _many(
        self, call: OpenCall, messages: Sequence[Message], parameters: dict[str, JSON], n: int, *, singly: bool
    ) -> ChatAnswer:
        """The `n` choices of a call: all in one request, then one request for each that is missing or unusable."""
        refused: EndpointError | None = None
        if not call.parts and not self._n_is_ignored and not singly:
            try:
                await call.ask(lambda record: self._several(messages, parameters, record, n))
            except EndpointError as error:
                if error.kind is not FailureKind.REJECTED or not _NAMES_N.search(error.answer):
                    raise
                refused = error
        missing = n - call.choices
        if missing > 0:
            await self._fan_out(call, messages, parameters, n, missing)
        if refused is not None and not self._n_is_ignored:
            self._n_is_ignored = True  # only now: the message may have named it for another reason
            shown = self.settings.endpoints[0].shown
            logger.info("%s refuses n=%d (%s): each completion is asked for by itself", shown, n, refused.answer)
        return _one_answer(call.answers, n)

    async def _several(
        self, messages: Sequence[Message], parameters: dict[str, JSON], record: RequestRecord, n: int
    ) -> ChatAnswer:
        """Send one request for `n` choices; note if the endpoint takes that for one."""
        parameters = {**parameters, "n": n}
        if "seed" in parameters:
            reply = await self._seeded(messages, parameters, record)
        else:
            reply = await self._transport.request(messages, parameters, record)
        self._n_is_ignored = reply.received == 1
        return reply.answer

    async def _alone(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> ChatAnswer:
        """Send one request for one choice; what an endpoint gives beyond that is left out."""
        if "seed" in parameters:
            answer = (await self._seeded(messages, parameters, record)).answer
        else:
            answer = (await self._transport.request(messages, parameters, record)).answer
        return answer if len(answer.choices) == 1 else dataclasses.replace(answer, choices=answer.choices[:1])

    async def _seeded(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> Reply:
        """Send one request with a seed. After an endpoint has refused one, send this and all later ones without it."""
        without = {name: value for name, value in parameters.items() if name != "seed"}
        if self._seed_is_refused:
            return await self._transport.request(messages, without, record)
        try:
            return await self._transport.request(messages, parameters, record)
        except EndpointError as error:
            if error.kind is not FailureKind.REJECTED or "seed" not in error.answer.lower():
                raise
            refused = error
        reply = await self._transport.request(messages, without, record)
        self._seed_is_refused = True  # only now: "seed" may have been in the message for another reason
        logger.info("%s takes no seed: it is left out", self.settings.endpoints[0].shown)
        attempts = reply.answer.attempts + refused.attempts
        return Reply(dataclasses.replace(reply.answer, attempts=attempts), reply.received)

    async def _fan_out(
        self, call: OpenCall, messages: Sequence[Message], parameters: Mapping[str, JSON], n: int, missing: int
    ) -> None:
        """Send a request for each missing choice at once; raise the first error of those that fail after their retries.

        Each has a seed of its own: the same request with the same seed is the same completion. The first `n` seeds are
        taken by a request for `n` choices, also those of choices that cannot be used.
        """
        first = n if call.parts else 0

        async def send(record: RequestRecord) -> ChatAnswer:
            return await self._alone(messages, _with_seed(parameters, first + record.part), record)

        # Wait for all, so that none is in flight after the call has failed.
        outcomes = await asyncio.gather(*(call.ask(send) for _ in range(missing)), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if not failures:
            return
        first_failure = failures[0]
        if isinstance(first_failure, EndpointError):  # the call has cost what all its requests have cost
            for other in (*failures[1:], *call.answers):
                if isinstance(other, EndpointError | ChatAnswer):
                    first_failure.usage += other.usage
                    first_failure.attempts += other.attempts
        raise first_failure


def _with_seed(parameters: Mapping[str, JSON], number: int) -> Mapping[str, JSON]:
    """The parameters of one of several requests: with a seed of its own, if they have one."""
    seed = parameters.get("seed")
    return {**parameters, "seed": seed + number} if isinstance(seed, int) else parameters


def _one_answer(answers: Sequence[ChatAnswer], n: int) -> ChatAnswer:
    """Answers to requests that ran at once, as one of `n` choices; its latency is the longest of theirs."""
    if len(answers) == 1 and len(answers[0].choices) == n:
        return answers[0]
    return ChatAnswer(
        tuple(choice for answer in answers for choice in answer.choices)[:n],
        usage=sum((answer.usage for answer in answers), Usage()),
        latency_s=max(answer.latency_s for answer in answers),
        attempts=sum(answer.attempts for answer in answers),
        prompt_token_ids=answers[0].prompt_token_ids,
        prompt_tokens=answers[0].prompt_tokens,
    )
