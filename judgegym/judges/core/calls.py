"""Asks a judge one question and parses its answer.

Guarantees: an endpoint's failure returns a call without a value and raises nothing; an answer that was cut off is not
parsed; every other answer is parsed once, and the place of its verdict that the ledger gets is that of this reading.

Several independent votes on one question: requested at once, and again for each vote that has no verdict.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from judgegym.judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, Place, VerdictForm, VerdictParser
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient, structured_chat
from judgegym.llm.errors import EndpointError, let_go
from judgegym.llm.wire import JSON, Choice, Message

_SHOWN = 100
"""Characters of a judge's text in the message that it has no verdict."""
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


async def ask(
    client: ChatClient,
    messages: Sequence[Message],
    parse: Callable[[str], ValueT | None],
    *,
    name: str,
    vote: Vote = Vote(),
    form: VerdictForm | None = None,
) -> JudgeCall[ValueT]:
    """Ask a judge and parse the verdict in its text.

    Only an answer with a verdict is kept in the judgment cache.

    Args:
        client: the client of the judge model.
        messages: the prompt.
        parse: parses the verdict in the judge's text; a `VerdictParser` also says where it stands, for the ledger.
        name: the name of the call, unique in its judgment.
        vote: which of several independent answers to the same question this is.
        form: the form that its answer is to have, if not that of the prompt alone.

    Returns:
        The call; `failed` is set if it never succeeded. Never raises `EndpointError`.
    """
    if isinstance(parse, VerdictParser):
        find = parse.find
    else:

        def find(text: str) -> ParsedVerdict[ValueT] | None:
            value = parse(text)
            return None if value is None else ParsedVerdict(value)

    return await ask_choice(client, messages, lambda choice: find(choice.text), name=name, vote=vote, form=form)


async def ask_choice(
    client: ChatClient,
    messages: Sequence[Message],
    read: Callable[[Choice], ParsedVerdict[ValueT] | NoVerdict | None],
    *,
    name: str,
    vote: Vote = Vote(),
    extra: Mapping[str, JSON] | None = None,
    form: VerdictForm | None = None,
) -> JudgeCall[ValueT]:
    """Ask a judge and parse the verdict in its whole choice, for example with the tokens' probabilities.

    Args:
        client: the client of the judge model.
        messages: the prompt.
        read: parses the verdict in the judge's choice, and its place in the text; `NoVerdict` says why there is none.
        name: the name of the call, unique in its judgment.
        vote: which of several independent answers to the same question this is.
        extra: further fields of the request.
        form: the form that its answer is to have, if not that of the prompt alone. An endpoint that refuses a form is
            asked with the prompt alone.
    """
    verdicts = _Verdicts(read)
    if form is None:
        chat = partial(client.chat, messages)
    else:
        chat = partial(structured_chat, client, form.asked_in(messages), form.response_format, messages)
    try:
        answer = await chat(
            vote=vote.number,
            seed=vote.seed,
            extra=extra,
            keep=verdicts.has_one,
            verdict_at=verdicts.place,
            name=name,
        )
    except EndpointError as error:
        let_go(error)
        run = CallRun(attempts=error.attempts, usage=error.usage)
        return JudgeCall(name, "", None, None, f"the judge at {error}", run, True, not error.kind.retryable)
    choice = answer.choices[0]
    run = CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage)
    found = verdicts.of(choice)
    if isinstance(found, NoVerdict):
        return JudgeCall(name, choice.text, choice.reasoning, None, found.reason, run)
    return JudgeCall(name, choice.text, choice.reasoning, found.value, None, run)


@dataclass(slots=True)
class _Verdicts(Generic[ValueT]):
    """The verdict of a call's choice, parsed once for the cache, the ledger and the caller."""

    read: Callable[[Choice], ParsedVerdict[ValueT] | NoVerdict | None]
    choice: Choice | None = None
    verdict: ParsedVerdict[ValueT] | NoVerdict = NoVerdict("")

    def of(self, choice: Choice) -> ParsedVerdict[ValueT] | NoVerdict:
        """The verdict of a choice, or why there is none."""
        if choice is not self.choice:
            # An answer that was cut off, by the length limit or a filter, may end with a verdict that it only quotes.
            found = None if choice.state != "whole" else self.read(choice)
            self.verdict = NoVerdict(_why_no_verdict(choice)) if found is None else found
            self.choice = choice
        return self.verdict

    def has_one(self, choice: Choice) -> bool:
        """Whether a choice has a verdict."""
        return not isinstance(self.of(choice), NoVerdict)

    def place(self, choice: Choice) -> Place | None:
        """From where to where in a choice's text its verdict stands."""
        found = self.of(choice)
        return None if isinstance(found, NoVerdict) else found.at


def failed_judgment(
    calls: Sequence[JudgeCall[object]], *, explanation: str | None = None, detail: DetailT | None = None
) -> Judgment[DetailT]:
    """The judgment of calls without a verdict, which has no score: failed if a call never succeeded, else unparsable.

    Args:
        calls: all calls of the judgment.
        explanation: why there is no verdict; by default the errors of the calls.
        detail: what the judge returned without a verdict, such as its texts.
    """
    status = Status.JUDGE_FAILED if any(call.failed for call in calls) else Status.UNPARSABLE
    errors = dict.fromkeys(call.error for call in calls if call.error is not None)
    why = "; ".join(errors) if explanation is None else explanation
    return Judgment(None, status, explanation=why, calls=tuple(calls), detail=detail)


def _why_no_verdict(choice: Choice) -> str:
    if choice.state == "refused":
        return f"the judge refused: {choice.refusal or 'content filter'}"
    if choice.state == "cut_off":
        return "the judge's text was cut off at its longest length before a verdict"
    return f'no verdict could be read in the judge\'s text, which ends "{_end_of(choice.text)}"'


def _end_of(text: str) -> str:
    """The end of a text in one line."""
    line = "".join(sign if sign.isprintable() else " " for sign in " ".join(text[-_SHOWN * 4 :].split()))
    return line if len(line) <= _SHOWN else f"…{line[-_SHOWN:]}"


MOST_VOTES = 99
"""The most votes on one question: settings and rows that ask for more are refused, since each vote is a paid call."""


def vote(number: int, *, count: int, seed: int) -> Vote:
    """The vote with this number. A single vote is sent without a seed, like any other call.

    Args:
        number: from 0.
        count: the number of votes on the question.
        seed: the seed of vote 0; vote n gets `seed + n`.
    """
    return Vote(number) if count == 1 else Vote(number, seed + number)


async def collect_votes(
    ask: Callable[[int], Awaitable[JudgeCall[ValueT]]],
    missing: Callable[[Sequence[JudgeCall[ValueT]]], int],
    *,
    at_most: int,
) -> list[JudgeCall[ValueT]]:
    """Request votes until none is missing, or all calls that were made at once have failed.

    A vote is requested again where the answer has no verdict. A failed call has had its retries and its deadline: a
    judge that never answers costs one deadline, not one for each redraw.

    Args:
        ask: requests the vote with a number, from 0. Each call has a number of its own, also a repeated one.
        missing: how many more votes are certainly needed, given the usable ones so far; they are requested at once.
            With a majority that is as many as the smallest majority lacks, otherwise all that are missing.
        at_most: the most calls, including those without a verdict.

    Returns:
        Every call, in the order of its number.
    """
    calls: list[JudgeCall[ValueT]] = []
    while True:
        wanted = missing([call for call in calls if call.value is not None])
        wave = min(wanted, at_most - len(calls))
        if wave <= 0:
            return calls
        numbers = range(len(calls), len(calls) + wave)
        # A single vote needs no task of its own.
        asked = [await ask(number) for number in numbers] if wave == 1 else await all_results(map(ask, numbers))
        calls += asked
        if all(call.failed for call in asked):
            return calls
