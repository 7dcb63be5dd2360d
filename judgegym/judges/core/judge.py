"""The contract of a judge: a case in, a judgment out.

A request to critique and revise one verdict of a judgment.

A judge that supports self-critique makes such a request for each of its verdicts, and applies the revisions
(`judgegym.judges.core.judge.CritiqueableJudge`). Most build the prompt with `critique_messages`.

Self-critique (RL4F): after its judgment a judge critiques its rationale and revises its verdict, one call a round.

Guarantees: the score is that of the last round that could be read; a failed round keeps the score and is recorded as
failed; a verdict that a round does not change gets no further round.

Source: the specification's rationale-based self-critique loops; Akyürek et al., RL4F: Generating Natural Language
Feedback with Reinforcement Learning for Repairing Model Outputs (2023).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from judgegym.judges import prompts
from judgegym.judges.core.calls import NoVerdict, Vote, ask_choice
from judgegym.judges.core.delimiters import Lookalikes, delimit
from judgegym.judges.core.judgment import Critique, CritiqueRound, JudgeCall, Judgment
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictForm
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import JSON, Choice, Message

ShownVerdict: TypeAlias = "str | int | float"
"""A verdict as the history of a critique shows it."""

CaseT_contra = TypeVar("CaseT_contra", contravariant=True)
DetailT = TypeVar("DetailT")
DetailT_co = TypeVar("DetailT_co", covariant=True)
VerdictT = TypeVar("VerdictT")
CaseT = TypeVar("CaseT")


_LOOKALIKES = Lookalikes("your previous evaluation")


class Revision(NamedTuple):
    """A revised verdict as the history shows it, its reasons, and the critique before them."""

    verdict: ShownVerdict
    reasoning: str
    critique: str


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class CritiqueRequest(Generic[VerdictT]):
    """A request to critique and revise one verdict of a judgment.

    Attributes:
        component: which verdict of the judgment, such as `game_1`; empty where there is only one.
        verdict: the verdict before the critique.
        reasoning: its reasons.
        messages: the request to critique and revise it.
        read: reads the revised verdict from an answer; `NoVerdict` says why there is none.
        revision: makes the history's entry of a call that has a revised verdict.
        extra: further fields of the request.
        form: the form that the answer is to have, critique and all, if not that of the messages alone.
    """

    component: str
    verdict: ShownVerdict
    reasoning: str
    messages: Sequence[Message]
    read: Callable[[Choice], ParsedVerdict[VerdictT] | NoVerdict | None]
    revision: Callable[[JudgeCall[VerdictT]], Revision]
    extra: Mapping[str, JSON] = field(default_factory=dict)
    form: VerdictForm | None = None

    def held_to(self, form: VerdictForm | None) -> CritiqueRequest[VerdictT]:
        """The request with the form of the verdict; the critique comes before it."""
        return self if form is None else replace(self, form=form.with_critique())


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


class Judge(Protocol[CaseT_contra, DetailT_co]):
    """Judges cases of one type. A case is a frozen dataclass that holds all texts that the judge sees."""

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""

    async def judge(self, case: CaseT_contra, /) -> Judgment[DetailT_co]:
        """Judge a case. A failure is a judgment without a score; never raises because of a model's answer."""


class CritiqueableJudge(Judge[CaseT_contra, DetailT], Protocol[CaseT_contra, DetailT, VerdictT]):
    """A judge that can critique and revise its verdicts: see `judgegym.judges.core.judge`."""

    def critique_requests(self, case: CaseT_contra, judgment: Judgment[DetailT], /) -> list[CritiqueRequest[VerdictT]]:
        """A request for each verdict of a judgment that has a score."""

    def apply_revisions(
        self, case: CaseT_contra, judgment: Judgment[DetailT], revisions: Mapping[str, JudgeCall[VerdictT]], /
    ) -> Judgment[DetailT]:
        """The judgment with the revised verdicts: at least one call, by component, each with a value."""


def with_self_critique(judge: CritiqueableJudge[CaseT, DetailT, VerdictT], rounds: int) -> Judge[CaseT, DetailT]:
    """A judge that reconsiders its judgments.

    Args:
        judge: the judge.
        rounds: the most rounds; 0 returns `judge` itself.

    Raises:
        ValueError: `rounds` is negative.
    """
    if rounds < 0:
        raise ValueError(f"rounds is {rounds}; expected 0 or more")
    return SelfCritiqueJudge(judge, rounds) if rounds else judge


class SelfCritiqueJudge(Generic[CaseT, DetailT, VerdictT]):
    """A judge and the rounds in which it reconsiders its own judgment."""

    def __init__(self, judge: CritiqueableJudge[CaseT, DetailT, VerdictT], rounds: int) -> None:
        """Reconsider the judgments of `judge` in at most this many rounds."""
        self._judge = judge
        self._rounds = rounds

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""
        return self._judge.client

    async def judge(self, case: CaseT) -> Judgment[DetailT]:
        """Judge a case, then reconsider the judgment; a judgment without a score is returned unchanged.

        Returns:
            The judge's judgment with its last verdicts, every call that was made, and the history of the rounds.
        """
        judgment = await self._judge.judge(case)
        if judgment.score is None:
            return judgment
        before, history, settled = judgment.score, list[CritiqueRound](), set[str]()
        for number in range(1, self._rounds + 1):
            requests = [
                request for request in self._judge.critique_requests(case, judgment) if request.component not in settled
            ]
            calls = await all_results(self._ask(request, number) for request in requests)
            judgment = self._apply(case, judgment, requests, calls)
            rounds = [_round(number, request, call) for request, call in zip(requests, calls, strict=True)]
            history += rounds
            settled |= {entry.component for entry in rounds if entry.status == "unchanged"}
            if all(entry.status == "unchanged" for entry in rounds):
                break
        return replace(judgment, critique=Critique(before, tuple(history)))

    async def _ask(self, request: CritiqueRequest[VerdictT], number: int) -> JudgeCall[VerdictT]:
        component = f"_{request.component}" if request.component else ""
        return await ask_choice(
            self.client,
            request.messages,
            request.read,
            name=f"critique_{number}{component}",
            vote=Vote(number),
            extra=request.extra,
            form=request.form,
        )

    def _apply(
        self,
        case: CaseT,
        judgment: Judgment[DetailT],
        requests: list[CritiqueRequest[VerdictT]],
        calls: list[JudgeCall[VerdictT]],
    ) -> Judgment[DetailT]:
        """The judgment with the revised verdicts that could be read, and with all calls, whose cost counts."""
        revisions = {
            request.component: call for request, call in zip(requests, calls, strict=True) if call.value is not None
        }
        revised = self._judge.apply_revisions(case, judgment, revisions) if revisions else judgment
        return replace(revised, calls=(*judgment.calls, *calls), suspects=judgment.suspects)


def _round(number: int, request: CritiqueRequest[VerdictT], call: JudgeCall[VerdictT]) -> CritiqueRound:
    failed = CritiqueRound(
        round=number,
        component=request.component,
        before=request.verdict,
        before_reasoning=request.reasoning,
        raw=call.text,
        critique="",
        after=request.verdict,
        after_reasoning=request.reasoning,
        status="failed",
        error=call.error,
    )
    if call.value is None:
        return failed
    after = request.revision(call)
    return replace(
        failed,
        critique=after.critique,
        after=after.verdict,
        after_reasoning=after.reasoning,
        status="unchanged" if after.verdict == request.verdict else "revised",
        error=None,
    )
