"""Settings and agreement metrics of environments in which the policy may be the judge.

Scores by a rubric and yes/no verdicts on aspects are compared with gold labels, whether they come
from a policy as judge or from any other judge.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, model_validator
from typing_extensions import Self

from judgegym.data.rubric_rows import AspectTask
from judgegym.engine.completions import Completion
from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.engine.settings import EnvConfig
from judgegym.judges.aspects.judge import (
    AspectDetail,
    PanelDetail,
    cast_vote,
    count_votes,
    read_verdict,
)
from judgegym.judges.aspects.prompt import Aspect
from judgegym.judges.config.fields import setting
from judgegym.judges.core.judgment import Judgment, Scale, Status
from judgegym.judges.parsing.rubric_scores import is_strict_feedback
from judgegym.judges.rubrics.judge import RubricDetail, RubricScore, pool
from judgegym.judges.rubrics.prompt import SCORE_PARSERS, Pooling, RubricJudgeSettings
from judgegym.statistics.agreement import score_agreement, verdict_agreement

Role = Annotated[
    Literal["policy", "judge"],
    BeforeValidator(lambda value: "policy" if value == "respondent" else value),
]
"""The role of the policy; `respondent`, the former name of `policy`, is still accepted."""


class RoleConfig(EnvConfig):
    """Settings that choose whether the policy answers or judges."""

    role: Role = setting("policy", common=True)
    """Choose what the policy does. policy: it answers, and a judge scores the answer. judge: it
    judges the row's answer, and its verdict is compared with the gold label."""

    @model_validator(mode="after")
    def _check_role(self) -> Self:
        if self.role == "judge" and "min_response_length" not in self.model_fields_set:
            self.min_response_length = 0  # a verdict may be short
        if self.role == "judge" and self.judge_critique_rounds:
            raise ValueError(
                "judge_critique_rounds: with role=judge there is no judge besides the policy"
            )
        return self

    @property
    def policy_is_judge(self) -> bool:
        """Whether the policy judges, and no other judge is called."""
        return self.role == "judge"


LISTED_LEVELS = 11
"""Scales with more levels have no confusion table."""

Comparison = Literal["exact", "distance", "squared"]


@dataclass(frozen=True, slots=True)
class ComparedScore:
    """A judge's score, the one before any critique, and the gold score."""

    score: float
    before: float
    gold: float


def judge_scores(
    completions: Sequence[Completion],
    settings: RubricJudgeSettings,
    comparison: Comparison,
    *,
    gold: float,
) -> Judgment[RubricDetail]:
    """Judge a policy's scores by their closeness to the gold score.

    Invalid unless all can be read.
    """
    scores = tuple(_read_score(completion.answer, settings) for completion in completions)
    readable = [score.score for score in scores if score.score is not None]
    spread = None
    if len(readable) > 1:
        spread = statistics.stdev(readable)
    detail = RubricDetail(scores, spread, gold)
    if len(readable) < len(completions):
        return Judgment(
            None, Status.INVALID_COMPLETION, explanation="no readable score", detail=detail
        )
    pooled = pool(readable, settings.samples_pooling)
    return Judgment(
        compute_closeness(pooled, gold, settings.scale, comparison),
        Status.OK,
        f"{pooled:g}",
        detail=detail,
    )


def _read_score(text: str, settings: RubricJudgeSettings) -> RubricScore:
    score = SCORE_PARSERS[settings.output_format](text, settings.scale)
    # The sample holds the text already, as the policy's answer.
    return RubricScore(
        score, None, "", is_strict_feedback(text, settings.output_format, settings.scale)
    )


def compute_closeness(score: float, gold: float, scale: Scale, comparison: Comparison) -> float:
    """Return how close a score is to the gold score, from 0 to 1.

    With δ = |score − gold| / (highest − lowest): `distance` is 1 − δ, `squared` is 1 − δ², and
    `exact` is 1 if both are nearest to the same level of the scale and otherwise 0.
    """
    if comparison == "exact":
        return float(scale.nearest(score) == scale.nearest(gold))
    fraction = abs(score - gold) / scale.span
    if comparison == "squared":
        fraction **= 2
    return 1.0 - fraction


def pool_score(judgment: Judgment[RubricDetail] | None, pooling: Pooling) -> float | None:
    """Return a judge's pooled score; `None` if it gave none."""
    if judgment is None or judgment.status is not Status.OK or judgment.detail is None:
        return None
    # The score of a policy as judge is its closeness to gold; any other score is the judge's own.
    if judgment.detail.gold is None:
        return judgment.score
    return pool(
        [score.value for score in judgment.detail.judgments if score.value is not None], pooling
    )


def compare_score(
    judgment: Judgment[RubricDetail] | None, pooling: Pooling, gold: float | None
) -> ComparedScore | None:
    """Return a judge's score with the gold score; `None` if one is missing."""
    score = pool_score(judgment, pooling)
    if judgment is None or judgment.score is None or score is None or gold is None:
        return None
    before = judgment.score if judgment.critique is None else judgment.critique.before_score
    return ComparedScore(score, before, gold)


def record_score_agreement(
    metrics: MetricAggregator,
    compared: Sequence[ComparedScore],
    scale: Scale,
    *,
    rows: int,
    with_critique: bool,
) -> None:
    """Record the agreement with gold over rows with a score, and the confusion table."""
    metrics.count("n_used", len(compared))
    metrics.count("n_failed", rows - len(compared))
    scores, golds = [pair.score for pair in compared], [pair.gold for pair in compared]
    metrics.add_agreement(score_agreement(scores, golds, scale))
    if with_critique:
        before = [pair.before for pair in compared]
        metrics.add_agreement(score_agreement(before, golds, scale), "_before_critique")
    level_count = len(scale.levels)
    if level_count > LISTED_LEVELS:
        metrics.leave_out("confusion", f"a scale of {level_count} levels makes too long a table")
        return
    cells = Counter((scale.nearest(pair.gold), scale.nearest(pair.score)) for pair in compared)
    for gold_level in scale.levels:
        for level in scale.levels:
            metrics.count(f"confusion_gold_{gold_level}_judge_{level}", cells[gold_level, level])


@dataclass(frozen=True, slots=True)
class ComparedVerdict:
    """A verdict on an aspect with the gold verdict.

    Attributes:
        aspect: the aspect's name.
        yes: the verdict; `None` if none could be read.
        before: the verdict before any critique.
        gold: the gold verdict.
    """

    aspect: str
    yes: bool | None
    before: bool | None
    gold: bool


def judge_votes(
    aspect: Aspect, completions: Sequence[Completion], *, strictness: int, gold: bool
) -> Judgment[PanelDetail]:
    """Judge a policy's votes: 1.0 if their majority is the gold verdict, else 0.0.

    Invalid without one.
    """
    votes = [
        cast_vote(completion.answer, read_verdict(completion.answer), completion.unreadable)
        for completion in completions
    ]
    # In training there is one completion, and it is the only vote.
    verdict = count_votes(aspect.name, votes, min(strictness, len(completions)))
    detail = PanelDetail((verdict,), gold=gold)
    if verdict.yes is None:
        return Judgment(
            None, Status.INVALID_COMPLETION, explanation="no readable majority", detail=detail
        )
    return Judgment(
        float(verdict.yes == gold), Status.OK, "yes" if verdict.yes else "no", detail=detail
    )


def compare_verdicts(
    task: AspectTask, judgment: Judgment[PanelDetail] | None
) -> list[ComparedVerdict]:
    """Return the judge's verdict for each gold verdict of a row."""
    verdicts: dict[str, bool | None] = {}
    if judgment is not None and judgment.detail is not None:
        verdicts = {verdict.aspect: verdict.yes for verdict in judgment.detail.aspects}
    before: dict[str, bool] = {}
    if judgment is not None and judgment.critique is not None:
        for critique_round in reversed(judgment.critique.rounds):  # the first round's stays
            before[critique_round.component] = critique_round.before == "yes"
    return [
        ComparedVerdict(name, verdicts.get(name), before.get(name, verdicts.get(name)), gold)
        for name, gold in task.golds.items()
    ]


def record_verdict_agreement(
    metrics: MetricAggregator,
    compared: Sequence[ComparedVerdict],
    names: Sequence[str],
    *,
    with_critique: bool,
) -> None:
    """Record the agreement with gold overall, by name and, with critique, before it."""
    used = [verdict for verdict in compared if verdict.yes is not None]
    metrics.count("n_used", len(used))
    metrics.count("n_failed", len(compared) - len(used))
    _take_agreement(metrics, used)
    for name in names:
        suffix = slug(name)
        _take_agreement(
            metrics, [verdict for verdict in used if verdict.aspect == name], f"_{suffix}"
        )
    if with_critique:
        before = [replace(verdict, yes=verdict.before) for verdict in used]
        _take_agreement(metrics, before, "_before_critique")


def _take_agreement(
    metrics: MetricAggregator, compared: Sequence[ComparedVerdict], suffix: str = ""
) -> None:
    verdicts = [bool(verdict.yes) for verdict in compared]
    golds = [verdict.gold for verdict in compared]
    metrics.add_agreement(verdict_agreement(verdicts, golds), suffix)


def record_votes(metrics: MetricAggregator, verdicts: Sequence[AspectDetail]) -> None:
    """Record how far the votes on each aspect agree, their number, and how many had no verdict."""
    for verdict in verdicts:
        if verdict.agreement is not None:
            name = slug(verdict.aspect)
            metrics.mean(f"agreement_{name}", verdict.agreement)
        metrics.mean("votes_per_verdict", len(verdict.votes) - verdict.redrawn)
        metrics.rate("redraw_rate", verdict.redrawn > 0)
