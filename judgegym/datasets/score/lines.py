"""A judged response as a line of the run: in the form of an evaluation's samples, so that every tool reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from judgegym.datasets.rows.unit import ScoreTask
from judgegym.datasets.sample.sampling import JudgedResponse
from judgegym.datasets.score.gold import GoldColumn
from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample, SampleRun
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.scorers.items import ResponseScore


@dataclass(frozen=True, slots=True)
class ScoreDetail:
    """What a judge said of a response, beside its score.

    Attributes:
        explanation: the judge's reasons.
        components: numbers from which the score is computed: `raw` in the judge's own unit, ….
    """

    explanation: str
    components: Mapping[str, float] = field(default_factory=dict)


def samples_of(
    unit: ScoreTask,
    digest: str,
    judged: Sequence[JudgedResponse],
    seconds: float,
    gold: GoldColumn | None = None,
) -> Iterator[Sample[ScoreDetail]]:
    """The samples of a unit's responses, in their order.

    Args:
        unit: what was judged.
        digest: its key, in hexadecimal digits.
        judged: its responses, with the result of each.
        seconds: how long it took; the first response has them.
        gold: reads the gold labels of the rows; `None` without any.
    """
    item = unit.item
    found = {"reference": item.reference, "rubric": item.rubric, "baseline": item.baseline, "context": item.context}
    if item.levels:
        found["levels"] = "\n".join(f"Score {level}: {description}" for level, description in item.levels)
    if item.aspects is not None:
        found["aspects"] = "\n".join(f"{aspect.name}: {aspect.definition}" for aspect in item.aspects)
    texts = {title: text for title, text in found.items() if text is not None}
    for place, (uid, response) in enumerate(zip(unit.uids, judged, strict=True)):
        result, took = response.result, seconds if place == 0 else 0.0
        policy_calls = () if response.policy_call is None else (response.policy_call,)
        is_answered = response.completion is not None
        yield Sample(
            uid=uid,
            category=unit.category[0 if unit.several else place],
            question=item.prompt,
            completions=() if response.completion is None else (response.completion,),
            judgment=_judgment(result) if is_answered else None,
            score=result.score,
            run=SampleRun(took, policy_calls, result.runs if is_answered else None),
            policy_error=None if is_answered else result.explanation,
            task_digest=digest,
            headline=_share(result) if is_answered else None,
            texts=texts,
            gold=() if gold is None else gold.labels(*_row(unit, place), result),
        )


def _row(unit: ScoreTask, place: int) -> tuple[int, int]:
    """The row of a response of a unit, and which of the row's responses it is."""
    return (unit.rows[0], place) if unit.several else (unit.rows[place], 0)


def _share(result: ResponseScore) -> HeadlineTerm | None:
    """What a response adds to the mean score: an empty one is a bad answer, one whose judge failed adds nothing."""
    return None if result.is_failed else HeadlineTerm(result.score or 0.0, 1.0)


def _judgment(result: ResponseScore) -> Judgment[ScoreDetail]:
    status = Status(result.status)
    return Judgment(
        result.score,
        status,
        result.label,
        "" if status is Status.OK else result.explanation,
        detail=ScoreDetail(result.explanation, result.components),
        suspects=result.injection_suspects,
    )
