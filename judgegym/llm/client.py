"""The chat client: OpenAI-compatible `/chat/completions`, for judges and policies.

Each client has one HTTP session, one encoder, one HTTP retry layer and one concurrency limit. A
call returns a response or raises `EndpointError`, or a `RunStop` if no further request may be sent.
The caller decides what a refusal or a cut-off completion means (`Choice.state`).

A response has exactly the requested number of choices, whether the endpoint accepts `n`, ignores it
or refuses it; a client finds that out once. If choices count separately (`chat_separately`), a
failed one keeps its index, also when a run is resumed.

`structured_chat` asks for a response format, or for text if the endpoint refuses the format.

Guarantees: the refusal of a format does not fail the call; a text response is recorded and cached
for the text conversation, never for the format; a resumed run finds either kind in its ledger,
without a request.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeAlias

import aiohttp

from judgegym.llm.at_once import SingleFlight, request_in_flight
from judgegym.llm.cache import (
    BYPASS_CACHE,
    JudgmentCache,
    offset_vote,
    request_key,
    request_shape,
)
from judgegym.llm.cost.budget import CALLER_BUDGET, Budget
from judgegym.llm.errors import EndpointError, FailureKind, RunStop, drop_traceback
from judgegym.llm.http.exchange import open_session
from judgegym.llm.ledger import CallInProgress, CallKey, RequestRecord, call_key, current_row
from judgegym.llm.refusals.response_format import RESPONSE_FORMAT
from judgegym.llm.responses.outcome import check_choice
from judgegym.llm.transport import Transport
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON, Choice, Message

logger = logging.getLogger(__name__)

__all__ = ["ChatClient", "ChatResponse", "ChatSettings", "open_session"]

Default = Literal["default"]
"""Stands for the value of the client's settings, since `None` means leaving a parameter out."""
Probe: TypeAlias = "Callable[[], Awaitable[ChatResponse | EndpointError]]"
_MENTIONS_N = re.compile(r"\bn\b")
"""Matches an error about `n`.

Such as llama.cpp's "Field 'n': Value must be between 1 <= value <= 4", its number of slots.
"""


class ChatClient(Transport):
    """Client of one model.

    Use as an async context manager, or call `close`. A session that is passed in is shared and
    stays open.
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
            cache: stores responses; for judges only, since a policy's samples must be independent.
            session: a session to share with other clients.
            budget: the budget, which clients may share; `None` for no limit.

        Raises:
            ValueError: `settings` names no endpoint.
            SettingsError: the budget limits dollars, and the model's price is not known.
        """
        if budget is not None:
            budget.check(settings)
        super().__init__(settings, session, budget)
        self._n_is_ignored = not self.api.takes_n
        self._flights: SingleFlight[ChatResponse] = SingleFlight()
        self._cache = cache
        first = settings.endpoints[0]
        self._model = first.model
        # Stands for the model in the cache's keys.
        self._model_identity = f"{settings.identity or first.base_url} {first.model}"
        self.custom_probe: Probe | None = None
        """Replaces the request of `probe` for models without completions, such as reward models."""

    async def __aenter__(self) -> ChatClient:
        """Return the client."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    def sibling(self, settings: ChatSettings) -> ChatClient:
        """Open a client of another model or with other settings.

        It shares cache, session, budget and meter with this client.

        It is closed with this client. Clients of the same endpoints share their limits, if these
        are the same, and what they know of the endpoints, if they accept the same finish reasons.

        Raises:
            SettingsError: the budget limits dollars, and the model's price is not known.
        """
        new_client = ChatClient(
            settings, cache=self._cache, session=self.exchange.shared, budget=self._budget
        )
        new_client.meter = self.meter
        for client in (self, *self.siblings):
            if (
                client.settings.endpoints != settings.endpoints
                or client.settings.limits != settings.limits
            ):
                continue
            new_client.limit, new_client.rates = client.limit, client.rates
            # What a client learned of the endpoint holds only under its own finish reasons.
            if client.settings.finish_rules.accepted == settings.finish_rules.accepted:
                new_client.reachability, new_client.breaker = client.reachability, client.breaker
                break
        if self.breaker.on_open is not None:
            new_client.subscribe_outage(self.breaker.on_open)
        self.siblings.append(new_client)
        return new_client

    async def probe(self) -> ChatResponse | EndpointError:
        """Ask for a completion of one token; return the error if the model gives none.

        A thinking model may refuse such a low limit: then the limit of its settings is used.
        """
        if self.custom_probe is not None:
            return await self.custom_probe()
        messages = [Message(role="user", content="Answer with one word: are you there?")]
        for longest in (1, self.settings.max_tokens):
            try:
                return await self.chat(
                    messages,
                    max_tokens=longest,
                    extra=self.api.probe_fields,
                    fresh=True,
                    name="probe",
                )
            except EndpointError as error:
                drop_traceback(error)
                failed = error
                if error.status not in (400, 422):
                    break
            except RunStop as error:
                drop_traceback(error)
                return EndpointError(
                    FailureKind.REJECTED, endpoint=self.settings.display_name, answer=str(error)
                )
        return failed

    def has_recorded_response(
        self,
        messages: Sequence[Message],
        *,
        temperature: float | None | Default = "default",
        max_tokens: int | Default = "default",
        vote: int = 0,
        seed: int | None = None,
        extra: Mapping[str, JSON] | None = None,
        name: str = "",
    ) -> bool:
        """Return whether the row's ledger has a recorded response to this call of `chat`."""
        row = current_row()
        parameters = self._parameters(temperature, max_tokens, extra, seed)
        key = call_key(name, vote, self._model, messages, parameters)
        return row is not None and row.holds(key)

    def rescale(self, share: float) -> None:
        """Set the concurrency limit to a share (0 to 1) of the settings' limit, at least one."""
        self.limit.rescale(max(1, int(self.settings.max_concurrency * share)))

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        n: int = 1,
        temperature: float | None | Default = "default",
        max_tokens: int | Default = "default",
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
            vote: index of this sample among several independent ones; calls with different indices
                never share a response.
            seed: sampling seed; left out once the endpoint has refused it.
            extra: further fields of the body; they override the settings' `extra_body`.
            keep: tells whether a whole choice may be stored in the cache or taken from it, and
                whether a resumed run may reuse it although its row failed; by default all choices
                may.
            verdict_at: returns the span of the verdict in a choice's text, for the ledger.
            fresh: bypass the cache. At temperature 0 the call still shares the response of an
                identical call in flight.
            singly: send `n` requests for `n` choices, even if the endpoint accepts `n`.
            unkeyed: further fields of the body that are not part of the ledger's key, since they do
                not affect sampling.
            name: the component of the call in the run's ledger.

        Returns:
            A response with exactly `n` choices; the recorded one, if the row's ledger has it.

        Raises:
            EndpointError: no attempt succeeded.
            RunStop: no further request or attempt may be made.
        """
        parameters = self._parameters(temperature, max_tokens, extra, seed)
        call = CallInProgress.begin(name, vote, self._model, messages, parameters)
        call_identity = call.identity
        if unkeyed:
            parameters = {**parameters, **unkeyed}
            call_identity = dataclasses.replace(call_identity, parameters=parameters)
        if n == 1 and not call.parts:
            cache = None if fresh else self._cache
            send = partial(self.request, messages, parameters)
            is_greedy = parameters.get("temperature") == 0
            ask_one = partial(self._ask_one, send, call_identity, cache, keep, is_greedy)
            response = await call.ask(ask_one, keep=keep, verdict_at=verdict_at)
        else:
            failures = await self._ask_all(call, messages, parameters, n, singly=singly)
            if failures:
                first, *others = (failures[part] for part in sorted(failures))
                outcomes: list[EndpointError | ChatResponse] = [*others, *call.responses]
                for outcome in outcomes:  # the call has cost what all its requests have cost
                    first.usage += outcome.usage
                    first.attempts += outcome.attempts
                raise first
            response = _join_responses(call.responses, n)
        if logger.isEnabledFor(logging.DEBUG):
            endpoint = self.settings.endpoints[0]
            logger.debug(
                "%s at %s was asked %r and answered %r",
                endpoint.model,
                endpoint.redacted_url,
                messages,
                response,
            )
        return response

    async def call_other_api(
        self,
        send: Callable[[RequestRecord], Awaitable[ChatResponse]],
        messages: Sequence[Message],
        parameters: Mapping[str, JSON],
        *,
        keep: Callable[[Choice], bool],
        name: str,
    ) -> ChatResponse:
        """Make a judge's call outside the chat API.

        Ledger, cache and deduplication work as in `chat`.

        Args:
            send: sends the request (`request`), or shares another call's request.
            messages: what the model reads.
            parameters: everything else that determines the response; it must be the same for
                identical calls.
            keep: as in `chat`.
            name: as in `chat`.

        Raises:
            EndpointError: no attempt succeeded.
            RunStop: no further request or attempt may be made.
        """
        call = CallInProgress.begin(name, 0, self._model, messages, parameters)
        return await call.ask(
            partial(self._ask_one, send, call.identity, self._cache, keep, True), keep=keep
        )

    async def chat_separately(
        self,
        messages: Sequence[Message],
        n: int,
        *,
        temperature: float | None | Default = "default",
        max_tokens: int | Default = "default",
        name: str = "",
    ) -> list[ChatResponse | EndpointError]:
        """Ask the model for `n` new completions; if one fails, the others still count.

        Args:
            messages: the conversation.
            n: number of completions. An endpoint that ignores `n` is sent `n` requests at once.
            temperature: as in `chat`.
            max_tokens: as in `chat`.
            name: the component of the call in the run's ledger.

        Returns:
            For each completion a response with one choice, or its error. The first completion of a
            request carries its usage and attempts. If a request failed, all its completions have
            the same error.

        Raises:
            RunStop: no further request or attempt may be made.
        """
        parameters = self._parameters(temperature, max_tokens, None, None)
        call = CallInProgress.begin(name, 0, self._model, messages, parameters)
        try:
            failures = await self._ask_all(call, messages, parameters, n, singly=n == 1)
        except EndpointError as error:
            return [error] * n
        responses: list[ChatResponse | EndpointError] = []
        for part in sorted({*call.parts, *failures}):
            responses += [failures[part]] if part in failures else _split_choices(call.parts[part])
        return responses[:n]

    def _parameters(
        self,
        temperature: float | None | Default,
        max_tokens: int | Default,
        extra: Mapping[str, JSON] | None,
        seed: int | None,
    ) -> dict[str, JSON]:
        settings, parameters = self.settings, dict[str, JSON]()
        if not self.api.takes_sampling:
            return {**settings.extra_body, **(extra or {})}
        chosen = settings.temperature if temperature == "default" else temperature
        if chosen is not None:
            parameters["temperature"] = chosen
        longest = settings.max_tokens if max_tokens == "default" else max_tokens
        if longest:
            parameters["max_tokens"] = longest
        seeds = {} if seed is None else {"seed": offset_vote(seed)}
        return {**parameters, **settings.extra_body, **(extra or {}), **seeds}

    async def _ask_all(
        self,
        call: CallInProgress,
        messages: Sequence[Message],
        parameters: Mapping[str, JSON],
        n: int,
        *,
        singly: bool,
    ) -> Mapping[int, EndpointError]:
        """Ask for all choices in one request, then singly for each missing or unusable one.

        Each request is a part of the call; parts are numbered in the order of sending.

        Returns:
            The errors of single requests, by the number of the missing part.

        Raises:
            EndpointError: the request for all choices failed.
            RunStop: a request was not sent. The call has not failed: a resumed run asks for the
                missing choices.
        """
        refused: EndpointError | None = None

        async def ask_together(record: RequestRecord) -> ChatResponse:
            response = await self.request(messages, {**parameters, "n": n}, record)
            self._n_is_ignored = record.received == 1
            return response

        if (
            not call.parts
            and not self._n_is_ignored
            and not singly
            and "n" not in self.fields.refused
        ):
            try:
                await call.ask(ask_together)
            except EndpointError as error:
                if error.kind is not FailureKind.REJECTED or not _MENTIONS_N.search(error.answer):
                    raise
                refused = error
                self.fields.note("n", error, is_sure=False)
        # The first `n` seeds are taken by a request for `n` choices, also those of choices that
        # cannot be used.
        num_used_seeds = n if call.parts else 0
        failures: dict[int, EndpointError] = {}
        seed = parameters.get("seed")

        async def ask_one(record: RequestRecord) -> ChatResponse:
            # A seed of its own: the same request with the same seed is the same completion.
            fields = {**parameters}
            if isinstance(seed, int):
                fields["seed"] = seed + num_used_seeds + record.part
            try:
                return _keep_first(await self.request(messages, fields, record))
            except EndpointError as error:
                failures[record.part] = error
                raise

        # Wait for all, so that none is in flight after the call has failed.
        requests = (call.ask(ask_one) for _ in range(n - call.choices))
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        others = [error for error in errors if not isinstance(error, EndpointError)]
        if others:
            raise next((failure for failure in others if isinstance(failure, RunStop)), others[0])
        if refused is not None and not call.parts:
            # Single requests failed, too, so `n` was not the reason of the refusal.
            self.fields.forget(("n",))
        elif "n" in self.fields.refused and n > 1 and not singly:
            self.fields.confirm("n", refused, self.settings.endpoints[0].redacted_url)
            self.changed.add("n")  # reported in `notices`
        return failures

    async def _ask_one(
        self,
        send: Callable[[RequestRecord], Awaitable[ChatResponse]],
        call_identity: CallKey,
        cache: JudgmentCache | None,
        keep: Callable[[Choice], bool] | None,
        is_greedy: bool,
        record: RequestRecord,
    ) -> ChatResponse:
        """Ask for one choice: from the cache, from a call in flight, or from the model."""
        if BYPASS_CACHE.get():
            cache = None
        if cache is None and not is_greedy:
            return _keep_first(await send(record))
        shape = request_shape(
            self._model_identity,
            call_identity.messages,
            call_identity.parameters,
            offset_vote(call_identity.vote),
        )
        is_own = False

        def is_kept(choice: Choice) -> bool:
            is_whole = choice.state == "whole" and not isinstance(
                check_choice(choice, self.settings.finish_rules), str
            )
            return is_whole and (keep is None or keep(choice))

        async def ask() -> ChatResponse:
            """Take the choice from the cache, or ask the model and store it."""
            nonlocal is_own
            is_own = True
            if cache is None:
                return _keep_first(await send(record))
            key = request_key(shape)
            with request_in_flight():
                row = await cache.get(key)
            if row.choice is not None and is_kept(row.choice):
                return ChatResponse((row.choice,), cached=True)
            fresh_response = _keep_first(await send(record))
            if not is_kept(fresh_response.first):
                return fresh_response
            with request_in_flight():
                stored = await cache.put(key, fresh_response.first, previous=row)
            if stored is fresh_response.first or not is_kept(stored):
                return fresh_response
            return dataclasses.replace(
                fresh_response, choices=(stored,)
            )  # another process was first: all have one verdict

        if not is_greedy:
            return await ask()
        try:
            # The cache is read within the flight: another flight may end between reading it and
            # starting one.
            payer = CALLER_BUDGET.get()  # nobody is refused because another's budget is spent
            response, shared = await self._flights.run((shape, id(payer)), ask)
        except EndpointError as error:
            if is_own:
                raise
            raise error.make_shared_error() from error
        if shared:
            return ChatResponse(response.choices, latency_s=response.latency_s, cached=True)
        return response


def _keep_first(response: ChatResponse) -> ChatResponse:
    """Return the response with its first choice only."""
    if len(response.choices) == 1:
        return response
    return dataclasses.replace(response, choices=response.choices[:1])


def _split_choices(response: ChatResponse) -> list[ChatResponse]:
    """Split a response into one per choice; the first carries the cost."""
    first, *others = response.choices
    paid = dataclasses.replace(response, choices=(first,))
    return [
        paid,
        *(
            dataclasses.replace(paid, choices=(choice,), usage=Usage(), attempts=0)
            for choice in others
        ),
    ]


def _join_responses(responses: Sequence[ChatResponse], n: int) -> ChatResponse:
    """Join concurrent responses into one of `n` choices; its latency is the longest of theirs."""
    if len(responses) == 1 and len(responses[0].choices) == n:
        return responses[0]
    choices: list[Choice] = []
    for response in responses:
        choices += response.choices
    return ChatResponse(
        tuple(choices[:n]),
        usage=sum((response.usage for response in responses), Usage()),
        latency_s=max(response.latency_s for response in responses),
        attempts=sum(response.attempts for response in responses),
        prompt_token_ids=responses[0].prompt_token_ids,
        prompt_tokens=responses[0].prompt_tokens,
    )


async def structured_chat(
    client: ChatClient,
    messages: Sequence[Message],
    response_format: Mapping[str, JSON],
    text_messages: Sequence[Message],
    *,
    extra: Mapping[str, JSON] | None = None,
    **options: Any,
) -> ChatResponse:
    """Ask a model for one response in a response format, or as text if the format is refused.

    Args:
        client: the client of the model.
        messages: the conversation, with a description of the format.
        response_format: the response format.
        text_messages: the conversation that asks for text.
        extra: further fields of the body.
        options: further arguments of `ChatClient.chat`, such as `vote`, `seed` and `name`.

    Raises:
        EndpointError: no attempt succeeded.
    """
    key = {name: value for name, value in options.items() if name in ("vote", "seed", "name")}
    formatted = {**(extra or {}), RESPONSE_FORMAT: response_format}
    refusal: EndpointError | None = None
    is_recorded = client.has_recorded_response(messages, extra=formatted, **key)
    if not is_recorded and client.has_recorded_response(text_messages, extra=extra, **key):
        client.formats.note_earlier(client.settings.endpoints[0].redacted_url)
    if is_recorded or client.formats.refusal is None:
        try:
            return await client.chat(messages, extra=formatted, **options)
        except EndpointError as error:
            if not client.formats.may_be_refused_by(error):
                raise
            refusal = error
    try:
        response = await client.chat(text_messages, extra=extra, **options)
    except EndpointError as error:
        if refusal is not None:
            error.attempts += refusal.attempts
            error.usage += refusal.usage
        raise
    client.changed.add(RESPONSE_FORMAT)
    if refusal is None:
        return response
    client.formats.note_accepted_without(refusal)
    return dataclasses.replace(
        response,
        attempts=response.attempts + refusal.attempts,
        usage=response.usage + refusal.usage,
    )
