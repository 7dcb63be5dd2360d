"""Groups of completions that are judged together, by their position in the trainer's global batch.

Guarantees: a group is judged once, whole, by the process that holds its first completion, also where the trainer
spreads it over several processes; neighbouring groups with equal prompts stay apart; a batch that is not made of whole
groups of one row each is refused in one sentence, by all processes alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeAlias, TypeVar

from judgegym.integrations.scores.ranks import Ranks, distributed
from judgegym.integrations.scores.results import TextScore
from judgegym.integrations.scores.scoring import RefusedError, Request, RewardScorer
from judgegym.llm.errors import JudgeGymError, SettingsError
from judgegym.llm.wire import JSON

RowT = TypeVar("RowT")
ResultT = TypeVar("ResultT")

JudgeOfGroups: TypeAlias = Callable[[Sequence[Sequence[RowT]]], Awaitable[Sequence[Sequence[ResultT]]]]
"""Judges groups, all at the same time: a result for each row of each group."""


@dataclass(frozen=True, slots=True)
class CompletionRow:
    """One completion.

    Attributes:
        shared: the fields of the request that all completions of its group have in common.
        response: the completion.
        error: why no request can be made of its cells; empty otherwise.
    """

    shared: Mapping[str, JSON]
    response: JSON
    error: str = ""


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class _Outcome(Generic[ResultT]):
    """The results of one process by position in the global batch, or what it raised."""

    results: Mapping[int, ResultT]
    error: str = ""


class GroupedBatch(Generic[RowT, ResultT]):
    """Judges batches in groups. Where there are several processes, all of them judge each batch, also an empty part."""

    def __init__(self, judge: JudgeOfGroups[RowT, ResultT], same: Callable[[RowT], object]) -> None:
        """Judge with `judge`; `same` is what the rows of one group have in common."""
        self._judge_groups = judge
        self._same = same
        self._ranks: Ranks | None = None

    async def score(self, rows: Sequence[RowT], size: int) -> list[ResultT]:
        """The results of this process's rows, which are in groups of `size` in the global batch.

        Raises:
            SettingsError: the global batch is not made of groups of this size; or a process could not judge at all.
        """
        ranks = self._joined()
        parts = [rows] if ranks is None else await ranks.gather(rows)
        own = 0 if ranks is None else ranks.own
        starts = list(accumulate((len(part) for part in parts), initial=0))
        batch = [row for part in parts for row in part]
        self._check(batch, size, len(parts))
        outcome = await self._judge(batch, size, range(starts[own], starts[own + 1]))
        outcomes = [outcome] if ranks is None else await ranks.gather(outcome)
        error = next((each.error for each in outcomes if each.error), "")
        if error:
            raise SettingsError(error)
        results = {place: result for each in outcomes for place, result in each.results.items()}
        return [results[place] for place in range(starts[own], starts[own + 1])]

    def _joined(self) -> Ranks | None:
        """All processes, joined at the first batch: before any other step, so that all join in the same order."""
        if self._ranks is None and (module := distributed()) is not None:
            self._ranks = Ranks(module)
        return self._ranks

    def _check(self, batch: Sequence[RowT], size: int, processes: int) -> None:
        if len(batch) % size:
            of = f" of {processes} processes" if processes > 1 else ""
            raise SettingsError(
                f"group_size: a batch{of} of {len(batch)} completions cannot be split into groups of {size}; "
                "expected the trainer's num_generations, and torch.distributed where a group is spread over processes"
            )
        for start in range(0, len(batch), size):
            first = self._same(batch[start])
            if any(self._same(row) != first for row in batch[start + 1 : start + size]):
                raise SettingsError(
                    f"group_size: completions {start} to {start + size - 1} of the batch do not belong to one "
                    f"row; expected the trainer's num_generations, found {size}"
                )

    async def _judge(self, batch: Sequence[RowT], size: int, own: range) -> _Outcome[ResultT]:
        """Judge the groups that begin with a row of this process."""
        starts = [start for start in range(0, len(batch), size) if start in own]
        try:
            judged = await self._judge_groups([batch[start : start + size] for start in starts])
        except JudgeGymError as error:  # the other processes wait for an answer: all raise the same
            return _Outcome({}, str(error))
        results: dict[int, ResultT] = {}
        for start, of_group in zip(starts, judged, strict=True):
            results.update(zip(range(start, start + size), of_group, strict=True))
        return _Outcome(results)


def groups_of(source: RewardScorer) -> GroupedBatch[CompletionRow, TextScore]:
    """Groups that `source` judges as one request each."""

    async def judge(groups: Sequence[Sequence[CompletionRow]]) -> list[list[TextScore]]:
        return await source.score([group_request(group) for group in groups])

    return GroupedBatch(judge, lambda row: row.shared)


def group_request(group: Sequence[CompletionRow]) -> Request | RefusedError:
    """The body of `POST /v1/score` for the rows of one group, or why there is none."""
    error = next((row.error for row in group if row.error), "")
    if not error and any(row.shared != group[0].shared for row in group[1:]):
        error = "the completions of a group differ in their prompt, reference or other fields"
    if error:
        return RefusedError(error, responses=len(group))
    return {**group[0].shared, "responses": [row.response for row in group]}


def single_request(row: CompletionRow) -> Request | RefusedError:
    """The body of `POST /v1/score` for a row by itself, or why there is none."""
    return RefusedError(row.error) if row.error else {**row.shared, "response": row.response}
