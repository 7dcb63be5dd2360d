"""One evaluation: its rows, the row runner, and the run directory with samples and metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from environments.base import DetailT, JudgedEnv
from environments.data.provenance import DatasetRead, recording
from environments.data.rows import TaskT
from environments.data.task_list import select
from environments.evaluate import metrics as evaluation_metrics
from environments.evaluate import report
from environments.evaluate.earlier import EarlierRows, read_earlier
from environments.evaluate.loop import finish_rows
from environments.evaluate.metrics_file import metrics_file
from environments.evaluate.row import RowRunner
from environments.metrics import MetricAggregator, Metrics
from environments.records import Sample, SampleReader
from environments.runs.directory import RunDirectory
from environments.runs.disk import Disk
from environments.runs.failure_guard import NothingSucceeds
from environments.runs.ledger import CallLedger
from environments.runs.packing import pack
from judges.core.judgment import Status
from judges.llm.errors import DataError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The result of an evaluation.

    Attributes:
        path: the run directory.
        metrics: empty if nothing succeeded.
        problem: why the command must fail, or `None`.
        notices: what a reader of the numbers must know.
        tables: further tables of the environment.
    """

    path: Path
    metrics: Metrics
    problem: str | None
    notices: tuple[str, ...]
    tables: Sequence[report.Table] = ()


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class Evaluation(Generic[TaskT, DetailT]):
    """The rows to evaluate, and the runner that evaluates each."""

    env: JudgedEnv[Any, TaskT, DetailT]
    runner: RowRunner[TaskT, DetailT]
    tasks: Sequence[TaskT]
    datasets: Sequence[DatasetRead] = ()

    @classmethod
    def of(cls, env: JudgedEnv[Any, TaskT, DetailT]) -> Evaluation[TaskT, DetailT]:
        """Load all rows, or those that `--limit` chooses, and prepare the runner.

        Raises:
            DataError: the rows or the answers to judge cannot be loaded, or there are none.
            SettingsError: an endpoint or its API key is missing.
        """
        with recording() as datasets:
            tasks = select(env.tasks("eval"), limit=env.settings.limit, seed=env.config.seed)
            if not tasks:
                raise DataError("there is no row to evaluate")
            runner = env.row_runner() or RowRunner(env)
            runner.prepare(tasks)
        return cls(env, runner, tasks, tuple(datasets))

    @property
    def title(self) -> str:
        """Return what is evaluated, and who judges it."""
        judge = "" if self.env.policy_is_judge else f", judged by {self.runner.judge_name}"
        return f"{self.env.name}: {self.runner.subject}{judge}"

    async def run(
        self, path: Path, *, resume: bool, in_flight: int, display: report.ProgressDisplay | None
    ) -> EvaluationResult:
        """Evaluate into a run directory.

        Args:
            path: the directory.
            resume: resume the run in it.
            in_flight: rows in progress at once.
            display: shows the progress; `None` during training.

        Raises:
            RunDirectoryError: the run directory cannot be used.
            DiskFull: it could not be written to for too long.
        """
        env, tasks, settings, started = self.env, self.tasks, self.env.settings, time.monotonic()
        run, before = RunDirectory.open(
            path,
            config=settings.public(),
            matters=settings.matters(),
            resume=resume,
            disk=Disk(env.config.disk_full_deadline),
        )
        try:
            earlier = read_earlier(before, SampleReader[DetailT](env.detail_type), tasks, self.runner)
            if earlier.changed:
                logger.warning("rows that have changed since, and are judged again: %d", len(earlier.changed))
            try:
                samples = await self._finish(earlier, run, in_flight, display)
            except NothingSucceeds as error:
                reason = f"nothing succeeded, so the evaluation was stopped: {error}"
                return EvaluationResult(path, Metrics({}, {}), reason, ())
            await run.rewrite(
                lambda: (sample.to_line() for sample in samples if sample.finished),
                lambda: (sample.to_line() for sample in samples if not sample.finished),
            )
            metrics = compute_metrics(env, tasks, samples, runner=self.runner)
            problem = evaluation_metrics.too_many_failures(metrics, samples, env.config.max_judge_error_rate)
            if problem is not None and not any(sample.status == Status.OK.value for sample in samples):
                return EvaluationResult(path, Metrics({}, {}), f"nothing succeeded: {problem}", ())
            notices = [report.offline_notice(settings.stand_ins)] if settings.stand_ins else []
            rows = [(task, sample) for task, sample in zip(tasks, samples, strict=True) if sample.finished]
            tables = await run.disk.retried(path, lambda: self.runner.write_report(path, rows))
            seconds = time.monotonic() - started
            await run.write_metrics(
                metrics_file(env, self.runner, tasks, metrics, datasets=self.datasets, seconds=seconds, notices=notices)
            )
            # Rows that are not complete still need the answers that they have.
            if settings.keep_calls or all(map(self.runner.is_complete, samples)):
                await asyncio.to_thread(pack, path, keep=settings.keep_calls)
        finally:
            run.close()
        all_notices = (
            *evaluation_metrics.failure_notices(samples, path, policy_is_judge=env.policy_is_judge),
            *notices,
        )
        return EvaluationResult(path, metrics, problem, all_notices, tables)

    async def _finish(
        self, earlier: EarlierRows[DetailT], run: RunDirectory, in_flight: int, display: report.ProgressDisplay | None
    ) -> list[Sample[DetailT]]:
        """Run the rows that are missing, and return the samples of all."""
        finished = earlier.finished
        if len(finished) == len(self.tasks):
            return [finished[task.uid] for task in self.tasks]
        run.drop_metrics()
        arrived: list[tuple[TaskT, Sample[DetailT]]] = []
        with closing(CallLedger(run, finished=finished.keys(), keep_texts=self.env.settings.keep_calls)) as ledger:
            if finished or ledger.is_resumed:
                logger.info("resuming %s: %d rows are finished; %s", run.path, len(finished), ledger.loss)
            finishing = finish_rows(
                self.tasks,
                self.runner.finish,
                is_complete=self.runner.is_complete,
                finished=finished,
                run=run,
                ledger=ledger,
                in_flight=in_flight,
                arrived=arrived,
            )
            if display is None:
                return await finishing
            display.begin_with(len(finished))
            with display.following(self._progress(earlier, arrived, run.disk)):
                return await finishing

    def _progress(
        self, earlier: EarlierRows[DetailT], arrived: Sequence[tuple[TaskT, Sample[DetailT]]], disk: Disk
    ) -> Callable[[], report.EvaluationProgress]:
        """Return a function that counts the samples that have arrived since its last call."""
        env, live, failures, seen = self.env, MetricAggregator("live"), 0, 0
        headline, words = env.headline
        for task in self.tasks:
            if task.uid in earlier.finished:  # a failed row runs again, and is counted then
                env.record_metrics(live, task, earlier.finished[task.uid])

        def look() -> report.EvaluationProgress:
            nonlocal failures, seen
            for task, sample in arrived[seen:]:
                seen += 1
                failures += not sample.finished
                if evaluation_metrics.counts(sample, policy_is_judge=env.policy_is_judge):
                    env.record_metrics(live, task, sample)
            done = len(earlier.finished) + seen
            clients, value = env.clients, live.current(headline)
            waiting = "; ".join(filter(None, (disk.waiting, clients.waiting))) or None
            return report.EvaluationProgress(done, words, value, failures, clients.judge_cost, waiting)

        return look


def compute_metrics(
    env: JudgedEnv[Any, TaskT, DetailT],
    tasks: Sequence[TaskT],
    samples: Sequence[Sample[DetailT]],
    *,
    runner: RowRunner[TaskT, DetailT],
) -> Metrics:
    """Compute all metrics of an evaluation from its samples, in the order of the rows."""
    metrics = MetricAggregator("eval", seed=env.config.seed)
    env.expect_metrics(metrics, tasks)
    roles = [
        role for role, is_asked in (("policy", runner.asks_policy), ("judge", not env.policy_is_judge)) if is_asked
    ]
    evaluation_metrics.expect_shared(metrics, env.config, roles, completions=runner.keeps_completions)
    rows = [
        (task, sample)
        for task, sample in zip(tasks, samples, strict=True)
        if evaluation_metrics.counts(sample, policy_is_judge=env.policy_is_judge)
    ]
    for task, sample in rows:
        env.record_metrics(metrics, task, sample)
    for task, sample in zip(tasks, samples, strict=True):
        if not evaluation_metrics.counts(sample, policy_is_judge=env.policy_is_judge):
            env.record_failure(metrics, task, sample)
    if rows:
        env.summarise(metrics, rows)
    evaluation_metrics.record_shared(metrics, samples, thinking_mode=env.config.thinking_mode)
    return metrics.result()
