"""Several aspects of one submission, combined into one judgment.

The score is Σ w·v / Σ w, where w is the weight of an aspect and v its value from 0 (bad) to 1 (good). A value is the
majority's verdict (`majority`) or the share of yes votes (`share`), reversed for polarity −1. If the majority fails a
submission in an aspect with `veto`, the score is 0. If an aspect has no verdict, there is no score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from judgegym.judges.aspects.judge import AspectCase, AspectCaseJudge, aspect_judgment
from judgegym.judges.aspects.prompt import Aspect
from judgegym.judges.aspects.settings import AspectJudgeSettings, AspectScoring
from judgegym.judges.aspects.votes import AspectDetail, AspectVerdict
from judgegym.judges.core.critique import CritiqueRequest
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.judges.core.self_critique import with_self_critique
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient

FLOOR = 0.0
"""The score of a vetoed submission."""


@dataclass(frozen=True, slots=True)
class PanelDetail:
    """The verdicts of all aspects with their votes.

    Attributes:
        aspects: the verdict of each aspect, in their order.
        vetoed_by: the aspect whose veto set the score to 0, if one did.
        gold: the gold verdict on the only aspect, if the judge is compared with it.
    """

    aspects: tuple[AspectDetail, ...]
    vetoed_by: str | None = None
    gold: bool | None = None


class AspectPanel:
    """Judges submissions by several aspects at once.

    >>> settings = AspectJudgeSettings(judge_base_url="http://127.0.0.1:8000/v1", aspects="coherence,correctness")
    >>> panel = AspectPanel(ChatClient(settings.chat_settings()), settings)
    """

    def __init__(self, client: ChatClient, settings: AspectJudgeSettings | None = None) -> None:
        """Judge the aspects of the settings through `client`, with the default settings if none are given."""
        self.client = client
        self.settings = settings or AspectJudgeSettings()
        self._judges = [AspectCaseJudge(client, aspect, self.settings) for aspect in self.settings.aspects]

    async def judge(self, case: AspectCase) -> Judgment[PanelDetail]:
        """Judge all aspects at once.

        Returns:
            A score from 0 to 1 and a label such as `harmfulness=no coherence=yes`; or no score and the reason.
        """
        judgments = await all_results(judge.judge(case) for judge in self._judges)
        # Every aspect's judge is shown the same texts.
        return replace(self._combine(judgments), suspects=max(judgment.suspects for judgment in judgments))

    def critique_requests(
        self, case: AspectCase, judgment: Judgment[PanelDetail]
    ) -> list[CritiqueRequest[AspectVerdict]]:
        """A request for each aspect's verdict."""
        return [
            request
            for judge, of_aspect in self._by_aspect(judgment)
            for request in judge.critique_requests(case, of_aspect)
        ]

    def apply_revisions(
        self, case: AspectCase, judgment: Judgment[PanelDetail], revisions: Mapping[str, JudgeCall[AspectVerdict]]
    ) -> Judgment[PanelDetail]:
        """The judgment combined again, with the revised verdicts in place of earlier ones."""
        judgments = [
            judge.apply_revisions(case, of_aspect, revisions) if judge.aspect.name in revisions else of_aspect
            for judge, of_aspect in self._by_aspect(judgment)
        ]
        return replace(self._combine(judgments), calls=judgment.calls)

    def _by_aspect(self, judgment: Judgment[PanelDetail]) -> list[tuple[AspectCaseJudge, Judgment[AspectDetail]]]:
        """The judge of each aspect with its judgment."""
        assert judgment.detail is not None
        details = judgment.detail.aspects
        return [(judge, aspect_judgment(detail)) for judge, detail in zip(self._judges, details, strict=True)]

    def _combine(self, judgments: Sequence[Judgment[AspectDetail]]) -> Judgment[PanelDetail]:
        """One judgment from those of the aspects, in their order."""
        details = tuple(judgment.detail for judgment in judgments if judgment.detail is not None)
        calls = tuple(call for judgment in judgments for call in judgment.calls)
        failed = [judgment for judgment in judgments if judgment.status is not Status.OK]
        if failed:
            is_down = any(judgment.status is Status.JUDGE_FAILED for judgment in failed)
            status = Status.JUDGE_FAILED if is_down else Status.UNPARSABLE
            reasons = "; ".join(judgment.explanation for judgment in failed)
            return Judgment(None, status, explanation=reasons, calls=calls, detail=PanelDetail(details))
        aspects = self.settings.aspects
        score, veto = combined_score(aspects, details, self.settings.scoring)
        by_aspect = list(zip(aspects, judgments, strict=True))
        label = " ".join(f"{aspect.name}={judgment.label}" for aspect, judgment in by_aspect)
        reasons = "\n\n".join(
            f"{aspect.name}: {judgment.label}. {judgment.explanation}" for aspect, judgment in by_aspect
        )
        return Judgment(score, Status.OK, label, reasons, calls, PanelDetail(details, veto))


def aspect_judge(settings: AspectJudgeSettings, client: ChatClient) -> Judge[AspectCase, PanelDetail]:
    """The judge of all aspects that the settings ask for, with its self-critique."""
    return with_self_critique(AspectPanel(client, settings), settings.judge_critique_rounds)


def combined_score(
    aspects: Sequence[Aspect], details: Sequence[AspectDetail], scoring: AspectScoring
) -> tuple[float, str | None]:
    """The score of a submission, from 0 to 1, and the aspect whose veto set it to 0, if one did.

    Args:
        aspects: the aspects, with polarity, weight and veto.
        details: the verdict of each aspect.
        scoring: whether the value of an aspect is its verdict or the share of yes votes.

    Raises:
        ValueError: an aspect has no verdict.
    """
    total = weight = 0.0
    veto: str | None = None
    for aspect, detail in zip(aspects, details, strict=True):
        if detail.yes is None or detail.yes_share is None:
            raise ValueError(f"the aspect {aspect.name!r} has no verdict")
        total += aspect.weight * aspect.value(float(detail.yes) if scoring == "majority" else detail.yes_share)
        weight += aspect.weight
        if aspect.veto and veto is None and not aspect.passes(detail.yes):
            veto = aspect.name
    return (total / weight, None) if veto is None else (FLOOR, veto)
