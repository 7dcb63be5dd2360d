"""A cascade: a cheap judge decides where it is sure enough, a strong judge decides the rest.

The cheap judge's confidence (`cascade_confidence`), from 0 to 1:

* `margin`: how far its score is from ½, 2·|v − ½|; for a jury, how far its members agree on a side;
* `orders`: 1 − |p₁ − p₂| of the points in both orders of the answers (`arena_hard`);
* `votes`: how far its votes agree, |2·share − 1| of the largest share (`aspect`, `checklist`;
  `rubric` and `prompt` with `samples_per_item`);
* `probability`: of its verdict (`rubric` and `prompt` with `weighting=logprobs`; `aspect`,
  `checklist` and `rubric` with `judge_api=decisions`);
* `members`: 1 − the distance between the highest and the lowest score of a jury's members.

The cheap judge decides a row if its confidence is above the threshold, and a share of the rows
where it equals the threshold, chosen by seed and row. `judgegym replay --choose` chooses threshold
and share from recorded runs, for a promise that holds with a given certainty
(`judgegym.statistics.cascades`).

Guarantees: a cheap judge that fails never decides; if the strong judge fails, there is no score,
    since the cheap one was not sure; responses that are judged together have the same judge, and so
    the same scale: the strong one if the cheap one is unsure of any. A seeded share of the rows
    that the cheap judge decides is also shown to the strong one, so that a broken promise is
    noticed; the score stays the cheap judge's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import model_validator
from typing_extensions import Self

from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judge import Confidence, JudgeDefinition, PartsDefinition
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.core.seeding import derive_seed
from judgegym.judges.core.tasks import (
    JudgeTask,
    ResponseJudgment,
    make_response_judgment,
    share_judgment,
)
from judgegym.judges.parts.part import (
    Members,
    Part,
    PartOptions,
    PartsDetail,
    PartsJudge,
    parse_members,
)
from judgegym.llm.at_once import gather_results
from judgegym.llm.client import ChatClient

CONFIDENCE_DIGITS = 9
"""Decimals of a confidence, so that 2·0.8 − 1 equals the threshold 0.6."""
CONFIDENCE, ESCALATED = "cascade.confidence", "cascade.escalated"
"""Components of a cascade's score: the cheap judge's confidence, and whether (0 or 1) the strong
one decides."""


class CascadeSettings(JudgeSettings):
    """The judges of a cascade, and when the cheap one decides."""

    cascade: Members = setting({}, common=True)
    """With the judge cascade: let the first of these two judges decide where it is sure, and the
    second one the rest. A list such as [{"judge_model_name": "a"}, {"judge_model_name": "b"}], an
    object by names, or names of models: gpt-6-luna,gpt-6.1-sol. Each inherits unset settings from
    the command."""
    cascade_confidence: Confidence = setting("margin", common=True)
    """Measure the first judge's confidence by this. margin: the distance of its score from 0.5.
    orders: the agreement of both orders. votes: the agreement of its votes. probability: that of
    its verdict. members: the agreement of a jury's members."""
    cascade_threshold: float = setting(1.0, ge=0, le=1, common=True)
    """Let the first judge decide where its confidence is above this, from 0 to 1; `judgegym replay
    --choose` finds it from two runs."""
    cascade_share: float = setting(1.0, ge=0, le=1)
    """Let the first judge decide this share of the rows whose confidence equals the threshold,
    chosen by seed and row."""
    cascade_recheck: float = setting(0.02, ge=0, le=1)
    """Also show this share of the rows that the first judge decides to the second judge, to measure
    their agreement."""
    cascade_harm: float | None = setting(None, gt=0, lt=1)
    """Set the promise that the threshold was chosen for: the maximum share of rows that the first
    judge decides differently from the second. Rows shown to both judges then test it, and a broken
    promise is reported."""

    @model_validator(mode="after")
    def _has_two_judges(self) -> Self:
        if self.cascade and len(self.cascade) != 2:
            judge_count = len(self.cascade)
            raise ValueError(
                f"cascade: expected two judges, the cheap one first, found {judge_count}"
            )
        return self


def cheap_judge_decides(settings: CascadeSettings, confidence: float, number: float) -> bool:
    """Return whether the cheap judge decides a row with this confidence.

    Args:
        settings: the cascade's settings.
        confidence: from 0 to 1; below 0 for a judge without a score, which never decides.
        number: the row's number from 0 to 1 (`row_number`), which decides where the confidence
            equals the threshold.
    """
    confidence = round(confidence, CONFIDENCE_DIGITS)
    threshold = round(settings.cascade_threshold, CONFIDENCE_DIGITS)
    if confidence == threshold:
        return number < settings.cascade_share
    return confidence > threshold


def row_number(seed: int, task: JudgeTask, purpose: str) -> float:
    """Return a number from 0 to 1 for all responses to a row, by seed, row and purpose."""
    row = repr((task.prompt, task.reference, task.rubric, task.baseline, task.context))
    return derive_seed(seed, row, purpose) / 2**64


class CascadeJudge(PartsJudge[CascadeSettings, PartOptions]):
    """A judge that decides by the cheap judge, or by the strong one."""

    part_label = "judge"

    def __init__(
        self, settings: CascadeSettings, client: ChatClient, parts: Sequence[Part[PartOptions]]
    ) -> None:
        """Set the two judges: the cheap one first, then the strong one."""
        super().__init__(settings, client, parts)
        self.cheap, self.strong = parts

    def role(self, part: Part[PartOptions]) -> str:
        """Return `cheap` or `strong`."""
        if part is self.cheap:
            return "cheap"
        return "strong"

    def compares(self, task: JudgeTask) -> bool:
        """Return whether there are several responses: they need the same judge."""
        return len(task.responses) > 1

    async def judge(self, task: JudgeTask) -> Judgment[PartsDetail]:
        """Ask the cheap judge; also the strong one if the cheap one is unsure, or for a recheck."""
        judgments = await self.ask([self.cheap], task)
        cheap_judgment, settings = judgments[self.cheap.name], self.settings
        confidence = round(
            cheap_judgment.confidences.get(settings.cascade_confidence, 0.0), CONFIDENCE_DIGITS
        )
        number = row_number(settings.seed, task, "cascade")
        is_escalated = cheap_judgment.score is None or not cheap_judge_decides(
            settings, confidence, number
        )
        if is_escalated or row_number(settings.seed, task, "recheck") < settings.cascade_recheck:
            judgments |= await self.ask([self.strong], task)
        deciding = self.strong if is_escalated else self.cheap
        value = self.unit_scores(judgments)[deciding.name]
        numbers = {CONFIDENCE: confidence, ESCALATED: float(is_escalated)}
        return self.make_judgment(
            judgments,
            value,
            contributions={} if value is None else {deciding.name: value},
            settled_by=deciding.name,
            numbers=numbers,
            fatal=[deciding.name],
        )

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """Score the responses, all by one judge; equal responses are judged once."""
        firsts = sorted({*task.firsts})
        tasks = [task.select_responses((index,)) for index in firsts]
        judgments = await gather_results(map(self.judge, tasks))
        levelled = await self.escalate_group(tasks, judgments)
        scores = [
            make_response_judgment(judgment, judgment.score, judgment.components)
            for judgment in levelled
        ]
        results = dict(zip(firsts, scores, strict=True))
        shared = {index: share_judgment(score) for index, score in results.items()}
        return [
            (results if first == index else shared)[first]
            for index, first in enumerate(task.firsts)
        ]

    async def escalate_group(
        self, tasks: Sequence[JudgeTask], judgments: Sequence[Judgment[Any]]
    ) -> list[Judgment[Any]]:
        """Let the strong judge decide all responses of a group if it decides one.

        Args:
            tasks: the task of each response.
            judgments: the judgment of each response; without components if it was not judged.

        Returns:
            The judgments; those that the cheap judge had decided now have the strong judge's score.
        """
        decided = [judgment.components.get(ESCALATED) != 0.0 for judgment in judgments]
        if not any(
            judgment.components.get(ESCALATED) == 1.0 or judgment.status.is_failure
            for judgment in judgments
        ):
            return list(judgments)
        escalated = await gather_results(
            self._escalate(task, judgment)
            for task, judgment, is_decided in zip(tasks, judgments, decided, strict=True)
            if not is_decided
        )
        escalated_judgments = iter(escalated)
        pairs = zip(judgments, decided, strict=True)
        return [
            judgment if is_decided else next(escalated_judgments) for judgment, is_decided in pairs
        ]

    async def _escalate(self, task: JudgeTask, judgment: Judgment[Any]) -> Judgment[Any]:
        """Return the strong judge's judgment of a response that the cheap one has decided."""
        name, numbers = self.strong.name, {**judgment.components, ESCALATED: 1.0}
        if name in judgment.components:  # the row was shown to both judges
            return replace(judgment, score=judgment.components[name], components=numbers)
        judgments = await self.ask([self.strong], task)
        whole = self.make_judgment(judgments, self.unit_scores(judgments)[name])
        calls = (*judgment.calls, *whole.calls)
        if whole.score is None:
            return replace(whole, calls=calls, components={})
        label = f"{judgment.label} {whole.label}"
        explanation = f"{judgment.explanation}\n\n{whole.explanation}"
        components = {**numbers, **whole.components}
        return replace(
            judgment,
            score=whole.score,
            label=label,
            explanation=explanation,
            calls=calls,
            components=components,
        )


JUDGE = JudgeDefinition(
    CascadeSettings,
    "a cheap judge, and a strong one where it is unsure (--cascade)",
    CascadeJudge,
    parts=PartsDefinition("cascade", "", PartOptions, parse_members, names=("cheap", "strong")),
)
