"""The candidates of a row in a run that compares several: their answers and scores, from the judgment's detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judgegym.llm.wire import JSON
from judgegym.reports.results.sample import SavedSample


@dataclass(frozen=True, slots=True)
class CandidateOfRow:
    """A candidate in one row.

    Attributes:
        name: the candidate's name.
        answer: its answer; `None` if it never answered.
        error: why not, or why its answer counts as wrong.
        score: the mean of the scores that judges gave it, or its share of the points of its games; `None` without one.
    """

    name: str
    answer: str | None
    error: str | None
    score: float | None


def candidates_of(sample: SavedSample) -> list[CandidateOfRow]:
    """Return the candidates of a row, in their order; none where one policy answers.

    They are read from `answers` with `candidate`, `answer` and `error`, and from `cells` with `candidate` and `score`
    (peer evaluation) or `games` with `first`, `second`, `points` and `weight` (candidates that play).
    """
    sums = _Sums()
    for cell in _objects(sample.detail, "cells"):
        sums.add(cell.get("candidate"), cell.get("score"), 1.0)
    for game in _objects(sample.detail, "games"):
        points, weight = game.get("points"), game.get("weight")
        sums.add(game.get("first"), points, weight)
        sums.add(game.get("second"), 1.0 - points if isinstance(points, int | float) else None, weight)
    found = []
    for each in _objects(sample.detail, "answers"):
        name, answer, error = each.get("candidate"), each.get("answer"), each.get("error")
        if isinstance(name, str):
            found.append(
                CandidateOfRow(
                    name,
                    answer if isinstance(answer, str) else None,
                    error if isinstance(error, str) else None,
                    sums.mean(name),
                )
            )
    return found


class _Sums:
    """Weighted means by candidate; what is no number is left out."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, candidate: JSON, score: JSON, weight: JSON) -> None:
        if isinstance(score, int | float) and isinstance(weight, int | float):
            total, weights = self._sums.get(str(candidate), (0.0, 0.0))
            self._sums[str(candidate)] = (total + score * weight, weights + weight)

    def mean(self, candidate: str) -> float | None:
        total, weights = self._sums.get(candidate, (0.0, 0.0))
        return total / weights if weights else None


def _objects(detail: JSON, name: str) -> Sequence[Mapping[str, JSON]]:
    listed = detail.get(name) if isinstance(detail, Mapping) else None
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
