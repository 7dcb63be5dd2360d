"""Gold judge beside training: it scores sampled rollouts, with its own client, limits and budget.

Guarantees: training never waits for it, and no reward depends on it. Which rollouts it sees is a
function of the seed and the row. The queue is bounded; rollouts that do not fit are counted, and so
are failures. The first failure is logged, and so are many in a row. Once its budget is spent it
stops, with one line.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from judgegym.judges.core.seeding import derive_seed
from judgegym.judges.core.tasks import TaskJudge, judge_responses
from judgegym.llm.at_once import Tasks, cancel_all
from judgegym.llm.errors import BudgetError
from judgegym.llm.ledger import component
from judgegym.monitoring.group import MonitorGroup
from judgegym.monitoring.settings import MonitorSettings

logger = logging.getLogger(__name__)

_HASH_RANGE = float(2**64)
_CONCURRENCY = 4
"""Number of groups that it scores at the same time."""
_FAILURES_BEFORE_WARNING = 32
"""Failures in a row before a warning: a gold judge without scores raises no alarm."""


class GoldJudge:
    """Judge that scores rollouts in the background.

    Attributes:
        name: its name.
        counts: number of rollouts by outcome: `scored`, `failed`, or `left_out` because the queue
            was full or the budget spent.
        waiting: number of rollouts in its queue or in progress.
        report: called with each group and its scores by the number of the rollout. Failed rollouts
            are missing; the first one is that of the gap.

    Class attributes:
        ranked_share: the share of its groups of which it sees all rollouts, so that their order is
            compared.
        longest_queue: maximum number of waiting rollouts; further ones are counted, and not scored.
    """

    ranked_share: ClassVar[float] = 0.25
    longest_queue: ClassVar[int] = 256

    def __init__(
        self,
        settings: MonitorSettings,
        judge: TaskJudge,
        *,
        name: str,
        seed: int,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        """Begin with an empty queue.

        Args:
            settings: the settings, with the shares of groups and rollouts that it sees.
            judge: the judge.
            name: its name.
            seed: seed of the choice of rollouts.
            close: closes its client.
        """
        self.name = name
        self.counts: Counter[str] = Counter(scored=0, failed=0, left_out=0)
        self.waiting = 0
        self.report: Callable[[MonitorGroup, dict[int, float]], None] = lambda group, scores: None
        self._settings = settings
        self._judge = judge
        self._seed = seed
        self._close_client = close
        self._semaphore = asyncio.Semaphore(_CONCURRENCY)
        self._tasks = Tasks()
        self._is_spent = False
        self._failed_in_a_row = 0

    def offer(self, group: MonitorGroup) -> None:
        """Queue the group's sampled rollouts, if there is room.

        Its calls are recorded in the current ledger, if there is one.
        """
        chosen = self.choose_rollouts(group)
        if self._is_spent or self.waiting + len(chosen) > self.longest_queue:
            self.counts["left_out"] += len(chosen)
        elif chosen:
            self.waiting += len(chosen)
            self._tasks.begin(self._score_queued(group, chosen))

    def choose_rollouts(self, group: MonitorGroup) -> tuple[int, ...]:
        """Return the numbers of the rollouts to score; the first is that of the gap."""
        # A group that a resumed run judges again has another number, but the same in the ledger.
        settings, number = self._settings, group.ledger
        if number is None:
            number = group.number
        uid = f"{group.uid}\x1f{number}"
        scored = [
            number for number, rollout in enumerate(group.rollouts) if rollout.score is not None
        ]
        if not scored or derive_seed(self._seed, uid, "gold") / _HASH_RANGE >= settings.gold_share:
            return ()
        first = scored[derive_seed(self._seed, uid, "gold rollout") % len(scored)]
        if derive_seed(self._seed, uid, "gold order") / _HASH_RANGE >= self.ranked_share:
            return (first,)
        return (first, *(number for number in scored if number != first))

    async def drain(self) -> None:
        """Wait until all groups queued so far are finished."""
        if self._tasks:
            await asyncio.wait([*self._tasks])

    async def close(self, within_s: float) -> None:
        """Close after at most `within_s` (`math.inf`: no limit).

        Drop rollouts that are still queued.
        """
        if self._tasks:
            timeout = None if math.isinf(within_s) else within_s
            await asyncio.wait(self._tasks, timeout=timeout)
        await cancel_all(self._tasks)
        self.counts["left_out"] += self.waiting
        self.waiting = 0
        await self._close_client()

    async def _score_queued(self, group: MonitorGroup, chosen: Sequence[int]) -> None:
        async with self._semaphore:
            with component("gold"):
                scores = await self._score(group, chosen)
        self.waiting -= len(chosen)
        if not scores:
            return
        try:
            self.report(group, scores)
        except Exception:  # no error of the gold judge may end training
            logger.exception("the gold scores of row %r are skipped", group.uid)

    async def _score(self, group: MonitorGroup, chosen: Sequence[int]) -> dict[int, float]:
        task = group.task.replace_responses(
            [group.rollouts[number].completion for number in chosen]
        )
        gold_scores: dict[int, float] = {}
        reason: object = ""
        try:
            if not self._is_spent:
                self._judge.check(task)
                results = await judge_responses(self._judge, task)
                scores = (
                    (number, result.score) for number, result in zip(chosen, results, strict=True)
                )
                gold_scores = {number: score for number, score in scores if score is not None}
                reason = next(
                    (result.explanation for result in results if result.score is None), ""
                )
        except BudgetError as error:
            if not self._is_spent:
                logger.warning("the gold judge stops: %s", error)
            self._is_spent = True
        except Exception as error:  # noqa: BLE001  # boundary, as above
            reason = error
        failed, left_out = len(chosen) - len(gold_scores), 0
        if self._is_spent:
            failed, left_out = 0, failed
        self._log_failures(failed, len(gold_scores), group.uid, reason)
        self.counts["scored"] += len(gold_scores)
        self.counts["failed"] += failed
        self.counts["left_out"] += left_out
        return gold_scores

    def _log_failures(self, failed: int, scored: int, uid: str, reason: object) -> None:
        """Log the first failure, and every 32 failures in a row."""
        if failed and not self.counts["failed"]:
            logger.warning(
                "the gold judge failed on row %r, further failures are counted: %s", uid, reason
            )
        before = self._failed_in_a_row
        self._failed_in_a_row = 0 if scored else before + failed
        if before < _FAILURES_BEFORE_WARNING <= self._failed_in_a_row:
            message = (
                "the gold judge has failed on %d rollouts in a row, and without its scores there "
                "is no alarm: %s"
            )
            logger.warning(message, self._failed_in_a_row, reason)
