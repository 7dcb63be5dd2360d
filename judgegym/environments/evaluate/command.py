"""Run an evaluation: with a progress display and a table (`evaluate`), or during training (`serve`)."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from judgegym.engine import terminal
from judgegym.engine.metrics import Metrics
from judgegym.engine.runs import directory as runs
from judgegym.engine.settings import EnvSettings
from judgegym.environments.evaluate.evaluation import Evaluation, EvaluationResult
from judgegym.reports.results.answers import subject_of

logger = logging.getLogger(__name__)


async def evaluate(evaluation: Evaluation[Any, Any]) -> EvaluationResult:
    """Evaluate all rows, or those that an earlier run has not finished, and show the result.

    Raises:
        RunDirectoryError: the run directory cannot be used.
    """
    runner = evaluation.runner
    plan = runner.plan(evaluation.tasks)
    if plan is not None:
        terminal.warn(plan)
    with terminal.ProgressDisplay("evaluate", "rows") as display:
        result = await evaluation.run(
            run_path(evaluation),
            resume=evaluation.env.settings.resume,
            in_flight=runner.rows_in_flight,
            display=display,
        )
    if result.metrics.values:
        _log_to_wandb(evaluation, result)
        for table in result.tables:
            terminal.show_table(table)
        if evaluation.env.settings.all_metrics:
            notes = {f"eval/{name}": note for name, note in evaluation.env.metric_notes.items()}
            terminal.show_all_metrics(evaluation.title, result.metrics, notes)
        if result.summary is not None:
            terminal.show_summary(result.summary)
    return result


async def evaluate_during_training(evaluation: Evaluation[Any, Any], step: int) -> Metrics:
    """Evaluate during training, at most `max_eval_workers` rows at once, so that the rollouts keep their share.

    It is never resumed: a trainer that comes to a step once more has another policy there.

    Returns:
        The metrics; empty if nothing succeeded.
    """
    path = run_path(evaluation) / f"step-{step}"
    result = await evaluation.run(path, resume=False, in_flight=evaluation.env.config.max_eval_workers, display=None)
    for message in (*result.notices, *([result.problem] if result.problem is not None else [])):
        logger.warning("evaluation of step %d: %s", step, message)
    return result.metrics


def run_path(evaluation: Evaluation[Any, Any]) -> Path:
    """Return the run directory that the settings name, or a new one."""
    named = evaluation.env.config.data_dir_to_save_evals
    if named:
        return Path(named).expanduser()
    return runs.new_path(evaluation.env.name, *names_of_models(evaluation.env.settings))


def names_of_models(settings: EnvSettings[Any]) -> tuple[str, ...]:
    """Return the names of what is evaluated and of its judge, for the run directory."""
    judge, answers = settings.env.judge_run_name(), settings.env.model_answers
    subject = settings.openai.model_name if answers is None else subject_of(answers)
    return (settings.env.run_name(subject), *([judge] if judge is not None else []))


def _log_to_wandb(evaluation: Evaluation[Any, Any], result: EvaluationResult) -> None:
    env = evaluation.env
    if not env.config.use_wandb:
        return
    import wandb  # late: half a second

    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", env.name),
        name=env.config.wandb_name or result.path.name,
        config=env.settings.public(),
        job_type="evaluate",
    )
    run.log(result.metrics.values)
    run.finish()
