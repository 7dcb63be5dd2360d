"""The contract of a judge: a case in, a judgment out; and the base classes of judges that see each response by itself.

Self-critique (RL4F): after its judgment a judge critiques its rationale and revises its verdict, one call a round.

Guarantees: the score is that of the last round that could be read; a failed round keeps the score and is recorded as
failed; a verdict that a round does not change gets no further round.

Source: the specification's rationale-based self-critique loops; Akyürek et al., RL4F: Generating Natural Language
Feedback with Reinforcement Learning for Repairing Model Outputs (2023).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from judgegym.judges import prompts
from judgegym.judges.core.calls import ONLY_VOTE, NoVerdict, Vote, ask
from judgegym.judges.core.delimiters import Lookalikes, delimit
from judgegym.judges.core.images import check_images, showing
from judgegym.judges.core.judgment import Critique, CritiqueRound, JudgeCall, Judgment, NamedVerdict
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment, TaskJudge, response_judgment
from judgegym.judges.parsing.json_objects import explained
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictForm
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import JSON, Choice, Message

if TYPE_CHECKING:
    from judgegym.judges.config.judge import JudgeSettings
    from judgegym.judges.core.prompt_format import PromptFormat

ShownVerdict: TypeAlias = "str | int | float"
"""A verdict as the history of a critique shows it."""

CaseT_contra = TypeVar("CaseT_contra", contravariant=True)
DetailT_co = TypeVar("DetailT_co", covariant=True)
CaseT = TypeVar("CaseT")
DetailT = TypeVar("DetailT")
VerdictT = TypeVar("VerdictT")
SettingsT = TypeVar("SettingsT", bound="JudgeSettings")

_LOOKALIKES = Lookalikes("your previous evaluation")


class Judge(Protocol[CaseT_contra, DetailT_co]):
    """Judges cases of one type. A case is a frozen dataclass that holds all texts that the judge sees."""

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""

    async def judge(self, case: CaseT_contra, /) -> Judgment[DetailT_co]:
        """Judge a case. A failure is a judgment without a score; never raises because of a model's answer."""


class SingleJudge(ABC, Generic[SettingsT, CaseT, DetailT]):
    """A judge that sees each response by itself; it makes the case of a task, and a score from 0 to 1."""

    is_shown_texts: ClassVar[bool] = True
    """Whether it is a model that is shown the texts itself, so that long ones are shortened."""

    def __init__(self, settings: SettingsT, client: ChatClient, rubric: str | None = None) -> None:
        """Judge as the settings say through `client`; `rubric` is for tasks that have none."""
        self.settings, self.client, self.rubric = settings, client, rubric
        # A setting of judges that are asked about tasks; an environment that makes cases has none.
        self.limit: int | None = getattr(settings, "judge_conversation_limit", None) if self.is_shown_texts else None

    @abstractmethod
    async def judge(self, case: CaseT) -> Judgment[DetailT]:
        """Judge a case; the score is in the judge's own range. Never raises because of a judge's answer."""

    @abstractmethod
    def case_of(self, task: JudgeTask) -> CaseT:
        """The case of a task with one response."""

    def check(self, task: JudgeTask) -> None:
        """Check that the judge can be shown the task's images; every other task can be judged."""
        check_images(task, self.client)

    def compares(self, task: JudgeTask) -> bool:
        """No response is compared with another."""
        return False

    def unit(self, score: float) -> float:
        """The judge's own score as a number from 0 to 1."""
        return score

    def components(self, judgment: Judgment[DetailT]) -> Mapping[str, float]:
        """The numbers from which the score is computed: the judge's own, as `raw`."""
        return {} if judgment.score is None else {"raw": judgment.score}

    def verdicts(self, task: JudgeTask, judgment: Judgment[DetailT]) -> tuple[NamedVerdict, ...]:
        """The verdict on each aspect or criterion of a task; empty of a judge that has none."""
        return ()

    def tags(self, judgment: Judgment[DetailT]) -> Mapping[str, float]:
        """The score of each tag of the criteria; empty of a judge that has none."""
        return {}

    def contributions(self, judgment: Judgment[DetailT]) -> Mapping[str, float]:
        """What each part adds to the score, if that is a sum of parts; empty otherwise."""
        return {}

    def confidences(self, judgment: Judgment[DetailT]) -> Mapping[str, float]:
        """How sure the judge is, from 0 to 1, by each rule that it knows (`margin`: 2·|score − ½|)."""
        return {} if judgment.score is None else {"margin": round(abs(2.0 * self.unit(judgment.score) - 1.0), 9)}

    async def judge_task(self, task: JudgeTask) -> Judgment[DetailT]:
        """Judge the response of a task."""
        shown, left_out = task.shortened(self.limit)
        with showing(task):
            judgment = await self.judge(self.case_of(shown))
        judgment = self.with_numbers(task, judgment)
        return replace(judgment, left_out=left_out) if left_out else judgment

    def with_numbers(self, task: JudgeTask, judgment: Judgment[DetailT]) -> Judgment[DetailT]:
        """The judgment with the numbers that this judge makes of its detail."""
        return replace(
            judgment,
            unit=None if judgment.score is None else self.unit(judgment.score),
            components=self.components(judgment),
            confidences=self.confidences(judgment),
            contributions=self.contributions(judgment),
            verdicts=self.verdicts(task, judgment),
            tags=self.tags(judgment),
        )

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """The response's score."""
        judgment = await self.judge_task(task)
        result = response_judgment(judgment, judgment.unit_score, judgment.components)
        return [replace(result, verdicts=judgment.verdicts, tags=judgment.tags)]


class ResponseJudge(SingleJudge[SettingsT, JudgeTask, DetailT], Generic[SettingsT, DetailT]):
    """A judge that is asked about the task itself, and whose judgments have their numbers."""

    def case_of(self, task: JudgeTask) -> JudgeTask:
        """The task."""
        return task

    def with_numbers(self, task: JudgeTask, judgment: Judgment[DetailT]) -> Judgment[DetailT]:
        """The judgment, which has its numbers already."""
        return judgment


@dataclass(frozen=True, slots=True)
class JudgeDefinition:
    """A kind of judge, as a line in `judgegym.judges.scorers.registry` names it.

    Attributes:
        settings: the settings that it reads.
        about: what it does, for `--help`.
        judge: opens it: the settings, the client of the judge model, and the rubric of tasks that have none.
        prompts: its prompts with plausible replies, for the offline stand-in.
        fields: which fields of a task it is shown, of those in `TASK_FIELDS`.
        reads_rubric: the setting `rubric` is its rubric where a task has none.
        most_together: the most responses that it compares; `None` if it sees each by itself.
        asks_endpoint: it asks a model; one that asks none needs no endpoint, key or price.
        unread: settings of all judges that it does not read.
    """

    settings: type[JudgeSettings]
    about: str
    judge: Callable[[Any, ChatClient, str | None], TaskJudge]  # the first argument has the type of `settings`
    prompts: tuple[PromptFormat, ...]
    fields: frozenset[str] = frozenset()
    reads_rubric: bool = False
    most_together: int | None = None
    asks_endpoint: bool = True
    unread: frozenset[str] = frozenset()


class Revision(NamedTuple):
    """A revised verdict as the history shows it, its reasons, and the critique before them."""

    verdict: ShownVerdict
    reasoning: str
    critique: str


class CritiqueRequest(NamedTuple):
    """A request to critique and revise one verdict of a judgment.

    Attributes:
        component: which verdict of the judgment, such as `game_1`; empty where there is only one.
        verdict: the verdict before the critique.
        reasoning: its reasons.
        messages: the request to critique and revise it.
    """

    component: str
    verdict: ShownVerdict
    reasoning: str
    messages: Sequence[Message]


def critique_messages(prompt: Sequence[Message], text: str) -> list[Message]:
    """The prompt of a critique: what the judge was shown, its evaluation, and the request to critique and revise it.

    It begins with the judge's prompt, unchanged, which a server with a prefix cache has computed already.

    Args:
        prompt: the judge's prompt; its last message is the user's.
        text: the judge's answer, without its thinking.
    """
    *before, last = prompt
    delimited = delimit((text,), _LOOKALIKES, delimited=(last["content"],))
    markers, (shown,) = delimited.markers, delimited.texts
    parts = [
        last["content"],
        f"{markers.notice}{markers.title('YOUR PREVIOUS EVALUATION')}\n{shown}\n"
        f"{markers.title('END OF YOUR PREVIOUS EVALUATION')}",
        prompts.load("critique"),
    ]
    return [*before, Message(role="user", content="\n\n".join(parts))]


class VerdictJudge(SingleJudge[SettingsT, CaseT, DetailT], Generic[SettingsT, CaseT, DetailT, VerdictT]):
    """A judge that can critique and revise its verdicts, in at most `judge_critique_rounds` rounds."""

    extra: Mapping[str, JSON] = {}
    """Further fields of its requests."""

    @abstractmethod
    async def first_judgment(self, case: CaseT) -> Judgment[DetailT]:
        """Judge a case, without self-critique."""

    @abstractmethod
    def read(self, case: CaseT, choice: Choice) -> ParsedVerdict[VerdictT] | NoVerdict | None:
        """Read the verdict of an answer."""

    @abstractmethod
    def form(self, case: CaseT) -> VerdictForm:
        """The form of a verdict as a JSON object."""

    @abstractmethod
    def critique_requests(self, case: CaseT, judgment: Judgment[DetailT]) -> list[CritiqueRequest]:
        """A request for each verdict of a judgment that has a score."""

    def revision(self, call: JudgeCall[Any], verdict: VerdictT) -> Revision:
        """The history's entry of a call that has a revised verdict: by default a word, with the text's explanation."""
        critique, reasons = explained(after_thinking(call.text).strip())
        return Revision(cast(ShownVerdict, verdict), reasons, critique)

    @abstractmethod
    def apply_revisions(
        self, case: CaseT, judgment: Judgment[DetailT], revisions: Mapping[str, JudgeCall[VerdictT]]
    ) -> Judgment[DetailT]:
        """The judgment with the revised verdicts: at least one call, by component, each with a value."""

    async def ask(
        self, case: CaseT, messages: Sequence[Message], name: str, vote: Vote = ONLY_VOTE, *, critiques: bool = False
    ) -> JudgeCall[VerdictT]:
        """Ask for a verdict; in a critique the object that is asked for begins with that."""
        form = self.settings.form(self.form(case))
        if form is not None and critiques:
            form = form.with_critique()
        read = partial(self.read, case)
        return await ask(self.client, messages, read, name=name, vote=vote, extra=self.extra, form=form)

    async def judge(self, case: CaseT) -> Judgment[DetailT]:
        """Judge a case, then reconsider the judgment; one without a score is returned unchanged.

        Returns:
            The judge's judgment with its last verdicts, every call that was made, and the history of the rounds. Never
            raises because of a judge's answer.
        """
        judgment = await self.first_judgment(case)
        rounds = self.settings.judge_critique_rounds
        if judgment.score is None or not rounds:
            return judgment
        before, history, settled = judgment.score, list[CritiqueRound](), set[str]()
        for number in range(1, rounds + 1):
            requests = [one for one in self.critique_requests(case, judgment) if one.component not in settled]
            names = ["_".join(filter(None, (f"critique_{number}", request.component))) for request in requests]
            calls = await all_results(
                self.ask(case, request.messages, name, Vote(number), critiques=True)
                for request, name in zip(requests, names, strict=True)
            )
            asked = list(zip(requests, calls, strict=True))
            revisions = {request.component: call for request, call in asked if call.value is not None}
            revised = self.apply_revisions(case, judgment, revisions) if revisions else judgment
            # The cost of all calls counts.
            judgment = replace(revised, calls=(*judgment.calls, *calls), suspects=judgment.suspects)
            latest = [self._round(number, request, call) for request, call in asked]
            history += latest
            settled |= {entry.component for entry in latest if entry.status == "unchanged"}
            if all(entry.status == "unchanged" for entry in latest):
                break
        return replace(judgment, critique=Critique(before, tuple(history)))

    def _round(self, number: int, request: CritiqueRequest, call: JudgeCall[VerdictT]) -> CritiqueRound:
        """The history's entry of a round."""
        component, before, reasoning, _ = request
        after = Revision(before, reasoning, "") if call.value is None else self.revision(call, call.value)
        change: Literal["revised", "unchanged"] = "unchanged" if after.verdict == before else "revised"
        status, said = "failed" if call.value is None else change, (after.critique, after.verdict, after.reasoning)
        return CritiqueRound(number, component, before, reasoning, call.text, *said, status, call.error)
