"""One evaluation: its rows, the row runner, and the run directory with samples and metrics.

The summary of an evaluation: headline, outcomes, categories, what went wrong, cost and time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

from judgegym.data.rows import DatasetRead, TaskT, recording
from judgegym.data.task_list import select
from judgegym.engine import terminal
from judgegym.engine.loop import NothingSucceeds, RowEnd, RunProgress, judge_rows
from judgegym.engine.metrics import Metrics, RatioRecorder
from judgegym.engine.records import FINISHED, POLICY_FAILED, Sample, SampleReader
from judgegym.engine.runs.directory import EarlierLines, RunDirectory
from judgegym.engine.runs.disk import Disk
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.log import RunLog
from judgegym.engine.runs.recorded_calls import CALLS, pack
from judgegym.engine.terminal.output import duration
from judgegym.engine.terminal.summary import (
    COMPLETION_FAULTS,
    Section,
    Summary,
    SummaryLine,
    cost_lines,
    headline_line,
    latency_words,
    outcome_lines,
)
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.evaluate import metrics as evaluation_metrics
from judgegym.environments.evaluate.metrics import Categories, compute_metrics, counts, readable
from judgegym.environments.evaluate.metrics_file import EvaluatedRows, metrics_file
from judgegym.environments.evaluate.row import RowRunner
from judgegym.environments.evaluate.saved import EarlierRows, Outcomes, SavedRows, read_earlier
from judgegym.judges.core.judgment import Status
from judgegym.llm.errors import DataError
from judgegym.reports.run_page.page import write_report_after

_MOST_CATEGORIES = 12
FAILURE_WORDS = {
    Status.JUDGE_FAILED.value: "the judge failed",
    Status.UNPARSABLE.value: "no verdict",
    POLICY_FAILED: "the policy failed",
}
"""What has failed, by the status of a row that does not count."""


@dataclass(frozen=True, slots=True)
class EvaluatedNumbers:
    """The numbers of an evaluation, the data sets that were read for it, and how long this command took for them."""

    metrics: Metrics
    outcomes: Outcomes
    categories: Categories
    datasets: Sequence[DatasetRead]
    seconds: float
    is_resumed: bool


def summary_of(env: JudgedEnv[Any, Any, Any], title: str, numbers: EvaluatedNumbers, notices: Sequence[str]) -> Summary:
    """Return what the command prints."""
    metrics, (headline, words) = numbers.metrics, env.headline
    selected, finished = numbers.outcomes.rows, numbers.outcomes.finished
    rows = f"{finished:,} of {selected:,}" if finished < selected else f"{selected:,}"
    of = f"{rows} row{'' if selected == 1 else 's'}"
    line = headline_line(metrics, f"eval/{headline}", words, of=of, counted=finished)
    latencies = latency_words(metrics, "eval")
    last_part = "since it was resumed" if numbers.is_resumed else ""
    return Summary(
        title=title,
        headline=line,
        sections=(
            Section("outcomes", outcome_lines(env.outcomes(), metrics, "eval", faults=False)),
            Section("categories", category_lines(numbers.categories)),
            Section("went wrong", _fault_lines(env, numbers), is_alarm=True),
            Section(
                "data", [SummaryLine("", "", "; ".join(map(data_words, numbers.datasets)))] if numbers.datasets else []
            ),
            Section("cost", cost_lines(metrics, "eval")),
            Section(
                "time", [SummaryLine("", duration(numbers.seconds), "; ".join(filter(None, (last_part, latencies))))]
            ),
        ),
        notices=notices,
    )


def data_words(dataset: DatasetRead) -> str:
    """Return which data set was read, and how many rows it has."""
    split = "" if dataset.split is None else f", split {dataset.split}"
    return f"{dataset.name}{split} ({dataset.rows:,} row{'' if dataset.rows == 1 else 's'})"


def category_lines(categories: Categories) -> list[SummaryLine]:
    """A line for each of the largest categories, and one for the others together."""
    shown, others = categories.largest(_MOST_CATEGORIES)
    lines = [SummaryLine(name, f"{found.value:.4f}", f"n = {found.rows:,}") for name, found in shown.items()]
    if others is not None:
        lines.append(
            SummaryLine(f"{len(categories) - len(shown):,} more", f"{others.value:.4f}", f"n = {others.rows:,}")
        )
    return lines


def _fault_lines(env: JudgedEnv[Any, Any, Any], numbers: EvaluatedNumbers) -> list[SummaryLine]:
    """Return what went wrong, each only above 0."""
    metrics, statuses = numbers.metrics, numbers.outcomes.statuses
    lines = []
    for status, words in FAILURE_WORDS.items():
        if statuses[status]:
            how = "count as wrong" if counts(status, policy_is_judge=env.policy_is_judge) else "are left out"
            lines.append(SummaryLine(words, f"{statuses[status]:,}", f"rows {how}"))
    if statuses[Status.INVALID_COMPLETION.value]:
        malformed = statuses[Status.INVALID_COMPLETION.value]
        lines.append(SummaryLine("malformed", f"{malformed:,}", "rows count as wrong: wrong format, refused or empty"))
    for name, words in COMPLETION_FAULTS.items():
        of = metrics.observations.get(f"eval/{name}", 0)
        found = round(metrics.values.get(f"eval/{name}", 0.0) * of)
        if found:
            lines.append(SummaryLine(words, f"{found:,}", f"of {of:,} answers of the policy"))
    suspects = metrics.values.get("eval/judge_injection_suspects", 0)
    if suspects:
        what = "tokens or markers of the judge's prompt, in texts under judgment"
        lines.append(SummaryLine("suspects", f"{suspects:,}", what))
    return [*lines, *outcome_lines(env.outcomes(), metrics, "eval", faults=True)]


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The result of an evaluation.

    Attributes:
        path: the run directory.
        metrics: empty if nothing succeeded.
        problem: why the command must fail, or `None`.
        is_unfinished: rows were left alone by `--retry_failed`, so that there are no metrics.
        notices: what a reader of the numbers must know.
        tables: further tables of the environment.
        summary: what the terminal shows; `None` if nothing succeeded.
    """

    path: Path
    metrics: Metrics
    problem: str | None
    notices: tuple[str, ...]
    tables: Sequence[terminal.Table] = ()
    summary: terminal.Summary | None = None
    is_unfinished: bool = False


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
            tasks = select(env.load_tasks("eval"), limit=env.settings.limit, seed=env.config.seed)
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
        self, path: Path, *, resume: bool, in_flight: int, display: terminal.ProgressDisplay | None
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
        settings = self.env.settings
        run, before = RunDirectory.open(
            path,
            config=settings.public(),
            matters=settings.matters(),
            defaults=settings.defaults(),
            resume=resume,
            disk=Disk(self.env.config.disk_full_deadline),
        )
        saved = SavedRows(self.tasks, run, SampleReader[DetailT](self.env.detail_type))
        try:
            with run.log.ending():
                progress = RunProgress(self.env.headline[1], lambda: self.env.clients.waiting, display)
                result = await self._evaluate(run, before, saved, progress, in_flight)
                if self.env.config.write_report:
                    await write_report_after(path, run.disk)
                _log_result(run.log, result, self.env.headline[0])
        finally:
            saved.close()
            run.close()
        return result

    async def _evaluate(
        self,
        run: RunDirectory,
        before: EarlierLines,
        saved: SavedRows[TaskT, DetailT],
        progress: RunProgress,
        in_flight: int,
    ) -> EvaluationResult:
        """Evaluate the rows that an earlier run has not finished, and write the metrics of all."""
        started, env = time.monotonic(), self.env
        headline = RatioRecorder(env.headline[0], env.metric_names)
        earlier = read_earlier(
            before,
            saved.reader,
            saved,
            self.runner,
            progress.add,
            readable=partial(readable, env, headline),
        )
        numbers = self._numbers(earlier, saved)
        if numbers:
            run.drop_results()
            try:
                await self._finish(saved, numbers, progress, run, in_flight)
            except NothingSucceeds as error:
                stopped = f"nothing succeeded, so the evaluation was stopped: {error}"
                return _without_numbers(run, f"{stopped} (all answers: {run.path / CALLS})")
        if saved.missing:
            unfinished = (
                f"{len(saved.missing)} of {len(saved)} rows are not judged yet, or have changed since, and "
                "--retry_failed leaves them alone: no metrics are written for a run that is not complete"
            )
            return replace(_without_numbers(run, unfinished), is_unfinished=True)
        await saved.sort()
        return await self._concluded(run, saved, started, is_resumed=earlier.finished > 0)

    async def _concluded(
        self, run: RunDirectory, saved: SavedRows[TaskT, DetailT], started: float, *, is_resumed: bool
    ) -> EvaluationResult:
        """Compute the metrics of all rows, and write them and what comes with them."""
        env, settings, path = self.env, self.env.settings, run.path
        outcomes = saved.outcomes()
        computed = await asyncio.to_thread(compute_metrics, env, saved, outcomes, runner=self.runner)
        metrics, problem = computed.metrics, self._problem(computed.metrics, outcomes)
        if problem is not None and not outcomes.statuses[Status.OK.value]:
            return _without_numbers(run, f"nothing succeeded: {problem}")
        notices = [*self.runner.notices]
        if settings.stand_ins:
            notices.append(terminal.offline_notice(settings.stand_ins))
        rows = saved.where(FINISHED.__contains__)
        tables = await run.disk.retried(path, lambda: self.runner.write_report(path, rows), in_thread=True)
        seconds, reasons = time.monotonic() - started, env.clients.finish_reasons
        evaluated = EvaluatedRows(len(saved), computed.rows_digest, self.datasets, seconds, reasons)
        recorded = [*notices, *env.clients.notices]  # those of the clients were said when they came
        await run.write_metrics(metrics_file(env, self.runner, evaluated, metrics, notices=recorded, tables=tables))
        # Rows that are not complete still need the answers that they have.
        if settings.keep_calls or saved.are_complete:
            await asyncio.to_thread(pack, path, keep=settings.keep_calls)
        all_notices = (
            *evaluation_metrics.failure_notices(outcomes, path, policy_is_judge=env.policy_is_judge),
            *notices,
        )
        found = EvaluatedNumbers(metrics, outcomes, computed.categories, self.datasets, evaluated.seconds, is_resumed)
        summary = summary_of(env, self.title, found, all_notices)
        return EvaluationResult(path, metrics, problem, all_notices, tables, summary)

    def _problem(self, metrics: Metrics, outcomes: Outcomes) -> str | None:
        """Return why the command must fail: too many rows without a judgment."""
        problem = evaluation_metrics.too_many_failures(metrics, outcomes, self.env.config.max_judge_error_rate)
        asks_no_policy = self.runner.answers_of is not None and outcomes.statuses[POLICY_FAILED]
        if problem is None or not asks_no_policy:
            return problem
        return (
            f"{problem}; for an answer that the run lacks whose completions are judged again, no policy is asked here"
        )

    def _numbers(self, earlier: EarlierRows, saved: SavedRows[TaskT, DetailT]) -> Sequence[int]:
        """Return the numbers of the rows to run, and say which ones run again or are left alone."""
        if not self.env.settings.retry_failed:
            if earlier.changed:
                logger.warning("rows that have changed since, and are judged again: %d", earlier.changed)
            return saved.missing
        never_begun = len(saved) - earlier.finished - len(earlier.failed) - earlier.changed
        logger.info(
            "failed rows that are retried: %d; rows left alone: %d finished, %d not judged yet, %d changed since",
            *(len(earlier.failed), earlier.finished, never_begun, earlier.changed),
        )
        return earlier.failed

    async def _finish(
        self,
        saved: SavedRows[TaskT, DetailT],
        numbers: Sequence[int],
        progress: RunProgress,
        run: RunDirectory,
        in_flight: int,
    ) -> None:
        """Run the rows `numbers`."""
        runner, env = self.runner, self.env
        headline = RatioRecorder(env.headline[0], env.metric_names)

        async def judge(task: TaskT) -> Sample[DetailT]:
            return readable(env, headline, task, await runner.finish(task))

        def end_of(task: TaskT, sample: Sample[DetailT]) -> RowEnd:
            # Completions of another run may be judged again: that their policy failed there says nothing of now.
            failed_before = sample.policy_error is not None and not sample.run.policy_calls
            error = None if sample.finished else sample.error or "no row has a score"
            return RowEnd(runner.is_complete(sample), error, was_asked=not failed_before)

        def record(number: int, task: TaskT, sample: Sample[DetailT], seconds: float) -> None:
            saved.append(number, sample, is_complete=runner.is_complete(sample))
            progress.add(sample)

        finished = saved.uids_with_lines()
        with closing(CallLedger(run, finished=finished, keep_texts=env.settings.keep_calls)) as ledger:
            if finished or ledger.is_resumed:
                logger.info("resuming %s: %d rows are finished; %s", run.path, len(finished), ledger.loss)
            with progress.shown(run.disk, run.log.write, left=len(numbers)):
                await judge_rows(
                    saved.tasks,
                    numbers,
                    judge,
                    end_of,
                    record,
                    ledger=ledger,
                    disk=run.disk,
                    in_flight=in_flight,
                    is_first_run=len(numbers) == len(saved),
                )


def _without_numbers(run: RunDirectory, problem: str) -> EvaluationResult:
    """Return the result of a run that has no metrics."""
    return EvaluationResult(run.path, Metrics({}, {}), problem, ())


def _log_result(log: RunLog, result: EvaluationResult, headline: str) -> None:
    """Write to the log of the run what the terminal shows of its result."""
    if f"eval/{headline}" in result.metrics.values:
        log.write(f"eval/{headline}: {result.metrics.values[f'eval/{headline}']:.4f}")
    for notice in result.notices:
        log.write(notice, logging.WARNING)
    if result.problem is not None:
        log.write(result.problem, logging.ERROR)
