"""Groups of completions that are judged together: whole batches, or samples that arrive one by one.

`GroupedBatch` finds a group by its position in the trainer's global batch. Guarantees: a group is
judged once, as a whole, by the process that holds its first completion, even if the trainer spreads
it over several processes; neighbouring groups with identical prompts stay apart; if a batch does
not consist of whole groups of one row each, all processes raise the same error. torch is not
imported: it is used if the trainer has set up its process group.

`SampleBatcher` finds a group by its id. Guarantees: samples of one group are gathered in any order.
With a judge that compares, a group is judged once it is complete, or `group_wait_s` after its first
sample if others are missing; a later sample is compared with the others in a request of its own.
With any other judge each sample is judged at once, and waits for its group only if the judge
failed. Every sample gets a finite score: its reward, the score of an empty completion, or in place
of a missing reward the mean of its group, flagged. Any event loop may call it; a caller that is
cancelled does not cancel its group.

Source: TRL 1.16, `GRPOTrainer`; torch 2.13, `torch.distributed`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import timedelta
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.llm.at_once import Tasks
from judgegym.llm.errors import JudgeGymError, SettingsError
from judgegym_trainers.scores.requests import CompletionRow
from judgegym_trainers.scores.results import (
    INVALID_COMPLETION,
    CompletionReward,
    make_failures,
    substitute_reward,
)

if TYPE_CHECKING:
    from judgegym_trainers.scores.sources import RewardScorer

PartT = TypeVar("PartT")
_PROCESS_TIMEOUT = timedelta(hours=6)
"""How long a process waits for another one's judgments, which have deadlines of their own."""

Judge = Callable[[Sequence[Sequence[CompletionRow]]], Awaitable[list[list[CompletionReward]]]]
"""`RewardScorer.score`."""


def find_distributed() -> Any:
    """Return `torch.distributed` if the trainer runs in several processes; otherwise `None`."""
    module = sys.modules.get("torch.distributed")
    if (
        module is None
        or not module.is_available()
        or not module.is_initialized()
        or module.get_world_size() < 2
    ):
        return None
    return module


class GroupedBatch:
    """Judges batches in groups, across all processes of a trainer.

    All processes must judge each batch, even with an empty part of it. Each batch has a process
    group of its own: two reward functions that run at the same time cannot receive each other's
    parts. All processes make their first call in the same order.
    """

    def __init__(self, scorer: RewardScorer) -> None:
        """Judge batches with `scorer`."""
        self._scorer = scorer
        self._distributed: Any = None
        self._processes: Any = None

    async def score(self, rows: Sequence[CompletionRow], size: int) -> list[CompletionReward]:
        """Return the results of this process's rows, in groups of `size` in the global batch.

        Raises:
            SettingsError: the global batch does not consist of groups of this size; or a process
                could not judge at all.
        """
        if self._distributed is None and (module := find_distributed()) is not None:
            self._distributed = module
            # gloo sends objects from the CPU, whatever the trainer's backend is.
            self._processes = module.new_group(backend="gloo", timeout=_PROCESS_TIMEOUT)
        number = 0
        if self._distributed is not None:
            number = self._distributed.get_rank()
        parts = await self._gather(rows)
        starts = list(accumulate((len(part) for part in parts), initial=0))
        indices = range(starts[number], starts[number + 1])
        batch = [*chain.from_iterable(parts)]
        self._check(batch, size, len(parts))
        results: dict[int, CompletionReward] = {}
        error = ""
        firsts = [start for start in range(0, len(batch), size) if start in indices]
        try:
            judgments = await self._scorer.score_part(
                [batch[start : start + size] for start in firsts]
            )
            for start, group_results in zip(firsts, judgments, strict=True):
                results.update(zip(range(start, start + size), group_results, strict=True))
        except (
            JudgeGymError
        ) as judge_error:  # the other processes wait: all must raise the same error
            error = str(judge_error)
        for other_results, other_error in await self._gather((results, error)):
            results |= other_results
            error = error or other_error
        if error:
            raise SettingsError(error)
        groups = ((start, range(start, start + size)) for start in range(0, len(batch), size))
        self._scorer.first_requests.check(
            (batch[start].shared, [results[position] for position in positions])
            for start, positions in groups
        )
        return [results[index] for index in indices]

    async def _gather(self, part: PartT) -> list[PartT]:
        """Return the parts of all processes, in the order of their ranks."""
        if self._distributed is None:
            return [part]
        parts: list[PartT | None] = [None] * self._distributed.get_world_size()
        await asyncio.to_thread(self._distributed.all_gather_object, parts, part, self._processes)
        return cast("list[PartT]", parts)

    def _check(self, batch: Sequence[CompletionRow], size: int, processes: int) -> None:
        if len(batch) % size:
            suffix, count = "", len(batch)
            if processes > 1:
                suffix = f" of {processes} processes"
            raise SettingsError(
                f"group_size: a batch{suffix} of {count} completions cannot be split into groups "
                f"of {size}; expected the trainer's num_generations, and torch.distributed where a "
                "group is spread over processes"
            )
        for start in range(0, len(batch), size):
            if any(row.shared != batch[start].shared for row in batch[start + 1 : start + size]):
                raise SettingsError(
                    f"group_size: completions {start} to {start + size - 1} of the batch do not "
                    f"belong to one row; expected the trainer's num_generations, found {size}"
                )


GROUP_WAIT_S = 600.0
"""Seconds after its first sample for which a group waits for the others."""
_MAX_REMEMBERED_GROUPS = 1024
"""Limit of judged groups that are remembered for late samples."""


class _Group:
    """The samples of one group that have arrived so far."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: list[CompletionRow] = []
        self.results: list[asyncio.Future[CompletionReward]] = []
        self.closed = asyncio.Event()
        self.tasks = Tasks()  # they outlive their caller

    def add(self, row: CompletionRow) -> asyncio.Future[CompletionReward]:
        """Add a sample; return a future of its result."""
        self.rows.append(row)
        self.results.append(asyncio.get_running_loop().create_future())
        if len(self.rows) >= self.size:
            self.closed.set()
        return self.results[-1]


class SampleBatcher:
    """Scores samples that arrive one by one."""

    def __init__(
        self,
        judge: Judge,
        *,
        size: int,
        together: bool,
        may_be_alone: bool = False,
        wait_s: float = GROUP_WAIT_S,
        fallback_score: float = 0.0,
        invalid_completion_score: float | None = 0.0,
    ) -> None:
        """Score with `judge`.

        Args:
            judge: judges groups.
            size: number of samples in a group.
            together: whether the judge compares them, or puts their scores on one scale.
            may_be_alone: whether the judge can judge a single sample.
            wait_s: seconds after its first sample for which a group waits for the others.
            fallback_score: the score of a sample without a reward in a group without any.
            invalid_completion_score: the score of an empty completion.

        Raises:
            SettingsError: there is nothing to compare.
        """
        if together and size < 2:
            raise SettingsError(
                "group size: a judge that compares needs 2 or more samples of each prompt, found "
                f"{size}"
            )
        self._judge = judge
        self._size = size
        self._together = together
        self._may_be_alone = may_be_alone
        self._wait_s = wait_s
        self._fallback = fallback_score
        self._invalid = invalid_completion_score
        self._groups: OrderedDict[Hashable, _Group] = OrderedDict()

    async def score(
        self, group: Hashable, row: CompletionRow, *, size: int | None = None, recurs: bool = False
    ) -> CompletionReward:
        """Return the result of a sample; it always has a `score`.

        Args:
            group: the id of its group.
            row: the sample.
            size: number of samples in this group, if it differs from the usual one.
            recurs: whether this id will name another group later, as with a prompt for an id.

        Raises:
            SettingsError: no sample can be judged.
        """
        return await BACKGROUND.join(self._score(group, row, size or self._size, recurs=recurs))

    async def _score(
        self, group_id: Hashable, row: CompletionRow, size: int, *, recurs: bool
    ) -> CompletionReward:
        group = self._groups.get(group_id)
        if group is None or (group.closed.is_set() and recurs):
            group = self._groups[group_id] = _Group(size)
            group.tasks.begin(self._close_in_time(group))
            self._forget()
        if group.closed.is_set() and self._together:
            result = await self._score_late(group, row)
        else:
            future = group.add(row)
            if not self._together:
                group.tasks.begin(_settle([future], self._judge_rows([row])))
            result = await asyncio.shield(future)
        if result.reward is not None:
            return result
        await group.closed.wait()
        group_results = await asyncio.gather(*map(asyncio.shield, group.results))
        return result.or_else(
            substitute_reward([member.reward for member in group_results], self._fallback)
        )

    async def _close_in_time(self, group: _Group) -> None:
        """Wait until a group is complete or its time is over, and judge it if it is compared."""
        try:
            await asyncio.wait_for(group.closed.wait(), self._wait_s)
        except asyncio.TimeoutError:
            group.closed.set()
        if self._together:
            await _settle(group.results, self._judge_rows(group.rows))

    async def _score_late(self, group: _Group, row: CompletionRow) -> CompletionReward:
        """Return a late sample's result: its twin's, or one from a comparison with the group."""
        if row in group.rows:
            return await asyncio.shield(group.results[group.rows.index(row)])
        return (await self._judge_rows([*group.rows, row]))[-1]

    async def _judge_rows(self, rows: Sequence[CompletionRow]) -> list[CompletionReward]:
        if (
            self._together
            and not self._may_be_alone
            and len(rows) == 1
            and "baseline" not in rows[0].shared
        ):
            if not str(rows[0].response).strip():
                return [
                    CompletionReward(
                        self._invalid, INVALID_COMPLETION, explanation="the completion is empty"
                    )
                ]
            return make_failures(
                "the other samples of the group did not come, and the judge compares them"
            )
        (results,) = await self._judge([rows])
        return results

    def _forget(self) -> None:
        """Forget the oldest groups, except open ones."""
        while (
            len(self._groups) > _MAX_REMEMBERED_GROUPS
            and next(iter(self._groups.values())).closed.is_set()
        ):
            self._groups.popitem(last=False)


async def _settle(
    futures: Sequence[asyncio.Future[CompletionReward]], work: Awaitable[Sequence[CompletionReward]]
) -> None:
    """Set the result of each future, or the error."""
    try:
        results = await work
    except Exception as error:  # noqa: BLE001  # each caller gets the error: a setting cannot work
        for future in futures:
            future.set_exception(error)
            future.exception()  # marks it as retrieved, since a cancelled caller does not ask
        return
    for future, result in zip(futures, results, strict=True):
        future.set_result(result)
