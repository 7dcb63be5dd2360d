"""Judge the units of a data set, with a limit on those in progress, and append a line for each response.

Guarantees: units that are equal are judged once; a unit is let go once its lines are written; an error of a judge is a
failed judgment of its unit, and of no other; the loop stops early if nothing succeeds, because an endpoint is down or
refuses the requests.
"""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from environments.records import Sample
from environments.runs.disk import Disk
from environments.runs.failure_guard import HOPELESS_AFTER, NothingSucceeds
from environments.runs.ledger import CallLedger
from environments.runs.workers import all_of
from judgegym.datasets.rows.units import Unit, Units
from judgegym.datasets.score.lines import ScoreDetail, samples_of
from judgegym.datasets.score.saved import SavedResponses
from judges.llm.errors import UserError
from judges.llm.ledger import recorded_in
from judges.scorers.items import Item, ResponseScore, failure, shared_score

logger = logging.getLogger(__name__)

ScoreUnit: TypeAlias = Callable[[Item], Awaitable[list[ResponseScore]]]
"""Scores the responses of an item, as `score_item` does."""


class ScoreLoop:
    """The units of one run, and what becomes of them."""

    def __init__(
        self,
        units: Units,
        score: ScoreUnit,
        saved: SavedResponses,
        ledger: CallLedger,
        disk: Disk,
        arrived: Callable[[Sample[ScoreDetail]], None],
    ) -> None:
        """Prepare.

        Args:
            units: all units of the run.
            score: the judge.
            saved: takes the lines.
            ledger: the calls of this run and of the earlier one.
            disk: the disk of the run directory.
            arrived: called with each sample once its line is written.
        """
        self._units, self._score, self._saved = units, score, saved
        self._ledger, self._disk, self._arrived = ledger, disk, arrived
        self._next_equal = _next_equal(units.first_equal)
        self._failed = self._done = 0
        self._last_error = ""

    async def run(self, numbers: Sequence[int], in_flight: int) -> None:
        """Judge units, so many at once; of those that are equal, the first.

        Raises:
            NothingSucceeds: the first ten failed, and so did those in progress with them. Their lines are on disk.
            UserError: what no further call can mend, such as a disk that stays full.
            BudgetSpent: no further request may be sent. Nothing is in flight then, and all answers are recorded.
        """
        rows = iter(numbers)
        is_first_run = len(self._saved.missing) == len(self._saved)

        def is_hopeless() -> bool:
            return is_first_run and self._failed == self._done >= min(HOPELESS_AFTER, len(numbers))

        async def worker() -> None:
            for number in rows:
                await self._judge(number)
                if is_hopeless():
                    return  # begin no further units; one that is in progress may still succeed

        while self._done < len(numbers):
            await all_of(worker() for _ in range(min(in_flight, len(numbers) - self._done)))
            if is_hopeless():
                raise NothingSucceeds(self._last_error)

    async def _judge(self, number: int) -> None:
        if not self._disk.is_open:
            await self._disk.ready()
        unit = self._units[number]
        calls = self._ledger.row(unit.uid)
        started = time.monotonic()
        with recorded_in(calls):
            results = await self._results(unit)
        if any(result.is_failed for result in results):
            calls.failed()
        self._save(number, unit, results, time.monotonic() - started)
        self._done += 1
        if all(result.is_failed for result in results):
            self._failed += 1
            self._last_error = results[0].explanation
        equal = self._next_equal[number]
        while equal >= 0:
            self._save(equal, self._units[equal], [shared_score(result) for result in results], 0.0)
            equal = self._next_equal[equal]

    async def _results(self, unit: Unit) -> list[ResponseScore]:
        try:
            return await self._score(unit.item)
        except UserError:
            raise  # it is none of this unit: no other would end better
        except Exception as error:  # boundary of a unit: an error of a judge fails this unit alone
            logger.exception("%s: the judge failed", unit.uid)
            return [failure(f"{type(error).__name__}: {error}")] * len(unit.item.responses)

    def _save(self, number: int, unit: Unit, results: Sequence[ResponseScore], seconds: float) -> None:
        samples = samples_of(unit, self._units.key(number).hex(), results, seconds)
        for place, sample in zip(self._units.places.of_unit(number), samples, strict=True):
            self._saved.append(place, sample, is_complete=sample.finished)
            self._arrived(sample)


def _next_equal(first_equal: Sequence[int]) -> array[int]:
    """For each unit the next one that is equal to it; −1 without one."""
    following, last = array("q", [-1]) * len(first_equal), dict[int, int]()
    for number, first in enumerate(first_equal):
        if first != number:
            following[last.get(first, first)] = number
            last[first] = number
    return following
