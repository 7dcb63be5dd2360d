"""One question to a judge: where a judge's failure ends and a verdict begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from judges.client import ChatClient
from judges.errors import EndpointError
from judges.judgment import CallRun, JudgeCall
from judges.wire import Choice, Message

ValueT = TypeVar("ValueT", bound="str | int | float")


async def ask(
    client: ChatClient,
    messages: Sequence[Message],
    parse: Callable[[str], ValueT | None],
    *,
    purpose: str,
    vote: int = 0,
) -> JudgeCall:
    """Ask a judge and read its verdict.

    Only an answer with a verdict is kept in the judgment cache.

    Args:
        client: the judge.
        messages: what it is shown.
        parse: reads the verdict from the judge's text.
        purpose: names the call among those of its judgment.
        vote: which of several independent answers to the same question this is.

    Returns:
        The call. Never raises `EndpointError`: a call that never succeeded is one with `failed` set.
    """
    try:
        answer = await client.chat(messages, vote=vote, keep=lambda choice: _verdict(choice, parse) is not None)
    except EndpointError as error:
        run = CallRun(attempts=error.attempts, usage=error.usage)
        return JudgeCall(purpose, "", None, None, f"the judge at {error}", run, failed=True)
    choice = answer.first
    value = _verdict(choice, parse)
    run = CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage)
    error_text = None if value is not None else _why_no_verdict(choice)
    return JudgeCall(purpose, choice.text, choice.reasoning, value, error_text, run)


def _verdict(choice: Choice, parse: Callable[[str], ValueT | None]) -> ValueT | None:
    """The verdict of a whole answer. One that was cut off may end in a verdict that it only quotes."""
    return None if choice.state == "length" else parse(choice.text)


def _why_no_verdict(choice: Choice) -> str:
    if choice.state == "refusal":
        return f"the judge refused: {choice.refusal or 'content filter'}"
    if choice.state == "length":
        return "the judge's text was cut off at its longest length before a verdict"
    return "no verdict could be read in the judge's text"
