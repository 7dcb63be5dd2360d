"""What the progress display shows of an evaluation: numbers that are recorded when a sample arrives, and no sample."""

from __future__ import annotations

from typing import Any, Generic

from environments.base import DetailT, JudgedEnv
from environments.data.rows import TaskT
from environments.evaluate.metrics import counts
from environments.evaluate.report import EvaluationProgress
from environments.metrics import RunningValue
from environments.records import Sample


class LiveProgress(Generic[TaskT, DetailT]):
    """Counts the rows of a run as they arrive.

    Attributes:
        done: rows that an earlier run has finished, and rows that have arrived since.
    """

    def __init__(self, env: JudgedEnv[Any, TaskT, DetailT]) -> None:
        """Begin with no row."""
        self._env = env
        name, self._words = env.headline
        self._headline = RunningValue(name)
        self._failures = 0
        self.done = 0

    def add(self, task: TaskT, sample: Sample[DetailT]) -> None:
        """Record a row; one that an earlier run has failed at is recorded when it has run again."""
        self.done += 1
        self._failures += not sample.finished
        if counts(sample.status, policy_is_judge=self._env.policy_is_judge):
            self._env.record_metrics(self._headline, task, sample)

    def look(self, waiting: str | None) -> EvaluationProgress:
        """Return the progress; `waiting` is what the run directory waits for, if it does."""
        clients = self._env.clients
        reasons = "; ".join(filter(None, (waiting, clients.waiting))) or None
        return EvaluationProgress(
            self.done, self._words, self._headline.value, self._failures, clients.judge_cost, reasons
        )
