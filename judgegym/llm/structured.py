"""Asks for an answer in a response format, or in words where the endpoint refuses the format.

Guarantees: the refusal of a format is no failure of the call; an answer in words is recorded and cached as the answer
to the conversation in words, never as one in the format; a resumed run takes from its ledger what it was answered in
either way, without a request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError
from judgegym.llm.response_format import RESPONSE_FORMAT
from judgegym.llm.types import ChatResponse
from judgegym.llm.wire import JSON, Choice, Message


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
