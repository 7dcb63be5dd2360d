"""Self-critique (RL4F): after its judgment a judge critiques its own rationale and revises it, in one call a round.

Guarantees: the score is that of the last round that could be read; a failed round keeps it and says so; a verdict that
a round leaves as it was is not asked about again.

Source: the specification's rationale-based self-critique loops; Akyürek et al., RL4F: Generating Natural Language
Feedback with Reinforcement Learning for Repairing Model Outputs (2023).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Generic

from judges.core.calls import Vote, ask_choice
from judges.core.critique import CaseP, CritiqueableJudge, CritiqueRequest, DetailT
from judges.core.judgment import Critique, CritiqueRound, JudgeCall, Judgment
from judges.llm.client import ChatClient


class SelfCritique(Generic[CaseP, DetailT]):
    """A judge around a judge."""

    def __init__(self, judge: CritiqueableJudge[CaseP, DetailT], rounds: int, critic: ChatClient | None = None) -> None:
        """Reconsider the judgments of `judge`.

        Args:
            judge: any judge of this project.
            rounds: how often at the most; with 0 this is `judge` itself.
            critic: the model that critiques and revises; the judge's own if `None`.

        Raises:
            ValueError: `rounds` is negative.
        """
        if rounds < 0:
            raise ValueError(f"rounds is {rounds}; expected 0 or more")
        self._judge = judge
        self._rounds = rounds
        self._critic = critic

    @property
    def client(self) -> ChatClient:
        """The judge model."""
        return self._judge.client

    async def judge(self, *args: CaseP.args, **kwargs: CaseP.kwargs) -> Judgment[DetailT]:
        """Judge a case, and then reconsider the judgment; one without a score is left as it is.

        Returns:
            The judge's judgment with its last verdicts, every call that was made, and the history of the rounds.
        """
        judgment = await self._judge.judge(*args, **kwargs)
        if self._rounds == 0 or judgment.score is None:
            return judgment
        before, history = judgment.score, list[CritiqueRound]()
        settled: set[str] = set()
        for number in range(1, self._rounds + 1):
            requests = [
                each
                for each in self._judge.critique_requests(judgment, *args, **kwargs)
                if each.component not in settled
            ]
            calls = await asyncio.gather(*(self._ask(each, number) for each in requests))
            rounds = [_round(number, request, call) for request, call in zip(requests, calls, strict=True)]
            revisions = {
                request.component: call for request, call in zip(requests, calls, strict=True) if call.value is not None
            }
            revised = self._judge.apply_revisions(judgment, revisions, *args, **kwargs) if revisions else judgment
            judgment = replace(revised, calls=(*judgment.calls, *calls))
            history += rounds
            settled |= {each.component for each in rounds if each.status == "unchanged"}
            if all(each.status == "unchanged" for each in rounds):
                break
        return replace(judgment, critique=Critique(before, tuple(history)))

    async def _ask(self, request: CritiqueRequest, number: int) -> JudgeCall:
        component = f"_{request.component}" if request.component else ""
        return await ask_choice(
            self._critic or self.client,
            request.messages,
            request.read,
            name=f"critique_{number}{component}",
            vote=Vote(number),
            extra=request.extra,
        )


def _round(number: int, request: CritiqueRequest, call: JudgeCall) -> CritiqueRound:
    before = CritiqueRound(
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
        return before
    after = request.revision(call)
    return replace(
        before,
        critique=after.critique,
        after=after.verdict,
        after_reasoning=after.reasoning,
        status="unchanged" if after.verdict == request.verdict else "revised",
        error=None,
    )
