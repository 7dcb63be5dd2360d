"""A response and what became of it, whether the data has it or a policy was asked for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from judgegym.datasets.rows.unit import ScoreTask
from judgegym.engine.completions import Completion
from judgegym.judges.core.judgment import CallRun
from judgegym.judges.scorers.boundary import ScoreItem, results_of
from judgegym.judges.scorers.items import Item, ResponseScore


class JudgeElsewhere(Protocol):
    """Scores items in other processes."""

    async def __call__(self, item: Item) -> list[ResponseScore]:
        """The results of an item's responses, as `score_item` gives them."""

    @property
    def waiting(self) -> str | None:
        """What all items wait for, in one sentence; `None` otherwise."""


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """A response with its score.

    Attributes:
        completion: the response; `None` if the policy never gave it.
        result: what the judge said, or why it was not asked.
        policy_call: what the policy's answer has cost; `None` if no policy was asked, or another response says it.
    """

    completion: Completion | None
    result: ResponseScore
    policy_call: CallRun | None = None


FinishUnit: TypeAlias = Callable[[ScoreTask], Awaitable[list[JudgedResponse]]]
"""Gives the judged responses of a unit, in their order; a failure is a result and no exception."""


class ResponseJudge:
    """Judges the responses that the data has."""

    def __init__(self, score: ScoreItem) -> None:
        """Judge by `score`."""
        self._score = score

    async def __call__(self, unit: ScoreTask) -> list[JudgedResponse]:
        """See `FinishUnit`."""
        results = await self.results(unit.uid, unit.item)
        return [
            JudgedResponse(Completion(response), result)
            for response, result in zip(unit.item.responses, results, strict=True)
        ]

    async def results(self, uid: str, item: Item) -> list[ResponseScore]:
        """The results of an item's responses.

        Raises:
            UserError: what no further call can mend, such as a disk that stays full.
        """
        return await results_of(self._score, item, uid)
