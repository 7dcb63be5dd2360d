"""A judged response as a line of the run: in the form of an evaluation's samples, so that every tool reads it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judgegym.datasets.rows.unit import ScoreTask
from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.sample.sampling import JudgedResponse
from judgegym.datasets.score.gold import GoldColumn
from judgegym.engine.loop import RowEnd
from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample, SampleRun
from judgegym.environments.evaluate.saved import SavedRows
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.scorers.items import ResponseScore, shared_score


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


def unit_end(unit: ScoreTask, judged: Sequence[JudgedResponse]) -> RowEnd:
    """How a unit ended. That a policy never gave a response in an earlier run says nothing of this one's endpoints."""
    failed = [response.result.is_failed for response in judged]
    was_asked = not unit.earlier or any(response.status is None for response in unit.earlier)
    return RowEnd(not any(failed), judged[0].result.explanation if all(failed) else None, was_asked)


class ResponseLines:
    """Writes a line for each response of the units of a run; units that are equal share one judgment."""

    def __init__(
        self,
        units: ScoreTasks,
        saved: SavedRows[Any, ScoreDetail],
        arrived: Callable[[Sample[ScoreDetail]], None],
        gold: GoldColumn | None = None,
    ) -> None:
        """Prepare.

        Args:
            units: all units of the run.
            saved: takes the lines.
            arrived: called with each sample once its line is written.
            gold: reads the gold labels of the rows; `None` without any.
        """
        self._units, self._saved, self._arrived, self._gold = units, saved, arrived, gold
        self._next_equal = _next_equal(units.first_equal)

    def record(self, number: int, unit: ScoreTask, judged: Sequence[JudgedResponse], seconds: float) -> None:
        """Write the lines of a unit, and of the units that are equal to it."""
        self._save(number, unit, judged, seconds)
        if self._next_equal[number] >= 0:
            shared = [replace(response, result=shared_score(response.result)) for response in judged]
            while (number := self._next_equal[number]) >= 0:
                self._save(number, self._units[number], shared, 0.0)

    def _save(self, number: int, unit: ScoreTask, judged: Sequence[JudgedResponse], seconds: float) -> None:
        samples = samples_of(unit, self._units.key(number).hex(), judged, seconds, self._gold)
        for place, sample in zip(self._units.places.of_unit(number), samples, strict=True):
            self._saved.append(place, sample, is_complete=sample.finished)
            self._arrived(sample)


def _next_equal(first_equal: Sequence[int]) -> array[int]:
    """For each unit the next one that is equal to it; −1 without one."""
    following, last = array("q", [-1]) * len(first_equal), array("q", range(len(first_equal)))
    for number, first in enumerate(first_equal):
        if first != number:
            following[last[first]] = number
            last[first] = number
    return following
