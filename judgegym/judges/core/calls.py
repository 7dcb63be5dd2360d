"""Judge calls: send a question to a judge and parse the verdict in its response.

Guarantees: an endpoint's failure returns a call without a value and raises nothing; a response that
    was cut off is not parsed; every other response is parsed once, and the ledger gets the position
    of that verdict. Thinking is removed from the text here, so that no verdict, explanation or
    critique holds any.

Several independent votes on one question are requested at once; a vote without a verdict is
requested again.
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
"""Number of characters of a judge's text that the message about a missing verdict quotes."""
MAX_VOTES = 99
"""Maximum number of votes on one question, since each is a paid call; settings and rows with more
are refused."""
ValueT = TypeVar("ValueT")
DetailT = TypeVar("DetailT")


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """The reason why no verdict could be parsed, for the judgment's explanation."""

    reason: str


@dataclass(frozen=True, slots=True)
class Vote:
    """One of several independent votes on a question.

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
    """Send a question to a judge and parse the verdict.

    Only responses with a verdict are kept in the judgment cache.

    Args:
        client: the client of the judge model.
        messages: the prompt.
        read: parses the verdict in the judge's text, or in its whole choice, for example with token
            probabilities; `NoVerdict` is the reason if there is none.
        name: the name of the call, unique in its judgment.
        vote: which of several independent votes on the question this is.
        extra: further fields of the request.
        form: the structured form of the response, if the prompt alone does not ask for it. An
            endpoint that refuses structured output gets the prompt alone.
        chat: sends the request, with the keyword arguments of `ChatClient.chat`; by default as a
            chat completion.

    Returns:
        The call; `failed` is set if it never succeeded. Never raises `EndpointError`.

    Raises:
        RunStop: the endpoint refuses the logprobs that the judge needs, or no request may be sent.
    """
    last: tuple[Choice, ParsedVerdict[ValueT] | NoVerdict] | None = None
    markers = client.settings.thinking_markers
    try:
        messages = await attach_images(messages, client)
    except TaskError as refusal:
        return JudgeCall(name, "", None, None, str(refusal), CallRun(), True, True)

    def parse_verdict(choice: Choice) -> ParsedVerdict[ValueT] | NoVerdict:
        """Parse a choice once, for the cache, the ledger and the caller."""
        nonlocal last
        if last is None or last[0] is not choice:
            # A response cut off by the length limit or a filter may end with a quoted verdict.
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
    """Return the choice with its thinking moved to its reasoning.

    The text is empty if the thinking never ends.
    """
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
    """Parse the verdict behind a choice's thinking; its position is that in the whole text."""
    part = own_part(choice.text, added)
    start = part.parts.start
    # Parsers also check whether a known marker in a later line begins endless thinking.
    if start or added:
        answer_part = replace(choice, text=part.text if added else part.until_the_end)
    else:
        answer_part = choice
    parsed = read.find(answer_part.text) if isinstance(read, VerdictParser) else read(answer_part)
    if start and isinstance(parsed, ParsedVerdict):
        return parsed.shift(start)
    return parsed


async def ask_again(
    ask: Callable[[Sequence[Message], str], Awaitable[JudgeCall[ValueT]]],
    messages: Sequence[Message],
    name: str,
    repair: Callable[[Sequence[Message], JudgeCall[ValueT]], tuple[str, str]],
    *,
    at_most: int,
) -> list[JudgeCall[ValueT]]:
    """Ask, and ask again in the same conversation after each response without a verdict.

    A failed call is not repeated: the client has already retried it. If a response holds nothing
    but thinking, there is nothing to continue, and the same request is sent once more.

    Args:
        ask: sends the conversation as a call of this name.
        messages: the prompt.
        name: the first call's name; the other calls' names begin with it.
        repair: returns the judge's text as the conversation shows it, and the request to repair it.
        at_most: maximum number of times the judge is asked again.
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
        call_count = len(calls)
        calls.append(await ask(messages, f"{name}_reask_{call_count}"))
    return calls


def failed_judgment(
    calls: Sequence[JudgeCall[object]],
    *,
    explanation: str | None = None,
    detail: DetailT | None = None,
) -> Judgment[DetailT]:
    """Make the judgment of calls without a verdict, which has no score.

    Its status is `judge_failed` if a call never succeeded, else `unparsable`.

    Args:
        calls: all calls of the judgment.
        explanation: why there is no verdict; by default the errors of the calls.
        detail: details without a verdict, such as the judge's texts.
    """
    if any(call.failed for call in calls):
        status = Status.JUDGE_FAILED
    else:
        status = Status.UNPARSABLE
    reason = join_errors(calls) if explanation is None else explanation
    return Judgment(None, status, explanation=reason, calls=tuple(calls), detail=detail)


def join_errors(calls: Sequence[JudgeCall[object]]) -> str:
    """Join the errors of calls, each once."""
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
    if len(line) <= _EXCERPT_LENGTH:
        excerpt = line
    else:
        excerpt = f"…{line[-_EXCERPT_LENGTH:]}"
    return f'no verdict could be read in the judge\'s text, which ends "{excerpt}"'


async def collect_votes(
    ask: Callable[[Vote], Awaitable[JudgeCall[ValueT]]],
    missing: Callable[[Sequence[JudgeCall[ValueT]]], int] | None = None,
    *,
    count: int,
    seed: int,
    redraws: int = 2,
) -> list[JudgeCall[ValueT]]:
    """Request votes until none is missing, or a whole round of calls has failed.

    A vote without a verdict is requested again. A failed call is not: it has had its retries and
    its deadline, so that a judge that never answers costs one deadline, not one per redraw.

    Args:
        ask: requests a vote. Each call has its own number, also a repeated one.
        missing: returns how many more votes are certainly needed, given the usable ones; they are
            requested at once. For a majority this is the number that the smallest majority lacks.
            By default all missing votes.
        count: the number of votes on the question; a single vote is sent without a seed, like any
            other call.
        seed: the seed of vote 0; vote n gets `seed + n`.
        redraws: maximum number of votes without a verdict that are requested again.

    Returns:
        All calls, in the order of their numbers.
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
