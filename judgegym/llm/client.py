"""The chat client: OpenAI-compatible `/chat/completions`, for judges and policies alike.

One HTTP session, one encoder, one HTTP retry layer and one concurrency limit for each client. A call returns an answer
or raises `EndpointError`; or a `RunStop`, if none may be sent any more. The caller decides what a refusal or an answer
that was cut off means (`Choice.state`).

Asks for an answer in a response format, or in words where the endpoint refuses the format.

Guarantees: the refusal of a format is no failure of the call; an answer in words is recorded and cached as the answer
to the conversation in words, never as one in the format; a resumed run takes from its ledger what it was answered in
either way, without a request.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Literal

import aiohttp

from judgegym.llm.at_once import SingleFlight
from judgegym.llm.budget import Budget
from judgegym.llm.cache import JudgmentCache, request_key
from judgegym.llm.choices import Choices
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import CallInProgress, RequestRecord, is_held
from judgegym.llm.outcome import is_usable
from judgegym.llm.response_format import RESPONSE_FORMAT, FormatHabits
from judgegym.llm.transport import Transport, open_session
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.usage import Meter
from judgegym.llm.wire import JSON, Choice, Message

logger = logging.getLogger(__name__)

__all__ = ["ChatClient", "ChatResponse", "ChatSettings", "open_session"]

Parameter = Literal["default"]


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
        budget: Budget | None = None,
    ) -> None:
        """Prepare the client; the session is opened by the first request.

        Args:
            settings: the model and how to call it.
            cache: where answers are stored; for judges only, since a policy's samples must be independent.
            session: a session to share with other clients.
            budget: what may be spent, which other clients may share; without one there is no limit.

        Raises:
            ValueError: `settings` names no endpoint.
            SettingsError: the budget is of dollars, and the model's price is not known.
        """
        if budget is not None:
            budget.check(settings)
        self.settings = settings
        self.meter = Meter()
        self._transport = Transport(settings, self.meter, session, budget)
        self._choices = Choices(self._transport, settings)
        self._flights: SingleFlight[ChatResponse] = SingleFlight()
        self._cache = cache
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
        return self._transport.presence.waiting or self._transport.breaker.waiting

    @property
    def away_for_s(self) -> float:
        """Seconds for which the model has refused connections; 0 if it does not."""
        return self._transport.presence.away_for_s

    def on_outage(self, told: Callable[[], None]) -> None:
        """Call `told` whenever the model begins to refuse connections, or to reject every request."""
        self._transport.presence.on_lost = self._transport.breaker.on_open = told

    @property
    def finish_reasons(self) -> Counter[str]:
        """How many choices ended with each finish reason, those that could not be used included."""
        return self._transport.finish_reasons

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

    async def use_up_rates(self) -> None:
        """Take all that is left of this minute's requests and tokens, which a process before this one may have used."""
        if self._transport.rates is not None:
            await self._transport.rates.use_up()

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
    ) -> ChatResponse:
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
            RunStop: no request, or no further attempt, may be made.
        """
        parameters = self._parameters(temperature, max_tokens, extra, seed)
        call = CallInProgress.begin(name, vote, self.settings.endpoints[0].model, messages, parameters)
        if unkeyed:
            parameters = {**parameters, **unkeyed}
        if n == 1 and not call.parts:
            cache = None if fresh else self._cache
            one = partial(self._one, messages, parameters, vote, cache, keep)
            answer = await call.ask(one, keep=keep, verdict_at=verdict_at)
        else:
            answer = await self._choices.several(call, messages, parameters, n, singly=singly)
        if logger.isEnabledFor(logging.DEBUG):
            endpoint = self.settings.endpoints[0]
            logger.debug("%s at %s was asked %r and answered %r", endpoint.model, endpoint.shown, messages, answer)
        return answer

    async def chat_each(
        self,
        messages: Sequence[Message],
        n: int,
        *,
        temperature: float | None | Parameter = "default",
        max_tokens: int | Parameter = "default",
        name: str = "",
    ) -> list[ChatResponse | EndpointError]:
        """Ask the model for `n` new completions that count each by itself: none fails because another does.

        Args:
            messages: the conversation.
            n: number of completions. An endpoint that ignores `n` is sent `n` requests at once.
            temperature: as in `chat`.
            max_tokens: as in `chat`.
            name: the component of the call in the run's ledger.

        Returns:
            For each completion an answer with one choice, or its error. A request for several counts for the first of
            them (usage, attempts); if it failed, all of them have the same error.

        Raises:
            RunStop: no request, or no further attempt, may be made.
        """
        parameters = self._parameters(temperature, max_tokens, None, None)
        call = CallInProgress.begin(name, 0, self.settings.endpoints[0].model, messages, parameters)
        return await self._choices.each(call, messages, parameters, n)

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
    ) -> ChatResponse:
        """Ask for one choice, in the cache and among the calls in flight before the model."""
        is_greedy = parameters.get("temperature") == 0
        if cache is None and not is_greedy:
            return await self._choices.one(messages, parameters, record)
        key = request_key(self._identity, messages, parameters, vote)
        if not is_greedy:
            return await self._cached_or_asked(cache, key, messages, parameters, record, keep)
        is_own = False

        async def ask() -> ChatResponse:
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
        return ChatResponse(answer.choices, latency_s=answer.latency_s, cached=True) if shared else answer

    async def _cached_or_asked(
        self,
        cache: JudgmentCache | None,
        key: str,
        messages: Sequence[Message],
        parameters: dict[str, JSON],
        record: RequestRecord,
        keep: Callable[[Choice], bool] | None,
    ) -> ChatResponse:
        """The answer from the cache, or else from the model; then it is stored if it is whole and `keep` allows."""
        if cache is None:
            return await self._choices.one(messages, parameters, record)

        def is_kept(choice: Choice) -> bool:
            is_whole = is_usable(choice, self.settings.finish_rules) and choice.state == "whole"
            return is_whole and (keep is None or keep(choice))

        row = await cache.get(key)
        if row.choice is not None and is_kept(row.choice):
            return ChatResponse((row.choice,), cached=True)
        answer = await self._choices.one(messages, parameters, record)
        if not is_kept(answer.first):
            return answer
        stored = await cache.put(key, answer.first, instead_of=row)
        if stored is answer.first or not is_kept(stored):
            return answer
        return dataclasses.replace(answer, choices=(stored,))  # another process was first: all have the same verdict


async def structured_chat(
    client: ChatClient,
    messages: Sequence[Message],
    response_format: Mapping[str, JSON],
    in_words: Sequence[Message],
    *,
    vote: int = 0,
    seed: int | None = None,
    extra: Mapping[str, JSON] | None = None,
    keep: Callable[[Choice], bool] | None = None,
    verdict_at: Callable[[Choice], tuple[int, int] | None] | None = None,
    name: str = "",
) -> ChatResponse:
    """Ask a model for one answer.

    Args:
        client: the client of the model.
        messages: the conversation, which describes the format.
        response_format: the format.
        in_words: the conversation without a format.
        vote: this and the others are those of `ChatClient.chat`.
        seed: the sampling seed.
        extra: further fields of the body.
        keep: whether a choice may be stored or taken.
        verdict_at: where a choice has what it was asked for.
        name: the component of the call.

    Raises:
        EndpointError: no attempt succeeded.
    """
    formatted = {**(extra or {}), RESPONSE_FORMAT: response_format}
    refused: EndpointError | None = None
    is_held = client.holds(messages, vote=vote, seed=seed, extra=formatted, name=name)
    if not is_held and client.holds(in_words, vote=vote, seed=seed, extra=extra, name=name):
        client.formats.note_earlier(client.settings.endpoints[0].shown)
    if is_held or client.formats.refusal is None:
        try:
            return await client.chat(
                messages, vote=vote, seed=seed, extra=formatted, keep=keep, verdict_at=verdict_at, name=name
            )
        except EndpointError as error:
            if not client.formats.may_be_refused_by(error):
                raise
            refused = error
    try:
        answer = await client.chat(
            in_words, vote=vote, seed=seed, extra=extra, keep=keep, verdict_at=verdict_at, name=name
        )
    except EndpointError as error:
        if refused is not None:
            error.attempts, error.usage = error.attempts + refused.attempts, error.usage + refused.usage
        raise
    if refused is None:
        return answer
    client.formats.note_accepted_without(refused)
    return dataclasses.replace(answer, attempts=answer.attempts + refused.attempts)
