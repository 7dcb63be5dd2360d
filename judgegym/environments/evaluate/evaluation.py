"""An evaluation: its rows, the row runner, and the run directory with samples and metrics.

`evaluate` runs it with a progress display and a table, `serve` during training.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, runtime_checkable

from judgegym.data.rows import TaskT, collect_datasets_read
from judgegym.data.task_list import select
from judgegym.engine import terminal
from judgegym.engine.anchors import AnchorJudge, check_anchors, judge_anchors
from judgegym.engine.loop import NothingSucceeds, RowEnd, RunProgress, judge_rows
from judgegym.engine.metrics import Metrics, RatioRecorder
from judgegym.engine.records import FINISHED, POLICY_FAILED, Sample, SampleReader
from judgegym.engine.runs import directory as runs
from judgegym.engine.runs.batches import use_batches
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.recorded_calls import CALLS, pack
from judgegym.engine.settings import EnvSettings
from judgegym.engine.wandb_run import WandbRun
from judgegym.environments.answer_judge import find_anchor_kind, open_kind
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.contract import load_tasks
from judgegym.environments.evaluate.metrics import (
    complete_sample,
    compute_metrics,
    describe_failures,
    find_excess_failures,
)
from judgegym.environments.evaluate.results import (
    EvaluatedRows,
    make_metrics_file,
    make_summary,
    write_results,
)
from judgegym.environments.evaluate.row import RowRunner
from judgegym.environments.evaluate.saved import EarlierRows, SavedRows, read_earlier
from judgegym.judges.core.judgment import Status
from judgegym.llm.errors import DataError, SettingsError
from judgegym.reports.labels.file import read_labels
from judgegym.reports.results.answers import name_subject
from judgegym.reports.run_page.page import write_report_after

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Result of an evaluation.

    Attributes:
        path: the run directory.
        metrics: the metrics; empty if nothing succeeded.
        problem: why the command must fail; `None` if it succeeds.
        notices: remarks that a reader of the numbers needs.
        tables: further tables of the environment.
        summary: the summary for the terminal; `None` if nothing succeeded.
        is_unfinished: `--retry_failed` left rows unjudged, so that there are no metrics.
    """

    path: Path
    metrics: Metrics = Metrics({}, {})
    problem: str | None = None
    notices: tuple[str, ...] = ()
    tables: Sequence[terminal.Table] = ()
    summary: terminal.Summary | None = None
    is_unfinished: bool = False


@runtime_checkable
class HasRowRunner(Protocol):
    """An environment with its own way to evaluate a row, instead of policy and judge."""

    def row_runner(self) -> RowRunner[Any, Any]:
        """Return the runner that evaluates a row."""


class Evaluation(Generic[TaskT, DetailT]):
    """The rows to evaluate, the runner for a row, and the judge of the anchors, if any."""

    def __init__(self, env: JudgedEnv[Any, TaskT, DetailT]) -> None:
        """Load all rows, or those that `--limit` selects, and prepare the runner.

        Raises:
            DataError: the rows, the answers to judge or the labels cannot be loaded, or there
                are no rows.
            SettingsError: an endpoint or its API key is missing.
        """
        self.env = env
        self.labels = None
        if env.settings.labels is not None:
            self.labels = read_labels(env.settings.labels)
        with collect_datasets_read() as datasets:
            self.tasks = select(
                load_tasks(env, "eval"), limit=env.settings.limit, seed=env.config.seed
            )
            if not self.tasks:
                raise DataError("there is no row to evaluate")
            self.runner: RowRunner[TaskT, DetailT] = (
                env.row_runner() if isinstance(env, HasRowRunner) else RowRunner(env)
            )
            self.runner.prepare(self.tasks)
        self.datasets = tuple(datasets)
        self.anchor_judge = self._open_anchor_judge()

    def _open_anchor_judge(self) -> AnchorJudge | None:
        """Open the judge of the anchors, and check the anchors before the first call.

        Return `None` without anchors.

        Raises:
            SettingsError: the environment's judge is no kind of `judgegym score`.
            DataError: an anchor cannot be read or judged.
        """
        env, path = self.env, self.env.settings.anchors
        if path is None:
            return None
        config: Any = env.config
        kind = None
        if not config.policy_is_judge:
            kind = find_anchor_kind(env.spec, config)
        if kind is None:
            reason = f"{env.spec.name} has a judge of its own"
            if config.policy_is_judge:
                reason = "the policy is the judge"
            raise SettingsError(
                f"--anchors: expected a judge that `judgegym score --judge` has, and {reason}"
            )
        opened = open_kind(kind, config, env.clients.judge)
        name, clients = self.runner.judge_name, env.clients
        judge = AnchorJudge(
            path, kind, name, config, opened, lambda: sorted(clients.served_models["judge"])
        )
        check_anchors(judge)
        return judge

    @property
    def title(self) -> str:
        """Name of the subject and of its judge."""
        title = f"{self.env.spec.name}: {self.runner.subject}"
        if self.env.config.policy_is_judge:
            return title
        return f"{title}, judged by {self.runner.judge_name}"

    @property
    def path(self) -> Path:
        """Run directory that the settings name, or a new one."""
        env = self.env
        directory, names = env.config.data_dir_to_save_evals, list_model_names(env.settings)
        if directory:
            return Path(directory).expanduser()
        return runs.new_path(env.spec.name, *names)

    async def run(
        self, path: Path, *, resume: bool, in_flight: int, display: terminal.ProgressDisplay | None
    ) -> EvaluationResult:
        """Evaluate into a run directory.

        Args:
            path: the run directory.
            resume: resume the run in it.
            in_flight: maximum number of rows in progress.
            display: shows the progress; `None` during training.

        Raises:
            RunDirectoryError: the run directory cannot be used.
            DiskFull: the run directory could not be written to for too long.
        """
        env, settings = self.env, self.env.settings
        run = RunDirectory(
            path,
            config=settings.public(),
            matters=settings.matters(),
            defaults=settings.defaults(),
            settings=settings,
            resume=resume,
        )
        saved = SavedRows(self.tasks, run, SampleReader[DetailT](env.detail_type))
        headline = f"eval/{env.spec.headline[0]}"
        with closing(run), closing(saved), run.log.log_end():
            progress = RunProgress(env.spec.headline[1], lambda: env.clients.delay_reason, display)
            result = await self._evaluate(run, saved, progress, in_flight)
            if env.config.write_report:
                await write_report_after(path, run.disk)
            if headline in result.metrics.values:  # the log says what the terminal shows
                run.log.write(f"{headline}: {result.metrics.values[headline]:.4f}")
            for notice in result.notices:
                run.log.write(notice, logging.WARNING)
            if result.problem is not None:
                run.log.write(result.problem, logging.ERROR)
        return result

    async def _evaluate(
        self,
        run: RunDirectory,
        saved: SavedRows[TaskT, DetailT],
        progress: RunProgress,
        in_flight: int,
    ) -> EvaluationResult:
        """Evaluate the rows that are not finished yet, and write the metrics of all rows."""
        started = time.monotonic()
        complete = partial(
            complete_sample,
            self.env,
            RatioRecorder(self.env.spec.headline[0], self.env.metric_names),
        )
        earlier = read_earlier(saved, self.runner, progress.add, complete)
        numbers = self._select_rows(earlier, saved)
        if numbers:
            run.drop_results()
            try:
                await self._run_rows(saved, numbers, progress, run, in_flight)
            except NothingSucceeds as error:
                reason = f"nothing succeeded, so the evaluation was stopped: {error}"
                return EvaluationResult(
                    run.path, problem=f"{reason} (all answers: {run.path / CALLS})"
                )
        missing, count = len(saved.missing), len(saved)
        if missing:
            unfinished = (
                f"{missing} of {count} rows are not judged yet, or have changed since, and "
                "--retry_failed leaves them alone: no metrics are written for a run that is not "
                "complete"
            )
            return EvaluationResult(run.path, problem=unfinished, is_unfinished=True)
        await saved.sort()
        return await self._conclude(run, saved, started, is_resumed=earlier.finished > 0)

    async def _conclude(
        self,
        run: RunDirectory,
        saved: SavedRows[TaskT, DetailT],
        started: float,
        *,
        is_resumed: bool,
    ) -> EvaluationResult:
        """Compute the metrics of all rows, and write the files of the run."""
        env, runner, settings, path = self.env, self.runner, self.env.settings, run.path
        outcomes = saved.outcomes()
        computed = await asyncio.to_thread(compute_metrics, env, saved, outcomes, runner=runner)
        problem = find_excess_failures(computed.metrics, outcomes, env.config.max_judge_error_rate)
        if (
            problem is not None
            and runner.answers_run is not None
            and outcomes.statuses[POLICY_FAILED]
        ):
            problem += (
                "; for an answer that the run lacks whose completions are judged again, no policy "
                "is asked here"
            )
        if problem is not None and not outcomes.statuses[Status.OK.value]:
            return EvaluationResult(path, problem=f"nothing succeeded: {problem}")
        notices = [*runner.notices]
        anchors = await judge_anchors(self.anchor_judge, run, keep_texts=settings.keep_calls)
        if anchors is not None:
            notices.append(anchors.summary)
        if settings.stand_ins:
            notices.append(terminal.offline_notice(settings.stand_ins))
        finished = saved.where(FINISHED.__contains__)
        tables = await run.disk.retry_until_written(
            path, lambda: runner.write_report(path, finished), in_thread=True
        )
        seconds, reasons = time.monotonic() - started, env.clients.finish_reasons
        served = env.clients.served_models
        refused = env.clients.refused_fields
        rows = EvaluatedRows(
            len(saved), computed.rows_digest, self.datasets, seconds, reasons, served, refused
        )
        recorded = [*notices, *env.clients.notices]  # those of the clients were said when they came
        content = make_metrics_file(
            env, runner, rows, computed.metrics, notices=recorded, tables=tables, anchors=anchors
        )
        judges, correction = await write_results(run, content, env.config, self.labels)
        # Rows that are not complete still need the answers that they have.
        if settings.keep_calls or saved.are_complete:
            await asyncio.to_thread(pack, path, keep=settings.keep_calls)
        messages = (
            *describe_failures(outcomes, path, policy_is_judge=env.config.policy_is_judge),
            *notices,
        )
        summary = make_summary(
            env,
            self.title,
            computed,
            outcomes,
            rows,
            messages,
            correction,
            judges,
            is_resumed=is_resumed,
        )
        return EvaluationResult(path, computed.metrics, problem, messages, tables, summary)

    def _select_rows(self, earlier: EarlierRows, saved: SavedRows[TaskT, DetailT]) -> Sequence[int]:
        """Return the numbers of the rows to run; log which rows run again and which are skipped."""
        if not self.env.settings.retry_failed:
            if earlier.changed:
                logger.warning(
                    "rows that have changed since, and are judged again: %d", earlier.changed
                )
            return saved.missing
        never_begun = len(saved) - earlier.finished - len(earlier.failed) - earlier.changed
        logger.info(
            "failed rows that are retried: %d; rows left alone: %d finished, %d not judged yet, "
            "%d changed since",
            *(len(earlier.failed), earlier.finished, never_begun, earlier.changed),
        )
        return earlier.failed

    async def _run_rows(
        self,
        saved: SavedRows[TaskT, DetailT],
        numbers: Sequence[int],
        progress: RunProgress,
        run: RunDirectory,
        in_flight: int,
    ) -> None:
        """Run the rows `numbers`."""
        runner, env = self.runner, self.env
        headline = RatioRecorder(env.spec.headline[0], env.metric_names)

        async def judge(task: TaskT) -> Sample[DetailT]:
            return complete_sample(env, headline, task, await runner.finish(task))

        def make_row_end(task: TaskT, sample: Sample[DetailT]) -> RowEnd:
            # Completions of another run may be judged again: that their policy failed there says
            # nothing of now.
            failed_before = sample.policy_error is not None and not sample.run.policy_calls
            error = None if sample.finished else sample.error or "no row has a score"
            is_rule = not env.config.asks_endpoint
            is_silent = is_rule and sample.status == Status.UNPARSABLE  # the rule does not apply
            return RowEnd(
                runner.is_complete(sample), error, was_asked=not failed_before and not is_silent
            )

        def record(number: int, task: TaskT, sample: Sample[DetailT], seconds: float) -> None:
            saved.append(number, sample, is_complete=runner.is_complete(sample))
            progress.add(sample)

        finished, is_first = saved.uids_with_lines(), len(numbers) == len(saved)
        with closing(
            CallLedger(run, finished=finished, keep_texts=env.settings.keep_calls)
        ) as ledger:
            env.clients.begin_after(ledger.earlier)
            if finished or ledger.is_resumed:
                logger.info(
                    "resuming %s: %d rows are finished; %s", run.path, len(finished), ledger.loss
                )
                env.clients.note_served(ledger.earlier.served)
            async with use_batches(run, ledger, env.config):
                with progress.show(run.disk, run.log.write, left=len(numbers)):
                    await judge_rows(
                        saved.tasks,
                        numbers,
                        judge,
                        make_row_end,
                        record,
                        ledger,
                        in_flight=in_flight,
                        is_first_run=is_first,
                    )


async def evaluate(evaluation: Evaluation[Any, Any]) -> EvaluationResult:
    """Evaluate all rows, or those that an earlier run has not finished, and show the result.

    Raises:
        RunDirectoryError: the run directory cannot be used.
        SettingsError: the run at Weights & Biases cannot be opened.
    """
    runner = evaluation.runner
    plan = runner.plan(evaluation.tasks)
    if plan is not None:
        terminal.warn(plan)
    settings, name = evaluation.env.settings, evaluation.path.name
    project = os.environ.get("WANDB_PROJECT", evaluation.env.spec.name)
    run_options = {"project": project, "config": settings.public(), "job_type": "evaluate"}
    wandb_run = await WandbRun.open(settings.env, name, **run_options)
    with terminal.ProgressDisplay("evaluate", "rows") as display:
        result = await evaluation.run(
            evaluation.path,
            resume=evaluation.env.settings.resume,
            in_flight=evaluation.env.config.max_rows_in_progress(runner.rows_in_flight),
            display=display,
        )
    if result.metrics.values:
        await wandb_run.log(result.metrics.values)
        for table in result.tables:
            terminal.show_table(table)
        if evaluation.env.settings.all_metrics:
            notes = {
                f"eval/{name}": note for name, note in evaluation.env.spec.metric_notes.items()
            }
            terminal.show_all_metrics(evaluation.title, result.metrics, notes)
        if result.summary is not None:
            terminal.show_summary(result.summary)
    await wandb_run.finish()
    return result


async def evaluate_during_training(evaluation: Evaluation[Any, Any], step: int) -> Metrics:
    """Evaluate during training, at most `max_eval_workers` rows at once.

    The limit leaves the rollouts their share. Such an evaluation is never resumed: a trainer that
    repeats a step has another policy there.

    Returns:
        The metrics; empty if nothing succeeded.
    """
    path = evaluation.path / f"step-{step}"
    result = await evaluation.run(
        path, resume=False, in_flight=evaluation.env.config.max_eval_workers, display=None
    )
    for message in (*result.notices, result.problem):
        if message is not None:
            logger.warning("evaluation of step %d: %s", step, message)
    return result.metrics


def list_model_names(settings: EnvSettings[Any]) -> tuple[str, ...]:
    """Return the names of the subject and of its judge, for the run directory."""
    judge, answers = settings.env.judge_run_name(), settings.env.model_answers
    subject = settings.openai.model_name if answers is None else name_subject(answers)
    run_name = settings.env.run_name(subject)
    return (run_name,) if judge is None else (run_name, judge)
