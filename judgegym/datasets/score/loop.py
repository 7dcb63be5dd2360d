"""Judge the units of a data set, with a limit on those in progress, and append a line for each response.

Guarantees: units that are equal are judged once; a unit is let go once its lines are written; the loop stops early if
nothing succeeds, or if an endpoint's outage ends the run.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from judgegym.datasets.rows.unit import ScoreTask
from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.sample.sampling import FinishUnit, JudgedResponse
from judgegym.datasets.score.gold import GoldColumn
from judgegym.datasets.score.lines import ScoreDetail, samples_of
from judgegym.datasets.score.saved import SavedResponses
from judgegym.engine.records import Sample
from judgegym.engine.runs.disk import Disk
from judgegym.engine.runs.failure_guard import HOPELESS_AFTER, NothingSucceeds, OutageGuard, all_of
from judgegym.engine.runs.ledger import CallLedger
from judgegym.judges.scorers.items import shared_score
from judgegym.llm.ledger import recorded_in


class ScoreLoop:
    """The units of one run, and what becomes of them."""

    def __init__(
        self,
        units: ScoreTasks,
        finish: FinishUnit,
        saved: SavedResponses,
        ledger: CallLedger,
        disk: Disk,
        arrived: Callable[[Sample[ScoreDetail]], None],
        gold: GoldColumn | None = None,
    ) -> None:
        """Prepare.

        Args:
            units: all units of the run.
            finish: judges the responses of a unit; a policy may be asked for them first.
            saved: takes the lines.
            ledger: the calls of this run and of the earlier one.
            disk: the disk of the run directory.
            arrived: called with each sample once its line is written.
            gold: reads the gold labels of the rows; `None` without any.
        """
        self._units, self._finish, self._saved = units, finish, saved
        self._ledger, self._disk, self._arrived, self._gold = ledger, disk, arrived, gold
        self._next_equal = _next_equal(units.first_equal)
        self._failed = self._done = 0
        self._last_error = ""

    async def run(self, numbers: Sequence[int], in_flight: int) -> None:
        """Judge units, so many at once; of those that are equal, the first.

        Raises:
            NothingSucceeds: the first ten failed, and so did those in progress with them. Their lines are on disk.
            EndpointOutage: an endpoint answers no call; the units in progress that do not need it have ended.
            UserError: what no further call can mend, such as a disk that stays full.
            BudgetSpent: no further request may be sent. Nothing is in flight then, and all answers are recorded.
        """
        rows, guard = iter(numbers), OutageGuard()
        is_first_run = len(self._saved.missing) == len(self._saved)

        def is_hopeless() -> bool:
            return is_first_run and self._failed == self._done >= min(HOPELESS_AFTER, len(numbers))

        async def worker() -> None:
            for number in rows:
                await guard.run(partial(self._judge, number), None)
                if is_hopeless() or not guard.may_begin:
                    return  # begin no further units; one that is in progress may still succeed

        while self._done < len(numbers):
            await all_of(worker() for _ in range(min(in_flight, len(numbers) - self._done)))
            guard.check()
            if is_hopeless():
                raise NothingSucceeds(self._last_error)

    async def _judge(self, number: int) -> None:
        if not self._disk.is_open:
            await self._disk.ready()
        unit = self._units[number]
        calls = self._ledger.row(unit.uid)
        started = time.monotonic()
        with recorded_in(calls):
            judged = await self._finish(unit)
        if any(response.result.is_failed for response in judged):
            calls.failed()
        self._save(number, unit, judged, time.monotonic() - started)
        self._done += 1
        # That a policy never gave a response in an earlier run says nothing of this one's endpoints.
        was_asked = not unit.earlier or any(response.status is None for response in unit.earlier)
        if was_asked and all(response.result.is_failed for response in judged):
            self._failed += 1
            self._last_error = judged[0].result.explanation
        if self._next_equal[number] >= 0:
            self._share(number, judged)

    def _share(self, number: int, judged: Sequence[JudgedResponse]) -> None:
        """Save the results of a unit for those that are equal to it, too."""
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
