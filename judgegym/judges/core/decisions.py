"""Typed questions to decision models: their requests, and the reading of their answers.

All questions about a task are one request, of at most `MOST_QUESTIONS`; several requests are made
at once. The texts under judgment are values of the state, a JSON object, so they cannot end their
section. A request whose answers are not all whole (`judgegym.judges.parsing.decisions`) has no
verdict, and is made again, a limited number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast

from judgegym.judges.core.calls import NoVerdict, Vote, ask, collect_votes
from judgegym.judges.core.judgment import CallRun, JudgeCall
from judgegym.judges.parsing.decisions import (
    Decision,
    DecisionQuestion,
    describe_decision,
    read_decision,
)
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.llm import wire
from judgegym.llm.at_once import gather_results
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from judgegym.llm.providers.decisions import MOST_QUESTIONS, QUESTIONS
from judgegym.llm.template_tokens import break_up_tokens
from judgegym.llm.wire import JSON, Choice, Message, mapping_or_empty

if TYPE_CHECKING:
    from judgegym.judges.config.judge import JudgeSettings

ValueT = TypeVar("ValueT")
_REDRAWS = 2
"""How often a request without complete answers is made again."""
_LAYOUT = "judge_prompt_layout"
_UNREAD = frozenset(
    {
        *("judge_temperature", "judge_max_tokens", "judge_output", "judge_critique_rounds"),
        *("judge_system_prompt", _LAYOUT),
    }
)
"""The settings of every judge that a decision model does not read."""


@dataclass(frozen=True)  # no slots: then Class[T](…) would not work
class DecisionForm(Generic[ValueT]):
    """The typed questions in place of a prompt.

    Attributes:
        state: the texts that they are about; the forms of one task have the same.
        questions: the typed questions.
        read: makes the verdict of their answers, in the same order.
    """

    state: StateTexts
    questions: Sequence[DecisionQuestion]
    read: Callable[[Sequence[Decision]], ValueT]


StateTexts: TypeAlias = "Mapping[str, str | Mapping[str, str] | None]"
"""Texts and groups of texts by name; `None` for a missing one."""


@dataclass(frozen=True, slots=True)
class DecisionState:
    """The texts of a task as a decision model is shown them, without role tokens.

    Attributes:
        fields: the texts by name.
        suspects: the number of role tokens in them.
    """

    fields: Mapping[str, JSON]
    suspects: int = 0

    @classmethod
    def from_texts(cls, texts: StateTexts) -> DecisionState:
        """Break up the role tokens of all texts; missing ones are left out."""
        fields = dict[str, JSON]()
        suspects = 0
        for name, text in texts.items():
            if isinstance(text, str):
                escaped = break_up_tokens(text)
                fields[name] = escaped.text
                suspects += escaped.tokens
            elif text is not None:
                group = cls.from_texts(text)
                fields[name] = group.fields
                suspects += group.suspects
        return cls(fields, suspects)


async def decide(
    client: ChatClient, forms: Sequence[DecisionForm[ValueT]], name: str = "decisions"
) -> tuple[list[tuple[JudgeCall[ValueT], ...]], list[JudgeCall[object]]]:
    """Ask all typed questions about a state.

    Never raises because of an endpoint's answer.

    Args:
        client: the client of the decision model.
        forms: one or more forms with one state.
        name: the name of the calls, which a number follows from the second request on.

    Returns:
        For each form its calls without answers, then one with its verdict if it has one; and all
        calls that were made, which alone have tokens and times.
    """
    state = DecisionState.from_texts(forms[0].state).fields
    questions = [question for form in forms for question in form.questions]
    starts = range(0, len(questions), MOST_QUESTIONS)
    parts = await gather_results(
        _ask_part(
            client,
            state,
            questions[start : start + MOST_QUESTIONS],
            f"{name}_{number}" if number > 1 else name,
        )
        for number, start in enumerate(starts, start=1)
    )
    replies = list[tuple[JudgeCall[ValueT], ...]]()
    begin = 0
    for form in forms:
        end = begin + len(form.questions)
        first, last = begin // MOST_QUESTIONS, (end - 1) // MOST_QUESTIONS
        start = begin - first * MOST_QUESTIONS
        replies.append(_read_form(form, parts[first : last + 1], start))
        begin = end
    return replies, [call for part in parts for call in part]


async def _ask_part(
    client: ChatClient,
    state: Mapping[str, JSON],
    questions: Sequence[DecisionQuestion],
    name: str,
) -> list[JudgeCall[tuple[Decision, ...]]]:
    """Ask the questions of one request; again if an answer cannot be read."""
    by_name = {f"q{index}": question for index, question in enumerate(questions, start=1)}
    fields: dict[str, JSON] = {
        QUESTIONS: {name: question.to_json() for name, question in by_name.items()}
    }
    messages = [Message(role="user", content=wire.dumps(state).decode())]

    async def call(vote: Vote) -> JudgeCall[tuple[Decision, ...]]:
        return await ask(
            client,
            messages,
            lambda choice: read_answers(choice, by_name),
            name=f"{name}_redraw_{vote.number}" if vote.number else name,
            vote=vote,
            extra=fields,
        )

    return await collect_votes(call, count=1, seed=0, redraws=_REDRAWS)


def _read_form(
    form: DecisionForm[ValueT],
    parts: Sequence[Sequence[JudgeCall[tuple[Decision, ...]]]],
    start: int,
) -> tuple[JudgeCall[ValueT], ...]:
    """Return a form's calls without answers, then one with its verdict if it has one.

    Args:
        form: the form.
        parts: the calls of each request with its questions.
        start: the index of its first answer among theirs.
    """
    failed = [replace(call, run=CallRun()) for part in parts for call in part if call.value is None]
    calls = cast("list[JudgeCall[ValueT]]", failed)
    if all(part[-1].value is not None for part in parts):
        answers = [answer for part in parts for answer in part[-1].value or ()]
        decisions = answers[start : start + len(form.questions)]
        text = "; ".join(map(describe_decision, decisions, form.questions))
        verdict = form.read(decisions)
        calls.append(JudgeCall(parts[0][-1].name, text, None, verdict, None, CallRun()))
    return tuple(calls)


def read_answers(
    choice: Choice, questions: Mapping[str, DecisionQuestion]
) -> ParsedVerdict[tuple[Decision, ...]] | NoVerdict:
    """Read the answers to all questions of a request, or say why one has none."""
    answers = mapping_or_empty(wire.loads_or_none(choice.text))
    decisions = list[Decision]()
    for name, question in questions.items():
        if name not in answers:
            return NoVerdict(f"the answer {name} is missing, of {len(questions)} questions")
        decision = read_decision(mapping_or_empty(answers.get(name)), question)
        if isinstance(decision, str):
            excerpt = wire.shorten(wire.dumps(answers.get(name)).decode(), 120)
            return NoVerdict(f"the answer {name} has {decision} ({excerpt})")
        decisions.append(decision)
    return ParsedVerdict(tuple(decisions))


def least_probability(probabilities: Sequence[float | None]) -> dict[str, float]:
    """Return the confidence `probability`: that of the least certain decision.

    There is none if a probability is unknown.
    """
    read = [probability for probability in probabilities if probability is not None]
    if not read or len(read) < len(probabilities):
        return {}
    return {"probability": min(read)}


def asks_decisions(client: ChatClient) -> bool:
    """Return whether the client's model answers typed questions."""
    return client.api.name == "decisions"


def check_decision_settings(
    settings: JudgeSettings, section: str, unread: frozenset[str] | None
) -> None:
    """Check the settings of a judge that asks a decision model.

    Args:
        settings: the judge's settings.
        section: the prefix of the settings, for messages.
        unread: the kind's settings that a decision model does not read; `None` if the kind has no
            typed questions.

    Raises:
        SettingsError: the kind has no typed questions, or a setting would have no effect.
    """
    flag = f"--{section}judge_api=decisions"
    if unread is None:
        raise SettingsError(
            f"{flag}: only the judges aspect, checklist, rubric and choice ask typed questions"
        )
    for name in sorted((_UNREAD | unread) & settings.model_fields_set):
        default = type(settings).model_fields[name].default
        if name == _LAYOUT and (default_layout := getattr(settings, "default_layout", None)):
            default = default_layout()  # as a run records it
        if getattr(settings, name) != default:
            raise SettingsError(f"{flag}: a decision model does not read {name}; leave it out")
    if settings.vote_count() > 1:
        raise SettingsError(
            f"{flag}: a decision model answers once, with probabilities; expected no votes "
            f"(strictness or samples_per_item of 1), found {settings.vote_count()}"
        )
