"""One question to a judge: where a judge's failure ends and a verdict begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from judges.core.judgment import CallRun, JudgeCall
from judges.llm.client import ChatClient
from judges.llm.errors import EndpointError
from judges.llm.wire import JSON, Choice, Message

ValueT = TypeVar("ValueT", bound="str | int | float")


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """Why no verdict could be read, for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Vote:
    """Which of several independent answers to one question is asked for.

    Attributes:
        number: from 0; part of the cache's key.
        temperature: instead of the judge's own.
        seed: of the sampling, for endpoints that take one.
    """

    number: int = 0
    temperature: float | None = None
    seed: int | None = None


async def ask(
    client: ChatClient,
    messages: Sequence[Message],
    parse: Callable[[str], ValueT | None],
    *,
    name: str,
    vote: Vote = Vote(),
) -> JudgeCall:
    """Ask a judge and read its verdict.

    Only an answer with a verdict is kept in the judgment cache.

    Args:
        client: the judge.
        messages: what it is shown.
        parse: reads the verdict from the judge's text.
        name: names the call among those of its judgment.
        vote: which of several independent answers to the same question this is.

    Returns:
        The call. Never raises `EndpointError`: a call that never succeeded is one with `failed` set.
    """
    return await ask_choice(client, messages, lambda choice: parse(choice.text), name=name, vote=vote)


async def ask_choice(
    client: ChatClient,
    messages: Sequence[Message],
    read: Callable[[Choice], ValueT | NoVerdict | None],
    *,
    name: str,
    vote: Vote = Vote(),
    extra: Mapping[str, JSON] | None = None,
) -> JudgeCall:
    """As `ask`, for a verdict that is read from more than the text, such as the tokens' probabilities.

    Args:
        client: the judge.
        messages: what it is shown.
        read: reads the verdict from the judge's choice; `NoVerdict` says why there is none.
        name: names the call among those of its judgment.
        vote: which of several independent answers to the same question this is.
        extra: further fields of the request.
    """

    def verdict(choice: Choice) -> ValueT | NoVerdict:
        # An answer that was cut off, by its length or by a filter, may end in a verdict that it only quotes.
        value = None if choice.state in ("length", "refusal") else read(choice)
        return NoVerdict(_why_no_verdict(choice)) if value is None else value

    try:
        answer = await client.chat(
            messages,
            temperature="default" if vote.temperature is None else vote.temperature,
            vote=vote.number,
            seed=vote.seed,
            extra=extra,
            keep=lambda choice: not isinstance(verdict(choice), NoVerdict),
        )
    except EndpointError as error:
        run = CallRun(attempts=error.attempts, usage=error.usage)
        return JudgeCall(name, "", None, None, f"the judge at {error}", run, True, not error.kind.retryable)
    choice = answer.first
    run = CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage)
    value = verdict(choice)
    if isinstance(value, NoVerdict):
        return JudgeCall(name, choice.text, choice.reasoning, None, value.reason, run)
    return JudgeCall(name, choice.text, choice.reasoning, value, None, run)


def _why_no_verdict(choice: Choice) -> str:
    if choice.state == "refusal":
        return f"the judge refused: {choice.refusal or 'content filter'}"
    if choice.state == "length":
        return "the judge's text was cut off at its longest length before a verdict"
    return "no verdict could be read in the judge's text"
