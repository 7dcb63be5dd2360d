"""Typed questions to decision models: their requests, and the reading of their answers.

All questions about a task are one request, of at most `MOST_QUESTIONS`; several requests are made
at once. The texts under judgment are values of the state, a JSON object, so they cannot end their
section. An answer is read only if it is complete and consistent: a probability is from 0 to 1, those
of a choice are of its labels and add up to 1, the choice is the likeliest label, and a score is
within its levels. Anything else has no verdict, and its request is made again, a limited number of
times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeGuard, TypeVar, cast

from judgegym.judges.core.calls import NoVerdict, Vote, ask, collect_votes
from judgegym.judges.core.judgment import CallRun, JudgeCall
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
QuestionType = Literal["noul", "choice", "score"]

MOST_LEVELS, MOST_LABELS = 10, 255
"""The most levels of a score, and the most labels of a choice."""
TRUE, FALSE = "true", "false"
"""The labels of a yes/no question."""
_REDRAWS = 2
"""How often a request without complete answers is made again."""
_TOLERANCE, _TOLERANCE_PER_LABEL = 0.02, 0.005
"""How far probabilities may add up to another number than 1: gateways round them."""
_UNREAD = frozenset(
    {
        *("judge_temperature", "judge_max_tokens", "judge_output", "judge_critique_rounds"),
        *("judge_system_prompt", "judge_prompt_layout"),
    }
)
"""The settings of every judge that a decision model does not read."""


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """One typed question.

    Attributes:
        type: `noul` (yes or no), `choice` (one of several labels) or `score` (one of ordered
            levels).
        instructions: what is asked.
        labels: the labels of a choice, with a description or `None`.
        levels: the descriptions of a score's levels, lowest first.
    """

    type: QuestionType
    instructions: str
    labels: tuple[tuple[str, str | None], ...] = ()
    levels: tuple[str, ...] = ()

    def to_json(self) -> JSON:
        """Return the question as it is sent."""
        question: dict[str, JSON] = {"type": self.type, "instructions": self.instructions}
        if self.type == "choice":
            question["criteria"] = dict(self.labels)
        elif self.type == "score":
            question["criteria"] = list(self.levels)
        return question


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a typed question.

    Attributes:
        probabilities: by label (`true` and `false` for yes/no, the level's index from 0 for a
            score); empty for a score whose endpoint sends none.
        expected: the probability of yes, or the expected index of a score's level; of a choice the
            probability of the likeliest label.
        label: the likeliest label.
    """

    probabilities: Mapping[str, float]
    expected: float
    label: str

    @property
    def probability(self) -> float | None:
        """The probability of the likeliest label; `None` if the endpoint sends none."""
        return self.probabilities.get(self.label)


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
) -> tuple[list[JudgeCall[ValueT]], list[JudgeCall[object]]]:
    """Ask all typed questions about a state.

    Never raises because of an endpoint's answer.

    Args:
        client: the client of the decision model.
        forms: one or more forms with one state.
        name: the name of the calls, which a number follows from the second request on.

    Returns:
        For each form a call with its verdict, and all calls that were made.
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
    verdicts = list[JudgeCall[ValueT]]()
    begin = 0
    for form in forms:
        end = begin + len(form.questions)
        first, last = begin // MOST_QUESTIONS, (end - 1) // MOST_QUESTIONS
        calls = [part[-1] for part in parts[first : last + 1]]
        verdicts.append(_read_form(form, calls, begin - first * MOST_QUESTIONS))
        begin = end
    return verdicts, [call for part in parts for call in part]


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
    form: DecisionForm[ValueT], calls: Sequence[JudgeCall[tuple[Decision, ...]]], start: int
) -> JudgeCall[ValueT]:
    """Return the call with the verdict of a form, or the first one that failed.

    Args:
        form: the form.
        calls: the calls with its answers.
        start: the index of its first answer among theirs.
    """
    failed = next((call for call in calls if call.value is None), None)
    if failed is not None:
        return cast("JudgeCall[ValueT]", replace(failed, run=CallRun()))
    answers = [answer for call in calls for answer in call.value or ()]
    decisions = answers[start : start + len(form.questions)]
    text = "; ".join(map(describe_decision, decisions))
    return JudgeCall(calls[0].name, text, None, form.read(decisions), None, CallRun())


def describe_decision(decision: Decision) -> str:
    """Return a decision in words.

    >>> describe_decision(Decision({"true": 0.9, "false": 0.1}, 0.9, "true"))
    'true: 0.9'
    """
    shown = decision.expected if decision.probability is None else decision.probability
    return f"{decision.label}: {shown:.4g}"


def read_answers(
    choice: Choice, questions: Mapping[str, DecisionQuestion]
) -> ParsedVerdict[tuple[Decision, ...]] | NoVerdict:
    """Read the answers to all questions of a request, or say why one has none."""
    answers = mapping_or_empty(wire.loads_or_none(choice.text))
    decisions = list[Decision]()
    for name, question in questions.items():
        decision = read_decision(mapping_or_empty(answers.get(name)), question)
        if isinstance(decision, str):
            excerpt = wire.shorten(wire.dumps(answers.get(name)).decode(), 120)
            return NoVerdict(f"the answer {name} has {decision} ({excerpt})")
        decisions.append(decision)
    return ParsedVerdict(tuple(decisions))


def read_decision(answer: Mapping[str, JSON], question: DecisionQuestion) -> Decision | str:
    """Return the decision of an answer, or what is wrong with it."""
    if answer.get("type", question.type) != question.type:
        return f"another type than {question.type}"
    if question.type == "noul":
        return _read_noul(answer)
    if question.type == "choice":
        return _read_choice(answer, [label for label, _ in question.labels])
    return _read_score(answer, len(question.levels))


def _read_noul(answer: Mapping[str, JSON]) -> Decision | str:
    yes = answer.get("noul")
    if not _is_probability(yes):
        return "no probability of yes"
    label = TRUE if yes >= 0.5 else FALSE
    return Decision({TRUE: float(yes), FALSE: 1.0 - yes}, float(yes), label)


def _read_choice(answer: Mapping[str, JSON], labels: Sequence[str]) -> Decision | str:
    label, probabilities = answer.get("choice"), _read_probabilities(answer, labels)
    if isinstance(probabilities, str):
        return probabilities
    if not isinstance(label, str) or label not in labels:
        return "no choice among the labels"
    if probabilities[label] < max(probabilities.values()):
        return "a choice that is not the likeliest label"
    return Decision(probabilities, probabilities[label], label)


def _read_score(answer: Mapping[str, JSON], count: int) -> Decision | str:
    score, labels = answer.get("score"), [str(index) for index in range(count)]
    if not _is_number(score) or not 0 <= score <= count - 1:
        return f"no score from 0 to {count - 1}"
    nearest = str(min(count - 1, math.floor(score + 0.5)))
    if answer.get("probabilities") is None:
        return Decision({}, float(score), nearest)
    probabilities = _read_probabilities(answer, labels)
    if isinstance(probabilities, str):
        return probabilities
    mean = math.fsum(index * probabilities[label] for index, label in enumerate(labels))
    if abs(mean - score) > _tolerance(count) * (count - 1):
        return "a score that its probabilities do not give"
    return Decision(probabilities, float(score), nearest)


def _read_probabilities(
    answer: Mapping[str, JSON], labels: Sequence[str]
) -> dict[str, float] | str:
    """Return the probability of each label, or what is wrong; a label left out has 0."""
    read = dict[str, float]()
    for label, probability in mapping_or_empty(answer.get("probabilities")).items():
        if label not in labels or not _is_probability(probability):
            return "a probability of an unknown label, or one that is not from 0 to 1"
        read[label] = float(probability)
    if not read or abs(math.fsum(read.values()) - 1.0) > _tolerance(len(labels)):
        return "no probabilities that add up to 1"
    return {label: read.get(label, 0.0) for label in labels}


def _tolerance(count: int) -> float:
    return _TOLERANCE + _TOLERANCE_PER_LABEL * min(count, MOST_LEVELS)


def _is_number(value: JSON) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_probability(value: JSON) -> TypeGuard[int | float]:
    return _is_number(value) and 0 <= value <= 1


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
        if getattr(settings, name) != type(settings).model_fields[name].default:
            raise SettingsError(f"{flag}: a decision model does not read {name}; leave it out")
    if settings.vote_count() > 1:
        raise SettingsError(
            f"{flag}: a decision model answers once, with probabilities; expected no votes "
            f"(strictness or samples_per_item of 1), found {settings.vote_count()}"
        )
