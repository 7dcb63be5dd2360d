"""`evaluate`: rows to a run directory, a table and an exit code."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments.base import DetailT, JudgedEnv
from environments.data.rows import TaskT
from environments.evaluate import metrics as evaluation_metrics
from environments.evaluate import report
from environments.evaluate.loop import EarlierRun, finish_rows, read_earlier
from environments.failure_guard import NothingSucceeds
from environments.metrics import MetricAggregator, Metrics
from environments.records import Sample, SampleReader
from environments.runs import directory as runs
from environments.settings import ConfigT, EnvConfig, EnvSettings
from judges.core.judgment import Status
from judges.llm.wire import JSON

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """How an evaluation ended.

    Attributes:
        path: the run directory.
        metrics: empty if it was given up.
        problem: why the command must fail, `None` if it need not.
        notices: what a reader of the numbers must know.
        tables: an environment's own, to be shown.
    """

    path: Path
    metrics: Metrics
    problem: str | None
    notices: tuple[str, ...]
    tables: Sequence[report.Table] = ()


async def evaluate(
    env: JudgedEnv[ConfigT, TaskT, DetailT], tasks: Sequence[TaskT], *, standing_in: Sequence[str]
) -> EvaluationResult:
    """`evaluate`: all rows, or what an earlier run left of them; shows the result.

    Args:
        env: the environment.
        tasks: the rows.
        standing_in: which endpoints (`judge`, `policy`) are the offline stand-in.

    Raises:
        RunDirectoryError: the run directory cannot be used.
    """
    plan = env.plan(tasks)
    if plan is not None:
        report.messages().print(plan)
    with report.ProgressDisplay(len(tasks)) as display:
        evaluated = await evaluate_into(
            env, tasks, run_path(env), standing_in=standing_in, in_flight=env.rows_in_flight, display=display
        )
    if evaluated.metrics.values:
        _log_to_wandb(env, evaluated)
        for table in evaluated.tables:
            report.show_table(table)
        report.show_metrics(_title(env), evaluated.metrics, evaluated.notices)
    return evaluated


async def evaluate_during_training(
    env: JudgedEnv[ConfigT, TaskT, DetailT], tasks: Sequence[TaskT], step: int, *, standing_in: Sequence[str]
) -> Metrics:
    """An evaluation beside the rollouts: few rows at a time (`max_eval_workers`), so that these are not starved.

    Returns:
        Its metrics; none if nothing succeeded.
    """
    path = run_path(env) / f"step-{step}"
    evaluated = await evaluate_into(
        env, tasks, path, standing_in=standing_in, in_flight=env.config.max_eval_workers, display=None
    )
    for said in (*evaluated.notices, *([evaluated.problem] if evaluated.problem is not None else [])):
        logger.warning("evaluation of step %d: %s", step, said)
    return evaluated.metrics


async def evaluate_into(
    env: JudgedEnv[ConfigT, TaskT, DetailT],
    tasks: Sequence[TaskT],
    path: Path,
    *,
    standing_in: Sequence[str],
    in_flight: int,
    display: report.ProgressDisplay | None,
) -> EvaluationResult:
    """Evaluate into a run directory.

    Args:
        env: the environment.
        tasks: the rows.
        path: the run directory.
        standing_in: which endpoints (`judge`, `policy`) are the offline stand-in.
        in_flight: rows under way at once.
        display: shows the progress, if there is somebody to look.

    Raises:
        RunDirectoryError: the run directory cannot be used.
    """
    started = time.time()
    settings = env.settings
    run, before = runs.RunDirectory.open(
        path, config=settings.public(), matters=settings.matters(), resume=settings.resume
    )
    try:
        reader = SampleReader[DetailT](env.detail_type)
        earlier = read_earlier(before, reader, tasks, is_complete=env.is_complete, held=env.answers_held)
        if earlier.finished or earlier.failed:
            logger.info("resuming %s: %d rows are finished", run.path, len(earlier.finished))
        if len(earlier.finished) < len(tasks):
            run.drop_metrics()
        try:
            samples = await _finish_missing(env, tasks, earlier, run, in_flight, display)
        except NothingSucceeds as error:
            given_up = f"nothing succeeded, so the evaluation was given up: {error}"
            return EvaluationResult(path, Metrics({}, {}), given_up, ())
        run.rewrite(
            (sample.to_line() for sample in samples if sample.finished),
            (sample.to_line() for sample in samples if not sample.finished),
        )
        metrics = compute_metrics(env, tasks, samples)
        problem = evaluation_metrics.too_many_failures(metrics, samples, env.config.max_judge_error_rate)
        if problem is not None and not any(sample.status == Status.OK.value for sample in samples):
            return EvaluationResult(path, Metrics({}, {}), f"nothing succeeded: {problem}", ())
        notices = [report.offline_notice(standing_in)] if standing_in else []
        tables = env.write_report(path, [pair for pair in zip(tasks, samples, strict=True) if pair[1].finished])
        run.write_metrics(_metrics_file(env, metrics, started, notices))
    finally:
        run.close()
    said = (*evaluation_metrics.failure_notices(samples, path), *notices)
    return EvaluationResult(path, metrics, problem, said, tables)


def run_path(env: JudgedEnv[Any, Any, Any]) -> Path:
    """The run directory that the settings ask for, or a new one."""
    named = env.config.data_dir_to_save_evals
    return Path(named).expanduser() if named else runs.new_path(env.name, model_name(env))


def model_name(env: JudgedEnv[Any, Any, Any]) -> str:
    """What is evaluated, for people."""
    return env.subject


def model_name_of(settings: EnvSettings[Any]) -> str:
    """What settings say is evaluated."""
    return str(settings.env.run_name(settings.openai.model_name))


async def _finish_missing(
    env: JudgedEnv[ConfigT, TaskT, DetailT],
    tasks: Sequence[TaskT],
    earlier: EarlierRun[DetailT],
    run: runs.RunDirectory,
    in_flight: int,
    display: report.ProgressDisplay | None,
) -> list[Sample[DetailT]]:
    missing = [task for task in tasks if task.uid not in earlier.finished]
    by_uid = {task.uid: task for task in tasks}
    live = MetricAggregator("live")
    for sample in earlier.finished.values():
        env.observe(live, by_uid[sample.uid], sample)  # a failed one is asked again, and counted then
    failures = 0
    name, words = env.headline

    def finished(sample: Sample[DetailT]) -> None:
        nonlocal failures
        failures += not sample.finished
        if _counts(env, sample):
            env.observe(live, by_uid[sample.uid], sample)
        if display is not None:
            value = live.current(name)
            headline = "" if value is None else f"{words} {value:.3f}"
            display.advance(report.Tally(headline, failures, env.judge_cost))

    if display is not None:
        display.begin_with(len(earlier.finished))
    fresh = await finish_rows(
        missing,
        lambda task: env.finish(
            task, earlier.failed.get(task.uid), answered=lambda sample: run.append_answer(sample.to_line())
        ),
        run=run,
        in_flight=in_flight,
        finished=finished,
        any_finished_before=bool(earlier.finished),
    )
    by_row = {sample.uid: sample for sample in fresh} | dict(earlier.finished)
    return [by_row[task.uid] for task in tasks]


def compute_metrics(
    env: JudgedEnv[ConfigT, TaskT, DetailT], tasks: Sequence[TaskT], samples: Sequence[Sample[DetailT]]
) -> Metrics:
    """All metrics of an evaluation, from its samples in the order of the rows."""
    metrics = MetricAggregator("eval", seed=env.config.seed)
    rows = [(task, sample) for task, sample in zip(tasks, samples, strict=True) if _counts(env, sample)]
    for task, sample in rows:
        env.observe(metrics, task, sample)
    for task, sample in zip(tasks, samples, strict=True):
        if not _counts(env, sample):
            env.observe_failure(metrics, task, sample)
    if rows:
        env.summarise(metrics, rows)
    evaluation_metrics.observe_all(metrics, samples, thinking_mode=env.config.thinking_mode)
    return metrics.result()


def _counts(env: JudgedEnv[Any, Any, Any], sample: Sample[Any]) -> bool:
    """Whether a row is in the denominator of the environment's own metrics."""
    return sample.finished or (env.counts_policy_failures and sample.status == evaluation_metrics.POLICY_FAILED)


def _title(env: JudgedEnv[Any, Any, Any]) -> str:
    judge = "" if env.config.policy_is_judge else f", judged by {env.judge_name}"
    return f"{env.name}: {model_name(env)}{judge}"


def _metrics_file(
    env: JudgedEnv[Any, Any, Any], metrics: Metrics, started: float, notices: Sequence[str]
) -> Mapping[str, JSON]:
    """The skeleton that Atropos writes (`config_general`, `results`), and what was left out and why."""
    config = env.config
    general: dict[str, JSON] = {
        "model_name": model_name(env),
        "total_evaluation_time_seconds": str(time.time() - started),
        "generation_parameters": _generation_parameters(
            config, asked=env.asks_policy, judged_by_another=not config.policy_is_judge
        ),
        "judge_model_name": env.judge_name,
        "seed": config.seed,
        "notices": list(notices),
        "left_out": dict(metrics.left_out),
    }
    values: dict[str, JSON] = dict(metrics.values)
    return {"config_general": general, "results": {f"atropos|{env.name}_eval|0": values, "all": values}}


def _generation_parameters(config: EnvConfig, *, asked: bool, judged_by_another: bool) -> dict[str, JSON]:
    """How the answers and the judgments were sampled, as far as this run sampled them."""
    parameters: dict[str, JSON] = {}
    if asked:
        parameters |= {"temperature": config.eval_temperature, "max_tokens": config.eval_max_tokens}
    if judged_by_another:
        parameters |= {"judge_temperature": config.judge_temperature, "judge_max_tokens": config.judge_max_tokens}
    return parameters


def _log_to_wandb(env: JudgedEnv[Any, Any, Any], evaluated: EvaluationResult) -> None:
    if not env.config.use_wandb:
        return
    import wandb  # late: half a second

    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", env.name),
        name=env.config.wandb_name or evaluated.path.name,
        config=env.settings.public(),
        job_type="evaluate",
    )
    run.log(evaluated.metrics.values)
    run.finish()
