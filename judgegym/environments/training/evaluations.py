"""The evaluations of a `serve`: beside its rollouts, one at a time.

Guarantees: a step that becomes due during an evaluation is evaluated after it, unless a later one has become due since;
an evaluation that fails ends no training.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from judgegym.engine.metrics import Metrics
from judgegym.llm.errors import JudgeGymError

logger = logging.getLogger(__name__)

Evaluate = Callable[[int], Awaitable[Metrics]]
"""Evaluates the policy of a step."""
Log = Callable[[int, Metrics], Awaitable[None]]
"""Logs the metrics of a step."""


class Evaluations:
    """Runs evaluations in a task of its own."""

    def __init__(self, evaluate: Evaluate, log: Log, ended: Callable[[asyncio.Task[None]], None]) -> None:
        """Begin none yet; `ended` is called with each task that has ended."""
        self._evaluate = evaluate
        self._log = log
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        self._due: int | None = None

    @property
    def running(self) -> bool:
        """Whether there is one in progress."""
        return self._task is not None and not self._task.done()

    def begin(self, step: int) -> None:
        """Evaluate a step, now or after the evaluation in progress."""
        self._due = step
        if not self.running:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._ended)

    async def finish(self) -> None:
        """Wait for the evaluation in progress."""
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Cancel the evaluation in progress."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._due is not None:
            step, self._due = self._due, None
            try:
                metrics = await self._evaluate(step)
                await self._log(step, Metrics({**metrics.values, "eval/step": step}, metrics.left_out, metrics.unknown))
            except JudgeGymError as error:
                logger.error("the evaluation of step %d failed: %s", step, error)
