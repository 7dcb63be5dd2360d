"""Asks a judge one question and parses its answer.

Guarantees: an endpoint's failure returns a call without a value and raises nothing; an answer that
was cut off is not parsed; every other answer is parsed once, and the place of its verdict that the
ledger gets is that of this reading. Thinking in an answer is taken out of its text here, so that no
verdict, explanation or critique holds any.

Several independent votes on one question: requested at once, and again for each vote that has no
    verdict.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from judgegym.judges.core.images import attach_images, note_refusal
from judgegym.judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judgegym.judges.core.tasks import TaskError
from judgegym.judges.parsing.thinking import AddedMarkers, own_part
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictForm, VerdictParser
from judgegym.llm.at_once import gather_results
from judgegym.llm.client import ChatClient, structured_chat
from judgegym.llm.errors import EndpointError, RunStop, drop_traceback
from judgegym.llm.refusals.request_fields import refuses
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.wire import JSON, Choice, Message, is_blank

_EXCERPT_LENGTH = 100
"""Characters of a judge's text in the message that it has no verdict."""
MAX_VOTES = 99
"""The most votes on one question: settings and rows that ask for more are refused, since each vote is a paid call."""
ValueT = TypeVar("ValueT")
DetailT = TypeVar("DetailT")


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """The reason why no verdict could be read, for the judgment's explanation."""

    reason: str


@dataclass(frozen=True, slots=True)
class Vote:
    """Which of several independent answers to one question is requested.

    Attributes:
        number: from 0; part of the cache's key.
        seed: the sampling seed, for endpoints that take one.
    """

    number: int = 0
    seed: int | None = None


ONLY_VOTE = Vote()


async def ask(
    client: ChatClient,
    messages: Sequence[Message],
    read: VerdictParser[[], ValueT] | Callable[[Choice], ParsedVerdict[ValueT] | NoVerdict | None],
    *,
    name: str,
    vote: Vote = ONLY_VOTE,
    extra: Mapping[str, JSON] | None = None,
    form: VerdictForm | None = None,
    chat: Callable[..., Awaitable[ChatResponse]] | None = None,
) -> JudgeCall[ValueT]:
    """Ask a judge and parse the verdict in its answer. Only an answer with a verdict is kept in the judgment cache.

    Args:
        client: the client of the judge model.
        messages: the prompt.
        read: parses the verdict in the judge's text, or in its whole choice, for example with the
            tokens' probabilities; `NoVerdict` says why there is none.
        name: the name of the call, unique in its judgment.
        vote: which of several independent answers to the same question this is.
        extra: further fields of the request.
        form: the form that its answer is to have, if not that of the prompt alone. An endpoint that
            refuses a form is asked with the prompt alone.
        chat: sends the question, with the arguments of `ChatClient.chat` by name; by default as a
            chat completion.

    Returns:
        The call; `failed` is set if it never succeeded. Never raises `EndpointError`.

    Raises:
        RunStop: the endpoint refuses logprobs that the judge needs, or no request may be sent.
    """
    last: tuple[Choice, ParsedVerdict[ValueT] | NoVerdict] | None = None
    markers = client.settings.thinking_markers
    try:
        messages = await attach_images(messages, client)
    except TaskError as refusal:
        return JudgeCall(name, "", None, None, str(refusal), CallRun(), True, True)

    def parse_verdict(choice: Choice) -> ParsedVerdict[ValueT] | NoVerdict:
        """Return the verdict of a choice, parsed once for the cache, the ledger and the caller."""
        nonlocal last
        if last is None or last[0] is not choice:
            # An answer that was cut off, by the length limit or a filter, may end with a verdict
            # that it only quotes.
            is_whole = choice.state == "whole"
            parsed_verdict = _read(read, choice, markers) if is_whole else None
            last = choice, parsed_verdict or NoVerdict(_why_no_verdict(choice, client.settings))
        return last[1]

    chat = chat or partial(client.chat, messages)
    if form is not None:
        chat = partial(
            structured_chat, client, form.add_instructions(messages), form.response_format, messages
        )
    try:
        response = await chat(
            vote=vote.number,
            seed=vote.seed,
            extra=extra,
            keep=lambda choice: isinstance(parse_verdict(choice), ParsedVerdict),
            verdict_at=lambda choice: getattr(parse_verdict(choice), "at", None),
            name=name,
        )
    except EndpointError as error:
        if "logprobs" in (extra or {}) and refuses(error, "logprobs"):
            where = f"--{client.settings.section}weighting"
            raise RunStop(
                f"the judge at {error}; {where}=logprobs asks for logprobs: take another endpoint, "
                f"or {where}=none"
            ) from None
        drop_traceback(error)
        note_refusal(error, messages, client)
        run = CallRun(attempts=error.attempts, usage=error.usage)
        is_rejected = not error.kind.retryable
        return JudgeCall(
            name, "", None, None, f"the judge at {error}", run, True, is_rejected, cause=error.cause
        )
    choice = response.choices[0]
    run = CallRun(response.latency_s, response.attempts, response.cached, response.usage)
    result = parse_verdict(choice)
    final_choice = _move_thinking(choice, markers)
    if isinstance(result, NoVerdict):
        return JudgeCall(
            name,
            final_choice.text,
            final_choice.reasoning,
            None,
            result.reason,
            run,
            state=choice.state,
        )
    return JudgeCall(name, final_choice.text, final_choice.reasoning, result.value, None, run)


def _move_thinking(choice: Choice, added: AddedMarkers) -> Choice:
    """Return a judge's choice with the thinking in its text as its reasoning; the text is empty if that never ends."""
    parts = own_part(choice.text, added).parts
    if not parts.is_found:
        return choice
    reasoning = "\n\n".join(filter(None, (choice.reasoning, parts.thinking)))
    return replace(choice, text=choice.text[parts.start : parts.end], reasoning=reasoning)


def _read(
    read: VerdictParser[[], ValueT] | Callable[[Choice], ParsedVerdict[ValueT] | NoVerdict | None],
    choice: Choice,
    added: AddedMarkers,
) -> ParsedVerdict[ValueT] | NoVerdict | None:
    """Return the verdict in a choice behind its thinking, with its place in the whole text."""
    part = own_part(choice.text, added)
    start = part.parts.start
    # Whether a known marker in a later line begins thinking that never ends is asked by the
    # parsers, too.
    answer_part = (
        replace(choice, text=part.text if added else part.until_the_end)
        if start or added
        else choice
    )
    parsed = read.find(answer_part.text) if isinstance(read, VerdictParser) else read(answer_part)
    return parsed.shifted(start) if start and isinstance(parsed, ParsedVerdict) else parsed


async def ask_again(
    ask: Callable[[Sequence[Message], str], Awaitable[JudgeCall[ValueT]]],
    messages: Sequence[Message],
    name: str,
    repair: Callable[[Sequence[Message], JudgeCall[ValueT]], tuple[str, str]],
    *,
    at_most: int,
) -> list[JudgeCall[ValueT]]:
    """Ask, and ask again in the same conversation after each answer without a verdict.

    A failed call is not repeated, since the client has retried it: after an empty text there is no
    conversation. After nothing but thinking there is none either, and the same is asked once more.

    Args:
        ask: sends the conversation as a call of this name.
        messages: the prompt.
        name: of the first call; those of the others begin with it.
        repair: gives the judge's words as the conversation shows them, and the request to repair
            them.
        at_most: how many times the judge is asked again.
    """
    calls = [await ask(messages, name)]
    while calls[-1].value is None and len(calls) <= at_most:
        last = calls[-1]
        if last.text.strip():
            shown_text, request = repair(messages, last)
            messages = [
                *messages,
                Message(role="assistant", content=shown_text),
                Message(role="user", content=request),
            ]
        elif not last.reasoning or last.state != "whole":
            break
        calls.append(await ask(messages, f"{name}_reask_{len(calls)}"))
    return calls


def failed_judgment(
    calls: Sequence[JudgeCall[object]],
    *,
    explanation: str | None = None,
    detail: DetailT | None = None,
) -> Judgment[DetailT]:
    """The judgment of calls without a verdict, which has no score: failed if a call never succeeded, else unparsable.

    Args:
        calls: all calls of the judgment.
        explanation: why there is no verdict; by default the errors of the calls.
        detail: what the judge returned without a verdict, such as its texts.
    """
    status = Status.JUDGE_FAILED if any(call.failed for call in calls) else Status.UNPARSABLE
    reason = join_errors(calls) if explanation is None else explanation
    return Judgment(None, status, explanation=reason, calls=tuple(calls), detail=detail)


def join_errors(calls: Sequence[JudgeCall[object]]) -> str:
    """Return the errors of calls, each once."""
    return "; ".join(dict.fromkeys(call.error for call in calls if call.error is not None))


def _why_no_verdict(choice: Choice, settings: ChatSettings) -> str:
    if choice.state == "refused":
        return f"the judge refused: {choice.refusal or 'content filter'}"
    is_ended = own_part(choice.text, settings.thinking_markers).parts.is_ended
    if choice.state == "cut_off" and (is_blank(choice.text) or not is_ended):
        limit = f"{settings.limit_setting or 'max_tokens'}={settings.max_tokens}"
        return f"the judge's answer is empty: thinking used up its completion limit; raise {limit}"
    if choice.state == "cut_off":
        return "the judge's text was cut off at its longest length before a verdict"
    if not is_ended:
        return "the judge's thinking never ends, so that its text has no verdict"
    line = " ".join(choice.text[-_EXCERPT_LENGTH * 4 :].split())
    line = "".join(character if character.isprintable() else " " for character in line)
    excerpt = line if len(line) <= _EXCERPT_LENGTH else f"…{line[-_EXCERPT_LENGTH:]}"
    return f'no verdict could be read in the judge\'s text, which ends "{excerpt}"'


async def collect_votes(
    ask: Callable[[Vote], Awaitable[JudgeCall[ValueT]]],
    missing: Callable[[Sequence[JudgeCall[ValueT]]], int] | None = None,
    *,
    count: int,
    seed: int,
    redraws: int = 2,
) -> list[JudgeCall[ValueT]]:
    """Request votes until none is missing, or all calls that were made at once have failed.

    A vote is requested again where the answer has no verdict. A failed call has had its retries and
    its deadline: a judge that never answers costs one deadline, not one for each redraw.

    Args:
        ask: requests a vote. Each call has a number of its own, also a repeated one.
        missing: how many more votes are certainly needed, given the usable ones so far; they are
            requested at once. With a majority that is as many as the smallest majority lacks; by
            default all that are missing.
        count: the number of votes on the question; a single one is sent without a seed, like any
            other call.
        seed: the seed of vote 0; vote n gets `seed + n`.
        redraws: how many votes without a verdict are requested again.

    Returns:
        Every call, in the order of its number.
    """
    calls: list[JudgeCall[ValueT]] = []
    while True:
        usable = [call for call in calls if call.value is not None]
        wanted = count - len(usable) if missing is None else missing(usable)
        wave = min(wanted, count + redraws - len(calls))
        if wave <= 0:
            return calls
        numbers = range(len(calls), len(calls) + wave)
        votes = [Vote(number) if count == 1 else Vote(number, seed + number) for number in numbers]
        new_calls = await gather_results(map(ask, votes))
        calls += new_calls
        if all(call.failed for call in new_calls):
            return calls
