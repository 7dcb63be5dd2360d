"""Model judges: votes, re-asks, structured output and self-critique.

A judge defines its questions (`questions`) and how their answers become a judgment (`combine`).
A decision model is asked the typed forms of all questions in one request
(`judgegym.judges.core.decisions`).

Self-critique (RL4F): after its judgment a judge critiques its rationale and revises its verdict,
with one call per round.

Guarantees: an endpoint's failure is never a verdict; a vote without a verdict is requested again, a
    limited number of times; the score is that of the last round that could be parsed; a failed
    round keeps the verdict and is recorded as failed; the loop stops once a round leaves the
    verdict unchanged.

Source: the specification's rationale-based self-critique loops; Akyürek et al., RL4F: Generating
Natural Language Feedback with Reinforcement Learning for Repairing Model Outputs (2023).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast

from judgegym.judges import prompts
from judgegym.judges.core.calls import (
    ONLY_VOTE,
    NoVerdict,
    Vote,
    ask,
    ask_again,
    collect_votes,
    failed_judgment,
)
from judgegym.judges.core.decisions import (
    DecisionForm,
    DecisionState,
    StateTexts,
    asks_decisions,
    check_decision_settings,
    decide,
)
from judgegym.judges.core.delimiters import Prompt, break_tokens
from judgegym.judges.core.judge import (
    CritiqueRequest,
    DetailT,
    Revision,
    SettingsT,
    ShownVerdict,
    SingleJudge,
    critique_messages,
)
from judgegym.judges.core.judgment import Critique, CritiqueRound, JudgeCall, Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.json_objects import split_explanation
from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictForm, VerdictParser
from judgegym.llm.at_once import gather_results
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import JSON, Choice, Message

if TYPE_CHECKING:
    from judgegym.judges.config.judge import JudgeSettings

ValueT = TypeVar("ValueT")
_FAILED: Literal["revised", "unchanged", "failed"] = "failed"


def make_reask(messages: Sequence[Message], call: JudgeCall[Any]) -> tuple[str, str]:
    """Return the judge's text, which has no verdict, and the message that asks for the verdict.

    The prompt is named after the judge that had it first, but suits every verdict.
    """
    return break_tokens(call.text), prompts.load("arena_hard_reask")


@dataclass(frozen=True)  # no slots: then Class[T](…) would not work
class Question(Generic[ValueT]):
    """One thing that a judge is asked about a task.

    A response without a verdict is handled in one of two ways: of several votes, a new one is
    requested from the same prompt (`redraws`); a single call is continued in its conversation
    (`reasks`), with the messages that `repair` makes.

    Attributes:
        name: the name of its call; several votes are `name_1`, `name_2`, ….
        prompt: the prompt.
        read: parses the verdict; returns `None` or the reason if there is none. A `VerdictParser`
            gets the text without the thinking, any other function the whole `Choice`.
        form: the JSON schema of a verdict, for `judge_output=json_schema`; `None` if the judge
            ignores that setting.
        component: the name of its only verdict in critiques, such as `game_1`; empty if the
            judgment has one verdict.
        votes: number of independent votes requested at once; 0: one call, named without `_1`.
        missing: returns how many more votes are certainly needed, given the usable ones; by default
            `votes` less their number.
        redraws: maximum number of votes without a verdict that are requested again.
        reasks: maximum number of times a single call without a verdict is asked again in the same
            conversation.
        repair: takes the messages and the call without a verdict; returns the judge's text as the
            conversation shows it, and the message that asks again.
        extra: further fields of the requests.
        decision: the same question for a decision model, which is asked without votes; `None` if
            there is none.
    """

    name: str
    prompt: Prompt
    read: VerdictParser[[], ValueT] | Callable[[Choice], ParsedVerdict[ValueT] | NoVerdict | None]
    form: VerdictForm | None = None
    component: str = ""
    votes: int = 0
    missing: Callable[[Sequence[JudgeCall[ValueT]]], int] | None = None
    redraws: int = 2
    reasks: int = 0
    repair: Callable[[Sequence[Message], JudgeCall[Any]], tuple[str, str]] = make_reask
    extra: Mapping[str, JSON] = field(default_factory=dict)
    decision: DecisionForm[ValueT] | None = None


@dataclass(frozen=True)  # no slots: then Class[T](…) would not work
class Answers(Generic[ValueT]):
    """The parsed replies to a question.

    Attributes:
        question: the question.
        calls: all calls before any critique, in the order of their numbers.
        revisions: by component, the critique calls with a verdict, in the order of the rounds.
    """

    question: Question[ValueT]
    calls: tuple[JudgeCall[ValueT], ...]
    revisions: Mapping[str, tuple[JudgeCall[ValueT], ...]] = field(default_factory=dict)

    @property
    def last(self) -> JudgeCall[ValueT]:
        """The call whose verdict counts, if the question has one: last revision, else last call."""
        return self.latest_revision(self.question.component, self.calls[-1])

    def latest_revision(self, component: str, call: JudgeCall[ValueT]) -> JudgeCall[ValueT]:
        """Return the last revision of a component, or `call` without one."""
        if component in self.revisions:
            return self.revisions[component][-1]
        return call

    def add_revision(self, component: str, call: JudgeCall[ValueT]) -> Answers[ValueT]:
        """Return the answers with one more revision."""
        earlier = self.revisions.get(component, ())
        return replace(self, revisions={**self.revisions, component: (*earlier, call)})


async def ask_question(
    client: ChatClient, settings: JudgeSettings, question: Question[ValueT]
) -> Answers[ValueT]:
    """Ask a question without self-critique: all its votes, or one call and its repairs.

    Never raises because of a judge's reply.
    """
    form = settings.form(question.form)

    async def call(
        messages: Sequence[Message], name: str, vote: Vote = ONLY_VOTE
    ) -> JudgeCall[ValueT]:
        return await ask(
            client, messages, question.read, name=name, vote=vote, extra=question.extra, form=form
        )

    messages, name = question.prompt.messages, question.name
    if question.decision is not None and asks_decisions(client):
        (replies,), made = await decide(client, [question.decision], name)
        *earlier, last = cast("list[JudgeCall[ValueT]]", made)
        return Answers(question, (*earlier, replace(replies[-1], name=last.name, run=last.run)))
    if question.votes:
        calls = await collect_votes(
            lambda vote: call(messages, f"{name}_{vote.number + 1}", vote),
            question.missing,
            count=question.votes,
            seed=settings.seed,
            redraws=question.redraws,
        )
    else:
        calls = await ask_again(call, messages, name, question.repair, at_most=question.reasks)
    return Answers(question, tuple(calls))


class ModelJudge(SingleJudge[SettingsT, DetailT], Generic[SettingsT, DetailT, ValueT]):
    """A judge that asks a model, and can revise its verdicts in `judge_critique_rounds` rounds."""

    unread_with_decisions: ClassVar[frozenset[str] | None] = None
    """The kind's settings that a decision model does not read; `None` if its questions have no
    typed forms."""

    def __init__(self, settings: SettingsT, client: ChatClient, rubric: str | None = None) -> None:
        """Set settings and client; `rubric` is for tasks without one.

        Raises:
            SettingsError: the client's model answers typed questions, and the settings do not fit.
        """
        super().__init__(settings, client, rubric)
        self.decides = asks_decisions(client)
        if self.decides:
            section = client.settings.section
            check_decision_settings(settings, section, self.unread_with_decisions)

    @abstractmethod
    def questions(self, task: JudgeTask) -> Sequence[Question[ValueT]]:
        """Return the questions about a task; none if there is nothing to ask."""

    def state_texts(self, task: JudgeTask) -> StateTexts:
        """Return the texts that a decision model is shown, by name."""
        return {
            "prompt": task.prompt or None,
            "context": task.context,
            "reference": task.reference or None,
            "response": task.response,
        }

    def combine(self, task: JudgeTask, answers: Sequence[Answers[ValueT]]) -> Judgment[DetailT]:
        """Make the judgment from the answers, in the order of the questions.

        It has no score if a verdict is missing.

        The caller fills in the calls, and the number of suspected injections (`suspects`). By
        default the score is the mean of the last verdicts, which are numbers from 0 to 1, or
        booleans for yes and no; the explanation is the reply without its last line, the verdict.
        """
        calls = [answer.last for answer in answers]
        values = [cast(float, call.value) for call in calls if call.value is not None]
        if not values or len(values) < len(calls):
            all_calls = chain.from_iterable(answer.calls for answer in answers)
            return failed_judgment(list(all_calls))
        explanation = "\n\n".join(
            cut_thinking(call.text).strip().rpartition("\n")[0].strip() for call in calls
        )
        label = ", ".join(str(_show_verdict(value)) for value in values)
        return Judgment(sum(values) / len(values), Status.OK, label, explanation)

    def critique_requests(
        self, task: JudgeTask, answers: Answers[ValueT]
    ) -> Sequence[CritiqueRequest]:
        """Return the requests to critique and revise a question's verdicts.

        By default one, for a verdict that is a word, a number or a boolean.
        """
        call, question = answers.last, answers.question
        text = cut_thinking(call.text).strip()
        messages = critique_messages(question.prompt.messages, text)
        return [CritiqueRequest(question.component, _show_verdict(call.value), text, messages)]

    def revision(self, call: JudgeCall[ValueT], verdict: ValueT) -> Revision:
        """Return a revised verdict with its reasons, for the history of the critique.

        By default the verdict is a word, a number or a boolean, with the text's explanation.
        """
        critique, reasons = split_explanation(cut_thinking(call.text).strip())
        return Revision(_show_verdict(verdict), reasons, critique)

    async def judge(self, task: JudgeTask) -> Judgment[DetailT]:
        """Judge a task, then reconsider the judgment; one without a score is returned unchanged.

        Returns:
            The judgment with the last verdicts, all calls, and the history of the rounds. A judge's
            reply never raises an error.
        """
        questions = self.questions(task)
        if self.decides:
            return await self._decide(task, questions)
        answers = await gather_results(
            ask_question(self.client, self.settings, question) for question in questions
        )
        calls = tuple(chain.from_iterable(answer.calls for answer in answers))
        suspects = max((question.prompt.suspects for question in questions), default=0)
        judgment = replace(self.combine(task, answers), calls=calls, suspects=suspects)
        if judgment.score is None or not self.settings.judge_critique_rounds:
            return judgment
        return await self._reconsider(task, answers, judgment)

    async def _decide(
        self, task: JudgeTask, questions: Sequence[Question[ValueT]]
    ) -> Judgment[DetailT]:
        """Judge a task by a decision model, which is asked all questions in one request."""
        forms = [question.decision for question in questions if question.decision is not None]
        replies, calls = await decide(self.client, forms)
        answers = [
            Answers(question, tuple(replace(call, name=question.name) for call in question_replies))
            for question, question_replies in zip(questions, replies, strict=True)
        ]
        judgment = self.combine(task, answers)
        suspects = DecisionState.from_texts(forms[0].state).suspects
        return replace(judgment, calls=tuple(calls), suspects=suspects)

    async def _reconsider(
        self, task: JudgeTask, answers: Sequence[Answers[ValueT]], judgment: Judgment[DetailT]
    ) -> Judgment[DetailT]:
        """Let the judge critique and revise each verdict of a judgment that has a score."""
        assert judgment.score is not None
        before = judgment.score
        calls = judgment.calls
        history = list[CritiqueRound]()
        latest, settled = list(answers), set[str]()
        for number in range(1, self.settings.judge_critique_rounds + 1):
            requests: list[tuple[int, CritiqueRequest]] = []
            for index, answer in enumerate(latest):
                for request in self.critique_requests(task, answer):
                    if request.component not in settled:
                        requests.append((index, request))
            revisions = await gather_results(
                self._critique(number, latest[index].question, request)
                for index, request in requests
            )
            calls = (*calls, *revisions)
            entries: list[CritiqueRound] = []
            for (place, request), call in zip(requests, revisions, strict=True):
                entries.append(self._make_round(number, request, call))
                if call.value is not None:
                    latest[place] = latest[place].add_revision(request.component, call)
            judgment = replace(self.combine(task, latest), calls=calls, suspects=judgment.suspects)
            history += entries
            settled |= {entry.component for entry in entries if entry.status == "unchanged"}
            if all(entry.status == "unchanged" for entry in entries):
                break
        return replace(judgment, critique=Critique(before, tuple(history)))

    async def _critique(
        self, number: int, question: Question[ValueT], request: CritiqueRequest
    ) -> JudgeCall[ValueT]:
        """Ask to critique and revise a verdict; a structured reply begins with the critique."""
        form = self.settings.form(question.form)
        read = question.read
        if form is not None:
            form = form.critique_form()
        name = "_".join(filter(None, (f"critique_{number}", request.component)))
        vote, extra = Vote(number), question.extra
        return await ask(
            self.client, request.messages, read, name=name, vote=vote, extra=extra, form=form
        )

    def _make_round(
        self, number: int, request: CritiqueRequest, call: JudgeCall[ValueT]
    ) -> CritiqueRound:
        """Return the history's entry for one verdict in a round."""
        component, before, reasoning, _ = request
        after, status = Revision(before, reasoning, ""), _FAILED
        if call.value is not None:
            after = self.revision(call, call.value)
            status = "unchanged" if after.verdict == before else "revised"
        return CritiqueRound(
            round=number,
            component=component,
            before=before,
            before_reasoning=reasoning,
            raw=call.text,
            critique=after.critique,
            after=after.verdict,
            after_reasoning=after.reasoning,
            status=status,
            error=call.error,
        )


def _show_verdict(verdict: object) -> ShownVerdict:
    """Return a verdict as critique history and labels show it."""
    if isinstance(verdict, bool):
        if verdict:
            return "yes"
        return "no"
    return cast(ShownVerdict, verdict)


def agreement(values: Sequence[Any]) -> float:
    """Return how far votes agree: 2·share of the most frequent one − 1, at least 0.

    So unanimous votes have 1, and votes without a majority 0.
    """
    return max(0.0, 2.0 * max(map(values.count, values)) / len(values) - 1.0)


def least_agreement(shares: Sequence[float]) -> dict[str, float]:
    """Return the confidence `votes` of several verdicts.

    It is the agreement of the votes on the verdict on which they agree least.

    Args:
        shares: for each verdict of several votes, the share of votes with it; empty if there are
            none.
    """
    if shares:
        return {"votes": max(0.0, 2.0 * min(shares) - 1.0)}
    return {}
