"""Self-critique (RL4F): after its judgment a judge critiques its rationale and revises its verdict, one call a round.

Guarantees: the score is that of the last round that could be read; a failed round keeps the score and is recorded as
failed; a verdict that a round does not change gets no further round.

Source: the specification's rationale-based self-critique loops; Akyürek et al., RL4F: Generating Natural Language
Feedback with Reinforcement Learning for Repairing Model Outputs (2023).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Generic, TypeVar

from judgegym.judges.core.calls import Vote, ask_choice
from judgegym.judges.core.critique import CritiqueRequest
from judgegym.judges.core.judge import CritiqueableJudge, Judge
from judgegym.judges.core.judgment import Critique, CritiqueRound, JudgeCall, Judgment
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient

CaseT = TypeVar("CaseT")
DetailT = TypeVar("DetailT")
VerdictT = TypeVar("VerdictT")


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
