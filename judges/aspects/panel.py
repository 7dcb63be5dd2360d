"""Several aspects of one submission as one judgment.

With w the weight of an aspect and v its value from 0 (bad) to 1 (good), the score is Σ w·v / Σ w. A value is the
majority's verdict (`majority`) or the share of yes votes (`share`), turned around for polarity −1. If the majority
fails a submission in an aspect with `veto`, the score is the floor. Every aspect must have its verdict: without one
there is no score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from judges.aspects.judge import Aspect, AspectDetail, AspectJudge, AspectScoring, AspectSettings, aspect_judgment
from judges.core.critique import CritiqueRequest
from judges.core.judgment import JudgeCall, Judgment, Status
from judges.core.naming import slug
from judges.llm.client import ChatClient
from judges.llm.errors import SettingsError

FLOOR = 0.0
"""What a vetoed submission is worth."""


@dataclass(frozen=True, slots=True)
class PanelDetail:
    """How several aspects' verdicts came about.

    Attributes:
        aspects: each aspect's verdict, in their order.
        vetoed_by: the aspect whose veto decided, if one did.
        gold: the verdict that people gave on the one aspect, where the judge is compared with them.
    """

    aspects: tuple[AspectDetail, ...]
    vetoed_by: str | None = None
    gold: bool | None = None


class AspectPanel:
    """Judges submissions by several aspects at once."""

    def __init__(
        self,
        client: ChatClient,
        aspects: Sequence[Aspect],
        settings: AspectSettings,
        *,
        scoring: AspectScoring = "majority",
    ) -> None:
        """Judge `aspects` through `client`.

        Raises:
            SettingsError: there is no aspect, or two have the same name.
        """
        check_aspects(aspects)
        if scoring == "share":  # votes that end with a majority would make every share look surer than the judge is
            settings = replace(settings, every_vote=True)
        self.judges = [AspectJudge(client, aspect, settings) for aspect in aspects]
        self.scoring = scoring

    async def judge(
        self,
        *,
        submission: str,
        question: str | None = None,
        context: str | None = None,
        reference: str | None = None,
    ) -> Judgment[PanelDetail]:
        """Judge all aspects at once; see `AspectJudge.judge` for the arguments.

        Returns:
            A score from 0 to 1 and a label such as `harmfulness=no coherence=yes`; or no score and the reason.
        """
        found = await asyncio.gather(
            *(
                judge.judge(submission=submission, question=question, context=context, reference=reference)
                for judge in self.judges
            )
        )
        return self.combine(found)

    @property
    def client(self) -> ChatClient:
        """The judge model."""
        return self.judges[0].client

    def critique_requests(
        self,
        judgment: Judgment[PanelDetail],
        *,
        submission: str,
        question: str | None = None,
        context: str | None = None,
        reference: str | None = None,
    ) -> list[CritiqueRequest]:
        """Each aspect's verdict."""
        return [
            opinion
            for judge, of_aspect in self._parts(judgment)
            for opinion in judge.critique_requests(
                of_aspect, submission=submission, question=question, context=context, reference=reference
            )
        ]

    def apply_revisions(
        self,
        judgment: Judgment[PanelDetail],
        revisions: Mapping[str, JudgeCall],
        *,
        submission: str,
        question: str | None = None,
        context: str | None = None,
        reference: str | None = None,
    ) -> Judgment[PanelDetail]:
        """The revised verdicts in place of earlier ones, combined anew."""
        parts = [
            judge.apply_revisions(
                of_aspect,
                revisions,
                submission=submission,
                question=question,
                context=context,
                reference=reference,
            )
            if judge.aspect.name in revisions
            else of_aspect
            for judge, of_aspect in self._parts(judgment)
        ]
        return replace(self.combine(parts), calls=judgment.calls)

    def _parts(self, judgment: Judgment[PanelDetail]) -> list[tuple[AspectJudge, Judgment[AspectDetail]]]:
        """Each aspect's judge with its judgment."""
        assert judgment.detail is not None
        return [
            (judge, aspect_judgment(detail)) for judge, detail in zip(self.judges, judgment.detail.aspects, strict=True)
        ]

    def combine(self, found: Sequence[Judgment[AspectDetail]]) -> Judgment[PanelDetail]:
        """One judgment from those of the aspects, in their order."""
        details = tuple(judgment.detail for judgment in found if judgment.detail is not None)
        calls = tuple(call for judgment in found for call in judgment.calls)
        failed = [judgment for judgment in found if judgment.status is not Status.OK]
        if failed:
            is_down = any(judgment.status is Status.JUDGE_FAILED for judgment in failed)
            status = Status.JUDGE_FAILED if is_down else Status.UNPARSABLE
            reasons = "; ".join(judgment.explanation for judgment in failed)
            return Judgment(None, status, explanation=reasons, calls=calls, detail=PanelDetail(details))
        aspects = [judge.aspect for judge in self.judges]
        score, veto = combined_score(aspects, details, self.scoring)
        label = " ".join(f"{aspect.name}={judgment.label}" for aspect, judgment in zip(aspects, found, strict=True))
        reasons = "\n\n".join(
            f"{aspect.name}: {judgment.label}. {judgment.explanation}"
            for aspect, judgment in zip(aspects, found, strict=True)
        )
        return Judgment(score, Status.OK, label, reasons, calls, PanelDetail(details, veto))


def combined_score(
    aspects: Sequence[Aspect], details: Sequence[AspectDetail], scoring: AspectScoring
) -> tuple[float, str | None]:
    """The score of a submission, from 0 to 1, and the aspect whose veto made it the floor.

    Args:
        aspects: with polarity, weight and veto.
        details: the verdict of each.
        scoring: what an aspect's value is.

    Raises:
        ValueError: an aspect has no verdict.
    """
    total = weight = 0.0
    veto: str | None = None
    for aspect, detail in zip(aspects, details, strict=True):
        if detail.yes is None or detail.yes_share is None:
            raise ValueError(f"the aspect {aspect.name!r} has no verdict")
        total += aspect.weight * aspect.worth(float(detail.yes) if scoring == "majority" else detail.yes_share)
        weight += aspect.weight
        if aspect.veto and veto is None and not aspect.passes(detail.yes):
            veto = aspect.name
    return (total / weight, None) if veto is None else (FLOOR, veto)


def check_aspects(aspects: Sequence[Aspect]) -> None:
    """Whether aspects can be told apart.

    Raises:
        SettingsError: there is none, or two have the same name.
    """
    names = [aspect.name for aspect in aspects]
    if not names:
        raise SettingsError("aspects: expected at least one")
    folded = [slug(name) for name in names]  # as they stand in the names of metrics
    same = [name for name, other in zip(names, folded, strict=True) if folded.count(other) > 1]
    if same:
        raise SettingsError(f"aspects: these have the same name: {', '.join(map(repr, same))}")
