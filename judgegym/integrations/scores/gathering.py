"""The samples of a group, which a trainer gives one by one, and what each is worth.

Guarantees: samples of one group meet, in whatever order they come; with a judge that compares, a group is judged once
it is whole, or `wait_s` after its first sample if the others stay away, and a sample that comes later is compared with
the others in a request of its own; with any other judge each sample is judged at once, and waits for its group only if
the judge failed. Every sample gets a finite number: its score, what an empty one is worth, or in place of a missing
score the mean of its group, flagged. Any event loop may ask; a caller that leaves takes no group with it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

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
from judgegym.integrations.scores.scoring import RewardScorer
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.llm.errors import SettingsError

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

    def add(self, row: CompletionRow) -> int:
        self.rows.append(row)
        self.results.append(asyncio.get_running_loop().create_future())
        if len(self.rows) >= self.size:
            self.closed.set()
        return len(self.rows) - 1

    def twin(self, row: CompletionRow) -> int | None:
        """The place of a sample with the same response."""
        return next((place for place, known in enumerate(self.rows) if known == row), None)


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
            place = group.add(row)
            if not self._settings.together:
                group.begin(_into(group.results[place], self._alone(row)))
            result = await asyncio.shield(group.results[place])
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
        if not self._settings.together:
            return
        try:
            results = await self._together(group.rows)
        except Exception as error:  # noqa: BLE001  # each caller of the group gets it: a setting that cannot work
            for future in group.results:
                future.set_exception(error)
                future.exception()  # a caller that has left does not ask
            return
        for future, result in zip(group.results, results, strict=True):
            future.set_result(result)

    async def _late(self, group: _Group, row: CompletionRow) -> CompletionReward:
        """The score of a sample whose group is closed: that of its twin, or one from a comparison with the others."""
        place = group.twin(row)
        if place is not None:
            return await asyncio.shield(group.results[place])
        return (await self._together([*group.rows, row]))[-1]

    async def _together(self, rows: Sequence[CompletionRow]) -> list[CompletionReward]:
        if len(rows) == 1 and "baseline" not in rows[0].shared:
            if not str(rows[0].response).strip():
                worth = self._settings.invalid_completion_score
                return [CompletionReward(worth, INVALID_COMPLETION, explanation="the completion is empty")]
            alone = "the other samples of the group did not come, and the judge compares them"
            return [CompletionReward(None, JUDGE_FAILED, explanation=alone)]
        return await self._judge(rows)

    async def _alone(self, row: CompletionRow) -> CompletionReward:
        return (await self._judge([row]))[0]

    def _forget(self) -> None:
        """Forget the oldest groups, but none that is open."""
        while len(self._groups) > _MOST_KEPT and next(iter(self._groups.values())).closed.is_set():
            self._groups.popitem(last=False)


def judged_by(scoring: RewardScorer, settings: GatheringSettings) -> Judge:
    """A judge that asks a source: for one row, or for a group in one request."""

    async def judge(rows: Sequence[CompletionRow]) -> list[CompletionReward]:
        (results,) = await scoring.score([group_request(rows) if settings.together else single_request(rows[0])])
        return [result.rewarded(settings.invalid_completion_score) for result in results]

    return judge


async def _into(future: asyncio.Future[CompletionReward], work: Awaitable[CompletionReward]) -> None:
    try:
        future.set_result(await work)
    except Exception as error:  # noqa: BLE001  # the caller gets it: a setting that cannot work
        future.set_exception(error)
        future.exception()  # a caller that has left does not ask
