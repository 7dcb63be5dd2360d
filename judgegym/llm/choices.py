"""The choices of a call, from one request or from several.

Guarantees: a call has exactly as many choices as were asked for, whether the endpoint takes `n`, ignores it or refuses
it; one that refuses a seed is asked without it. What an endpoint makes of both is found out once for a client. Where
each choice counts by itself (`each`), one that fails keeps its place among the others, also when a run is resumed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence

from judgegym.llm.errors import EndpointError, FailureKind, RunStop
from judgegym.llm.ledger import CallInProgress, RequestRecord
from judgegym.llm.transport import Transport, TransportResponse
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON, Message

logger = logging.getLogger(__name__)

_NAMES_N = re.compile(r"\bn\b")
"""An error about `n`, such as llama.cpp's "Field 'n': Value must be between 1 <= value <= 4", its number of slots."""


class Choices:
    """The choices that one model's endpoint gives."""

    def __init__(self, transport: Transport, settings: ChatSettings) -> None:
        """Ask by a transport, as the settings say of `n`."""
        self._transport = transport
        self._settings = settings
        self._n_is_ignored = settings.n_is_ignored
        self._seed_is_refused = False

    async def several(
        self, call: CallInProgress, messages: Sequence[Message], parameters: dict[str, JSON], n: int, *, singly: bool
    ) -> ChatResponse:
        """The `n` choices of a call: all in one request, then one request for each that is missing or unusable.

        Raises:
            EndpointError: a request did not succeed.
            RunStop: a request was not sent.
        """
        failures = await self._all(call, messages, parameters, n, singly=singly)
        if not failures:
            return _one_answer(call.answers, n)
        first, *others = (failures[part] for part in sorted(failures))
        spent: list[EndpointError | ChatResponse] = [*others, *call.answers]
        for other in spent:  # the call has cost what all its requests have cost
            first.usage += other.usage
            first.attempts += other.attempts
        raise first

    async def each(
        self, call: CallInProgress, messages: Sequence[Message], parameters: dict[str, JSON], n: int
    ) -> list[ChatResponse | EndpointError]:
        """The `n` choices of a call as `several` asks for them, each with an answer of its own or its error.

        Choices of one request cost what the first of them says; if that request failed, all have the same error.

        Raises:
            RunStop: a request was not sent.
        """
        try:
            failures = await self._all(call, messages, parameters, n, singly=n == 1)
        except EndpointError as error:
            return [error] * n
        found: list[ChatResponse | EndpointError] = []
        for part in sorted({*call.parts, *failures}):
            found += [failures[part]] if part in failures else _apart(call.parts[part])
        return found[:n]

    async def _all(
        self, call: CallInProgress, messages: Sequence[Message], parameters: dict[str, JSON], n: int, *, singly: bool
    ) -> Mapping[int, EndpointError]:
        """Ask for all choices; return the errors of requests for one of them, by the parts that these would have been.

        Raises:
            EndpointError: the request for all of them failed.
            RunStop: a request was not sent.
        """
        refused: EndpointError | None = None
        if not call.parts and not self._n_is_ignored and not singly:
            try:
                await call.ask(lambda record: self._together(messages, parameters, record, n))
            except EndpointError as error:
                if error.kind is not FailureKind.REJECTED or not _NAMES_N.search(error.answer):
                    raise
                refused = error
        missing = n - call.choices
        failures = await self._fan_out(call, messages, parameters, n, missing) if missing > 0 else {}
        if refused is not None and call.parts and not self._n_is_ignored:
            self._n_is_ignored = True  # only now: the message may have named it for another reason
            shown = self._settings.endpoints[0].shown
            logger.info("%s refuses n=%d (%s): each completion is asked for by itself", shown, n, refused.answer)
        return failures

    async def _together(
        self, messages: Sequence[Message], parameters: dict[str, JSON], record: RequestRecord, n: int
    ) -> ChatResponse:
        """Send one request for `n` choices; note if the endpoint takes that for one."""
        parameters = {**parameters, "n": n}
        if "seed" in parameters:
            reply = await self._seeded(messages, parameters, record)
        else:
            reply = await self._transport.request(messages, parameters, record)
        self._n_is_ignored = reply.received == 1
        return reply.answer

    async def one(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> ChatResponse:
        """Send one request for one choice; what an endpoint gives beyond that is left out."""
        if "seed" in parameters:
            answer = (await self._seeded(messages, parameters, record)).answer
        else:
            answer = (await self._transport.request(messages, parameters, record)).answer
        return answer if len(answer.choices) == 1 else dataclasses.replace(answer, choices=answer.choices[:1])

    async def _seeded(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> TransportResponse:
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
        try:
            reply = await self._transport.request(messages, without, record)
        except (EndpointError, RunStop) as error:
            error.attempts += refused.attempts
            raise
        self._seed_is_refused = True  # only now: "seed" may have been in the message for another reason
        logger.info("%s takes no seed: it is left out", self._settings.endpoints[0].shown)
        attempts = reply.answer.attempts + refused.attempts
        return TransportResponse(dataclasses.replace(reply.answer, attempts=attempts), reply.received)

    async def _fan_out(
        self, call: CallInProgress, messages: Sequence[Message], parameters: Mapping[str, JSON], n: int, missing: int
    ) -> Mapping[int, EndpointError]:
        """Send a request for each missing choice at once; return the errors of those that fail after their retries.

        Each has a seed of its own: the same request with the same seed is the same completion. The first `n` seeds are
        taken by a request for `n` choices, also those of choices that cannot be used.

        Raises:
            RunStop: one was not sent. The call has not failed: a resumed run asks for the rest.
        """
        first = n if call.parts else 0
        failures: dict[int, EndpointError] = {}

        async def send(record: RequestRecord) -> ChatResponse:
            try:
                seed = parameters.get("seed")
                own = {**parameters, "seed": seed + first + record.part} if isinstance(seed, int) else parameters
                return await self.one(messages, own, record)
            except EndpointError as error:
                failures[record.part] = error
                raise

        # Wait for all, so that none is in flight after the call has failed.
        outcomes = await asyncio.gather(*(call.ask(send) for _ in range(missing)), return_exceptions=True)
        others = [each for each in outcomes if isinstance(each, BaseException) and not isinstance(each, EndpointError)]
        if others:
            raise next((each for each in others if isinstance(each, RunStop)), others[0])
        return failures


def _apart(answer: ChatResponse) -> list[ChatResponse]:
    """An answer of several choices as one of each; the first has cost what all of them have."""
    first, *others = answer.choices
    paid = dataclasses.replace(answer, choices=(first,))
    return [paid, *(dataclasses.replace(paid, choices=(other,), usage=Usage(), attempts=0) for other in others)]


def _one_answer(answers: Sequence[ChatResponse], n: int) -> ChatResponse:
    """Answers to requests that ran at once, as one of `n` choices; its latency is the longest of theirs."""
    if len(answers) == 1 and len(answers[0].choices) == n:
        return answers[0]
    return ChatResponse(
        tuple(choice for answer in answers for choice in answer.choices)[:n],
        usage=sum((answer.usage for answer in answers), Usage()),
        latency_s=max(answer.latency_s for answer in answers),
        attempts=sum(answer.attempts for answer in answers),
        prompt_token_ids=answers[0].prompt_token_ids,
        prompt_tokens=answers[0].prompt_tokens,
    )
