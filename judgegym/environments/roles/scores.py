"""Compare scores by a rubric with gold scores: those of a policy as judge, and those of any judge."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import MetricAggregator
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.scale import Scale
from judgegym.judges.parsing.verdicts import is_strict_feedback
from judgegym.judges.rubrics.judge import RubricDetail, RubricScore, pool
from judgegym.judges.rubrics.prompt import Pooling, RubricJudgeSettings, read_score
from judgegym.statistics.agreement import score_agreement

LISTED_LEVELS = 11
"""Scales of more levels than this have no table of each level against each."""

Comparison = Literal["exact", "distance", "squared"]


@dataclass(frozen=True, slots=True)
class ComparedScore:
    """A judge's score, the one before any critique, and the gold score."""

    score: float
    before: float
    gold: float


def judgment_of_scores(
    completions: Sequence[Completion], settings: RubricJudgeSettings, comparison: Comparison, *, gold: float
) -> Judgment[RubricDetail]:
    """Judge a policy's scores by their closeness to the gold score; invalid unless all can be read."""
    scores = tuple(_read(completion.answer, settings) for completion in completions)
    readable = [score.score for score in scores if score.score is not None]
    spread = statistics.stdev(readable) if len(readable) > 1 else None
    detail = RubricDetail(scores, spread, gold)
    if len(readable) < len(completions):
        return Judgment(None, Status.INVALID_COMPLETION, explanation="no readable score", detail=detail)
    pooled = pool(readable, settings.samples_pooling)
    return Judgment(closeness(pooled, gold, settings.scale, comparison), Status.OK, f"{pooled:g}", detail=detail)


def _read(text: str, settings: RubricJudgeSettings) -> RubricScore:
    score = read_score(text, settings.output_format, settings.scale)
    # The sample holds the text already, as the policy's answer.
    return RubricScore(score, None, "", is_strict_feedback(text, settings.output_format, settings.scale))


def closeness(score: float, gold: float, scale: Scale, comparison: Comparison) -> float:
    """Return how close a score is to the gold score, from 0 to 1.

    With δ = |score − gold| / (highest − lowest): `distance` is 1 − δ, `squared` is 1 − δ², and `exact` is 1 if both are
    nearest to the same level of the scale and otherwise 0.
    """
    if comparison == "exact":
        return float(scale.nearest(score) == scale.nearest(gold))
    fraction = abs(score - gold) / scale.span
    return 1.0 - (fraction if comparison == "distance" else fraction**2)


def pooled_score(judgment: Judgment[RubricDetail] | None, pooling: Pooling) -> float | None:
    """Return the pooled score of a judge; `None` if it gave none."""
    if judgment is None or judgment.status is not Status.OK or judgment.detail is None:
        return None
    return pool([score.value for score in judgment.detail.judgments if score.value is not None], pooling)


def compare_score(
    judgment: Judgment[RubricDetail] | None, pooling: Pooling, gold: float | None
) -> ComparedScore | None:
    """Return a judge's score and the gold score; `None` if one is missing."""
    score = pooled_score(judgment, pooling)
    if judgment is None or judgment.score is None or score is None or gold is None:
        return None
    before = judgment.score if judgment.critique is None else judgment.critique.before_score
    return ComparedScore(score, before, gold)


def record_agreement(
    metrics: MetricAggregator, compared: Sequence[ComparedScore], scale: Scale, *, rows: int, with_critique: bool
) -> None:
    """Record the agreement with gold over rows with a score: statistics, and a count for each pair of levels."""
    metrics.count("n_used", len(compared))
    metrics.count("n_failed", rows - len(compared))
    scores, golds = [pair.score for pair in compared], [pair.gold for pair in compared]
    metrics.take(score_agreement(scores, golds, scale))
    if with_critique:
        metrics.take(score_agreement([pair.before for pair in compared], golds, scale), "_before_critique")
    if len(scale.levels) > LISTED_LEVELS:
        metrics.leave_out("confusion", f"a scale of {len(scale.levels)} levels makes too long a table")
        return
    cells = Counter((scale.nearest(pair.gold), scale.nearest(pair.score)) for pair in compared)
    for gold_level in scale.levels:
        for level in scale.levels:
            metrics.count(f"confusion_gold_{gold_level}_judge_{level}", cells[gold_level, level])
