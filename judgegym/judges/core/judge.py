"""The contract of a judge: a case in, a judgment out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from judgegym.judges.core.critique import CritiqueRequest
from judgegym.judges.core.judgment import JudgeCall, Judgment
from judgegym.llm.client import ChatClient

CaseT_contra = TypeVar("CaseT_contra", contravariant=True)
DetailT = TypeVar("DetailT")
DetailT_co = TypeVar("DetailT_co", covariant=True)
VerdictT = TypeVar("VerdictT")


class Judge(Protocol[CaseT_contra, DetailT_co]):
    """Judges cases of one type. A case is a frozen dataclass that holds all texts that the judge sees."""

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""

    async def judge(self, case: CaseT_contra, /) -> Judgment[DetailT_co]:
        """Judge a case. A failure is a judgment without a score; never raises because of a model's answer."""


class CritiqueableJudge(Judge[CaseT_contra, DetailT], Protocol[CaseT_contra, DetailT, VerdictT]):
    """A judge that can critique and revise its verdicts: see `judgegym.judges.core.self_critique`."""

    def critique_requests(self, case: CaseT_contra, judgment: Judgment[DetailT], /) -> list[CritiqueRequest[VerdictT]]:
        """A request for each verdict of a judgment that has a score."""

    def apply_revisions(
        self, case: CaseT_contra, judgment: Judgment[DetailT], revisions: Mapping[str, JudgeCall[VerdictT]], /
    ) -> Judgment[DetailT]:
        """The judgment with the revised verdicts: at least one call, by component, each with a value."""
