"""Groups of completions that are judged together: whole batches of a trainer, or samples that come one by one.

`GroupedBatch` has a group by its position in the trainer's global batch. Guarantees: a group is judged once, whole, by
the process that holds its first completion, also where the trainer spreads it over several processes; neighbouring
groups with equal prompts stay apart; a batch that is not made of whole groups of one row each is refused in one
sentence, by all processes alike. torch is not imported: it is used if the trainer has set up its process group.

`SampleBatcher` has a group by its id. Guarantees: samples of one group meet, in whatever order they come; with a judge
that compares, a group is judged once it is whole, or `wait_s` after its first sample if the others stay away, and a
sample that comes later is compared with the others in a request of its own; with any other judge each sample is judged
at once, and waits for its group only if the judge failed. Every sample gets a finite number: its score, what an empty
one is worth, or in place of a missing score the mean of its group, flagged. Any event loop may ask; a caller that
leaves takes no group with it.

Source: TRL 1.16, `GRPOTrainer`; torch 2.13, `torch.distributed`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from typing import Any, Generic, TypeVar, cast

from judgegym.integrations.scores.requests import CompletionRow, group_request, single_request
from judgegym.integrations.scores.results import (
    INVALID_COMPLETION,
    JUDGE_FAILED,
    CompletionReward,
    TrainerReward,
    check_finite,
    check_seconds,
    stand_in,
)
from judgegym.integrations.scores.sources import RewardScorer
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.llm.errors import JudgeGymError, SettingsError

RowT = TypeVar("RowT")
PartT = TypeVar("PartT")
_PATIENCE = timedelta(hours=6)
"""How long a process waits for the judgments of another one, which have deadlines of their own."""


def distributed() -> Any:
    """`torch.distributed`, if the trainer runs in several processes; otherwise `None`."""
    module = sys.modules.get("torch.distributed")
    if module is None or not module.is_available() or not module.is_initialized() or module.get_world_size() < 2:
        return None
    return module


class Ranks:
    """All processes of a run, for one reward function.

    Each has a process group of its own: two reward functions that run at the same time cannot take each other's parts.
    """

    def __init__(self, module: Any) -> None:
        """Join the other processes, each of which does the same: all make their first call in the same order.

        Args:
            module: `torch.distributed`.
        """
        self._distributed = module
        self.own: int = module.get_rank()
        # gloo sends objects from the CPU, whatever the trainer's backend is.
        self._group = module.new_group(backend="gloo", timeout=_PATIENCE)

    async def gather(self, part: PartT) -> list[PartT]:
        """The parts of all processes, in the order of their numbers."""
        parts: list[PartT | None] = [None] * self._distributed.get_world_size()
        await asyncio.to_thread(self._distributed.all_gather_object, parts, part, self._group)
        return cast("list[PartT]", parts)


class GroupedBatch(Generic[RowT]):
    """Judges batches in groups. Where there are several processes, all of them judge each batch, also an empty part."""

    def __init__(
        self,
        judge: Callable[[Sequence[Sequence[RowT]]], Awaitable[Sequence[Sequence[CompletionReward]]]],
        same: Callable[[RowT], object],
    ) -> None:
        """Judge batches.

        Args:
            judge: judges groups, all at the same time: a result for each row of each group.
            same: what the rows of one group have in common.
        """
        self._judge_groups = judge
        self._same = same
        self._ranks: Ranks | None = None

    async def score(self, rows: Sequence[RowT], size: int) -> list[CompletionReward]:
        """The results of this process's rows, which are in groups of `size` in the global batch.

        Raises:
            SettingsError: the global batch is not made of groups of this size; or a process could not judge at all.
        """
        ranks = self._joined()
        parts = [rows] if ranks is None else await ranks.gather(rows)
        starts = list(accumulate((len(part) for part in parts), initial=0))
        number = 0 if ranks is None else ranks.own
        own = range(starts[number], starts[number + 1])
        batch = [row for part in parts for row in part]
        self._check(batch, size, len(parts))
        outcome = await self._judge(batch, size, own)
        outcomes = [outcome] if ranks is None else await ranks.gather(outcome)
        error = next((error for _, error in outcomes if error), "")
        if error:
            raise SettingsError(error)
        results = {place: result for of_one, _ in outcomes for place, result in of_one.items()}
        return [results[place] for place in own]

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

    async def _judge(self, batch: Sequence[RowT], size: int, own: range) -> tuple[Mapping[int, CompletionReward], str]:
        """Judge the groups that begin with a row of this process: the results by place in the batch, or an error."""
        starts = [start for start in range(0, len(batch), size) if start in own]
        try:
            judged = await self._judge_groups([batch[start : start + size] for start in starts])
        except JudgeGymError as error:  # the other processes wait for an answer: all raise the same
            return {}, str(error)
        results: dict[int, CompletionReward] = {}
        for start, of_group in zip(starts, judged, strict=True):
            results.update(zip(range(start, start + size), of_group, strict=True))
        return results, ""


def groups_of(source: RewardScorer, invalid_completion_score: float | None) -> GroupedBatch[CompletionRow]:
    """Groups that `source` judges as one request each."""

    async def judge(groups: Sequence[Sequence[CompletionRow]]) -> list[list[CompletionReward]]:
        return await source.score([group_request(group) for group in groups], invalid_completion_score)

    return GroupedBatch(judge, lambda row: row.shared)


GROUP_WAIT_S = 600.0
"""Seconds after its first sample for which a group waits for the others."""
_MOST_KEPT = 1024
"""The most groups that are remembered after they were judged, for samples that come later."""

Judge = Callable[[Sequence[CompletionRow]], Awaitable[list[CompletionReward]]]
"""Judges one row, or the rows of a group against each other."""


@dataclass(frozen=True, slots=True)
class GatheringSettings:
    """How groups are gathered, and what stands in for a score.

    Attributes:
        size: how many samples a group has.
        together: whether the judge compares them.
        wait_s: seconds after its first sample for which a group waits for the others.
        fallback_score: the number of a sample without a score in a group without any.
        invalid_completion_score: what an empty completion is worth.
    """

    size: int
    together: bool
    wait_s: float = GROUP_WAIT_S
    fallback_score: float = 0.0
    invalid_completion_score: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            SettingsError: one cannot work.
        """
        check_finite(fallback_score=self.fallback_score, invalid_completion_score=self.invalid_completion_score)
        check_seconds(group_wait_s=self.wait_s)
        if self.together and self.size < 2:
            raise SettingsError(
                f"group size: a judge that compares needs 2 or more samples of each prompt, found {self.size}"
            )


class _Group:
    """The samples of one group that have come so far."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: list[CompletionRow] = []
        self.results: list[asyncio.Future[CompletionReward]] = []
        self.closed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that outlives the caller."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def add(self, row: CompletionRow) -> asyncio.Future[CompletionReward]:
        """Add a sample; returns where its result will be."""
        self.rows.append(row)
        self.results.append(asyncio.get_running_loop().create_future())
        if len(self.rows) >= self.size:
            self.closed.set()
        return self.results[-1]


class SampleBatcher:
    """Scores samples that come one by one."""

    def __init__(self, judge: Judge, settings: GatheringSettings) -> None:
        """Score with `judge`."""
        self._judge = judge
        self._settings = settings
        self._groups: OrderedDict[Hashable, _Group] = OrderedDict()

    async def score(
        self, group: Hashable, row: CompletionRow, *, size: int | None = None, recurs: bool = False
    ) -> TrainerReward:
        """What a sample is worth.

        Args:
            group: the id of its group.
            row: the sample.
            size: how many samples this group has, if not as many as others.
            recurs: whether this id names another group later, as where a prompt is the only id.

        Raises:
            SettingsError: no sample can be judged.
        """
        return await BACKGROUND.join(self._score(group, row, size or self._settings.size, recurs=recurs))

    async def _score(self, group_id: Hashable, row: CompletionRow, size: int, *, recurs: bool) -> TrainerReward:
        group = self._groups.get(group_id)
        if group is None or (group.closed.is_set() and recurs):
            group = self._groups[group_id] = _Group(size)
            group.begin(self._close_in_time(group))
            self._forget()
        if group.closed.is_set() and self._settings.together:
            result = await self._late(group, row)
        else:
            future = group.add(row)
            if not self._settings.together:
                group.begin(_settle([future], self._judge([row])))
            result = await asyncio.shield(future)
        if result.reward is not None:
            return TrainerReward(result.reward, result)
        await group.closed.wait()
        of_group = await asyncio.gather(*map(asyncio.shield, group.results))
        return result.worth(stand_in([each.reward for each in of_group], self._settings.fallback_score))

    async def _close_in_time(self, group: _Group) -> None:
        """Wait for all samples of a group, or until its time is over; judge them, if they are judged together."""
        try:
            await asyncio.wait_for(group.closed.wait(), self._settings.wait_s)
        except asyncio.TimeoutError:
            group.closed.set()
        if self._settings.together:
            await _settle(group.results, self._together(group.rows))

    async def _late(self, group: _Group, row: CompletionRow) -> CompletionReward:
        """The score of a sample whose group is closed: that of its twin, or one from a comparison with the others."""
        if row in group.rows:
            return await asyncio.shield(group.results[group.rows.index(row)])
        return (await self._together([*group.rows, row]))[-1]

    async def _together(self, rows: Sequence[CompletionRow]) -> list[CompletionReward]:
        if len(rows) == 1 and "baseline" not in rows[0].shared:
            if not str(rows[0].response).strip():
                worth = self._settings.invalid_completion_score
                return [CompletionReward(worth, INVALID_COMPLETION, explanation="the completion is empty")]
            alone = "the other samples of the group did not come, and the judge compares them"
            return [CompletionReward(None, JUDGE_FAILED, explanation=alone)]
        return await self._judge(rows)

    def _forget(self) -> None:
        """Forget the oldest groups, but none that is open."""
        while len(self._groups) > _MOST_KEPT and next(iter(self._groups.values())).closed.is_set():
            self._groups.popitem(last=False)


def judged_by(scoring: RewardScorer, settings: GatheringSettings) -> Judge:
    """A judge that asks a source: for one row, or for a group in one request."""

    async def judge(rows: Sequence[CompletionRow]) -> list[CompletionReward]:
        request = group_request(rows) if settings.together else single_request(rows[0])
        (results,) = await scoring.score([request], settings.invalid_completion_score)
        return results

    return judge


async def _settle(
    futures: Sequence[asyncio.Future[CompletionReward]], work: Awaitable[Sequence[CompletionReward]]
) -> None:
    """Give each future its result, or the error."""
    try:
        results = await work
    except Exception as error:  # noqa: BLE001  # each caller gets it: a setting that cannot work
        for future in futures:
            future.set_exception(error)
            future.exception()  # a caller that has left does not ask
        return
    for future, result in zip(futures, results, strict=True):
        future.set_result(result)
