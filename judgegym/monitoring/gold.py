"""A gold judge beside training: it scores a sample of the rollouts, with its own client, limits and budget.

Guarantees: training never waits for it, and no reward depends on it. Which rollouts it sees is a function of the seed
and the row. The queue is bounded; what finds no place is counted, and so is what fails. Once its budget is spent it
stops, with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from judgegym.judges.core.seeding import derive
from judgegym.judges.core.tasks import TaskJudge, judge_responses
from judgegym.llm.errors import BudgetError, JudgeGymError
from judgegym.llm.ledger import RowLedger, component, current_row, recorded_in
from judgegym.monitoring.group import MonitorGroup
from judgegym.monitoring.settings import MonitorSettings

logger = logging.getLogger(__name__)

_WHOLE = float(2**64)


@dataclass(frozen=True, slots=True)
class GoldScores:
    """What the gold judge says of a group.

    Attributes:
        group: the group.
        scores: by the number of the rollout; those that failed are missing. The first one is that of the gap.
    """

    group: MonitorGroup
    scores: dict[int, float]


class GoldJudge:
    """Scores rollouts in the background.

    Attributes:
        counts: rollouts that were `scored`, that `failed`, and that were `left_out` because the queue was full or the
            budget spent.
    """

    def __init__(
        self,
        settings: MonitorSettings,
        judge: TaskJudge,
        *,
        seed: int,
        at_once: int,
        report: Callable[[GoldScores], None],
    ) -> None:
        """Begin with nothing to score; workers start with the first group.

        Args:
            settings: how much it sees.
            judge: the judge.
            seed: of the choice.
            at_once: how many groups it scores at once.
            report: called with the scores of each group.
        """
        self.counts: Counter[str] = Counter(scored=0, failed=0, left_out=0)
        self._settings, self._judge, self._seed, self._report = settings, judge, seed, report
        self._at_once = at_once
        self._queue: deque[tuple[MonitorGroup, tuple[int, ...], RowLedger | None]] = deque()
        self._waiting = 0
        self._workers: set[asyncio.Task[None]] = set()
        self._is_spent = False

    @property
    def waiting(self) -> int:
        """Rollouts that wait for the gold judge, or are being scored."""
        return self._waiting

    def offer(self, group: MonitorGroup) -> None:
        """Queue the rollouts of a group that the gold judge is to see, if there is room.

        Its calls are recorded in the ledger in which calls are recorded here, if there is one.
        """
        chosen = self.chosen(group)
        if not chosen:
            return
        if self._is_spent or self._waiting + len(chosen) > self._settings.gold_queue:
            self.counts["left_out"] += len(chosen)
            return
        self._queue.append((group, chosen, current_row()))
        self._waiting += len(chosen)
        if len(self._workers) < self._at_once:
            worker = asyncio.get_running_loop().create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    def chosen(self, group: MonitorGroup) -> tuple[int, ...]:
        """Return the numbers of the rollouts that the gold judge sees; the first is that of the gap."""
        settings, number = self._settings, group.number if group.ledger is None else group.ledger
        uid = f"{group.uid}\x1f{number}"  # a group that is judged again in a resumed run has its number in the ledger
        scored = [number for number, rollout in enumerate(group.rollouts) if rollout.score is not None]
        if not scored or derive(self._seed, uid, "gold") / _WHOLE >= settings.gold_share:
            return ()
        first = scored[derive(self._seed, uid, "gold rollout") % len(scored)]
        if derive(self._seed, uid, "gold order") / _WHOLE >= settings.gold_ranked_share:
            return (first,)
        return (first, *(number for number in scored if number != first))

    async def close(self, within_s: float) -> None:
        """Let what is queued end for so many seconds (`math.inf`: for as long as it takes), then leave it out."""
        if self._workers:
            await asyncio.wait(self._workers, timeout=None if math.isinf(within_s) else within_s)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self.counts["left_out"] += self._waiting
        self._waiting = 0
        self._queue.clear()

    async def _work(self) -> None:
        while self._queue:
            group, chosen, row = self._queue.popleft()
            with recorded_in(row), component("gold"):
                scores = await self._score(group, chosen)
            self._waiting -= len(chosen)
            if not scores:
                continue
            try:
                self._report(GoldScores(group, scores))
            except Exception:  # as above
                logger.exception("the gold scores of row %r are left out", group.uid)

    async def _score(self, group: MonitorGroup, chosen: Sequence[int]) -> dict[int, float]:
        task = replace(group.task, responses=tuple(group.rollouts[number].completion for number in chosen))
        try:
            self._judge.check(task)
            results = await judge_responses(self._judge, task)
        except BudgetError as error:
            self.counts["left_out"] += len(chosen)
            if not self._is_spent:
                logger.warning("the gold judge stops: %s", error)
            self._is_spent = True
            return {}
        except JudgeGymError as error:
            self._failed(group, len(chosen), error)
            return {}
        except Exception as error:  # noqa: BLE001  # boundary of the gold judge: none of its errors may end training
            self._failed(group, len(chosen), error)
            return {}
        found = {
            number: result.score for number, result in zip(chosen, results, strict=True) if result.score is not None
        }
        self.counts["scored"] += len(found)
        self.counts["failed"] += len(chosen) - len(found)
        return found

    def _failed(self, group: MonitorGroup, rollouts: int, error: Exception) -> None:
        if not self.counts["failed"]:
            logger.warning("the gold judge failed on row %r, further failures are counted: %s", group.uid, error)
        self.counts["failed"] += rollouts
