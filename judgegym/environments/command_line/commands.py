"""The three commands, from their settings to their exit codes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

from judgegym.engine import terminal
from judgegym.engine.command import FAILED, interruptible, resumable
from judgegym.engine.completions import Clients
from judgegym.engine.metrics import Metrics
from judgegym.engine.runs import directory as runs
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.base import JudgedEnv
from judgegym.environments.command_line import offline
from judgegym.environments.command_line.arguments import (
    EnvType,
    LoadedEnv,
    drop_retry_failed,
    make_resume_command,
)
from judgegym.environments.command_line.offline import STAND_IN_URL
from judgegym.environments.command_line.program import CommandLine
from judgegym.environments.contract import open_environment
from judgegym.environments.evaluate import evaluation as evaluating
from judgegym.environments.evaluate.evaluation import Evaluation
from judgegym.environments.training.connection import TrainerConnection
from judgegym.environments.training.group_file import resolve_groups_path, resolve_paths
from judgegym.environments.training.process import ProcessRun, make_process_summary
from judgegym.environments.training.rollout_api import RolloutApi
from judgegym.environments.training.serve import ServeRun
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.config.extras import require
from judgegym.llm.errors import SettingsError
from judgegym.llm.http.exchange import open_session

_SERVE_PATHS = ("data_dir_to_save_evals", "data_path_to_save_groups")


async def evaluate(env_type: EnvType, loaded: LoadedEnv, typed: CommandLine) -> int:
    """Run `evaluate`; return the exit code."""
    if loaded.settings.resume and not loaded.is_set("env.data_dir_to_save_evals"):
        raise SettingsError(
            "--resume: which run? Name its directory with --env.data_dir_to_save_evals"
        )
    if loaded.settings.retry_failed and not loaded.settings.resume:
        raise SettingsError(
            "--retry_failed: retries the failed rows of an earlier run; it needs --resume"
        )
    if loaded.settings.plan:
        return await _show_plan(env_type, loaded)
    config = loaded.settings.env  # gets the run directory, which the resume command names
    if config.data_dir_to_save_evals is None:
        names = evaluating.list_model_names(loaded.settings)
        config.data_dir_to_save_evals = str(runs.new_path(env_type.spec.name, *names))
    async with _open_env(env_type, loaded, "evaluate") as env:
        with interruptible(is_profiled=loaded.settings.profile is not None):
            evaluation = Evaluation(env)
        resumed = partial(make_resume_command, loaded, typed)
        with resumable(resumed, lambda: "finished rows are kept", budget=env.clients.budget):
            result = await evaluating.evaluate(evaluation)
    if result.problem is None:
        terminal.say(f"The run is in {result.path}")
        count = len(result.metrics.values)
        files = {
            "report.html": "the page to read",
            "metrics.json": f"all {count} metrics (--all_metrics prints them)",
        }
        terminal.say(
            "\n".join(
                f"  {name:<12}  {description}"
                for name, description in files.items()
                if (result.path / name).exists()
            )
        )
        return 0
    action = "To retry the failed rows"
    if result.is_unfinished:
        action, typed = "To finish it", drop_retry_failed(typed)
    command = make_resume_command(loaded, typed)
    terminal.warn(f"{result.problem}\nThe run is in {result.path}. {action}:\n  {command}")
    return FAILED


async def serve(env_type: EnvType, loaded: LoadedEnv, typed: CommandLine) -> int:
    """Run `serve` until the trainer has made its steps or a signal stops it.

    Return the exit code.
    """
    config = loaded.settings.env
    if config.group_size == 1 and config.ensure_scores_are_not_same:
        raise SettingsError(
            "--env.group_size: the scores of a group of 1 are always equal, so no group would be "
            "sent; take a larger group, or --env.ensure_scores_are_not_same=False"
        )
    if loaded.settings.resume and not any(loaded.is_set(f"env.{name}") for name in _SERVE_PATHS):
        flags = " or ".join(f"--env.{name}" for name in _SERVE_PATHS)
        raise SettingsError(
            f"--resume: which run? Name its directory or its file of groups, with {flags}"
        )
    if loaded.settings.plan:
        return await _show_plan(env_type, loaded)
    resolve_paths(loaded.settings, lambda: _make_serve_directory(env_type, loaded))
    async with _open_env(env_type, loaded, "serve") as env:
        api = RolloutApi(config.rollout_server_url, env.clients.session)
        connection = TrainerConnection(api, config, config.wandb_name or env_type.spec.name)

        async def evaluate_policy(step: int) -> Metrics:
            assert evaluation is not None  # asked for only where steps_per_eval > 0
            return await evaluating.evaluate_during_training(evaluation, step)

        with interruptible(is_profiled=loaded.settings.profile is not None):
            run = ServeRun(env, connection, evaluate_policy)
            evaluation = None
            if config.steps_per_eval > 0:
                evaluation = Evaluation(env)
        with resumable(
            partial(make_resume_command, loaded, typed), run.progress, budget=env.clients.budget
        ):
            await run.run()
    return 0


async def process(env_type: EnvType, loaded: LoadedEnv, typed: CommandLine) -> int:
    """Run `process`; return the exit code."""
    config = loaded.settings.env
    if loaded.settings.plan:
        return await _show_plan(env_type, loaded)
    path = resolve_groups_path(
        config.data_path_to_save_groups or f"data/{env_type.spec.name}.jsonl",
        resume=loaded.settings.resume,
    )
    config.data_path_to_save_groups = str(path)
    async with _open_env(env_type, loaded, "process") as env:
        with interruptible(is_profiled=loaded.settings.profile is not None):
            processed = ProcessRun(env)
        with (
            resumable(
                partial(make_resume_command, loaded, typed),
                lambda: f"the groups that are finished are in {path}",
                budget=env.clients.budget,
            ),
            terminal.ProgressDisplay("process", "groups") as display,
        ):
            await processed.run(display)
        if loaded.settings.all_metrics:
            terminal.show_all_metrics(
                f"{env.spec.name}: {processed.groups} groups", processed.metrics, {}
            )
        terminal.show_summary(make_process_summary(env, processed))
    wanted = config.total_steps
    if processed.groups < wanted:
        tried = ", ".join(
            f"{count} {reason}" for reason, count in processed.recorded.total_dropped.items()
        )
        terminal.warn(
            f"{wanted - processed.groups} of {wanted} groups could not be scored; rows that were "
            f"tried: {tried}"
        )
        command = make_resume_command(loaded, typed)
        terminal.warn(f"To retry those that failed:\n  {command}")
    page = f", the page to read them is {processed.page}" if processed.page is not None else ""
    terminal.say(f"The groups are in {processed.path}{page}")
    count = len(processed.metrics.values)
    terminal.say(f"All {count} metrics are in {processed.metrics_file}")
    if processed.groups == wanted:
        return 0
    return FAILED


async def _show_plan(env_type: EnvType, loaded: LoadedEnv) -> int:
    from judgegym.environments.command_line.plan import show_plan  # late: few runs are planned

    await show_plan(env_type, loaded.settings)
    return 0


@asynccontextmanager
async def _open_env(
    env_type: EnvType, loaded: LoadedEnv, verb: Verb
) -> AsyncIterator[JudgedEnv[Any, Any, Any]]:
    """Open the environment, with its stand-ins and the HTTP session of the process."""
    if loaded.settings.env.use_wandb is True:
        require("wandb")  # early: serve opens a run when a trainer is there
    identity = STAND_IN_IDENTITY if loaded.settings.env.judge_base_url == STAND_IN_URL else ""
    async with (
        offline.run_stand_ins(loaded, env_type.spec.offline_prompts) as settings,
        open_session() as session,
    ):
        with closing(Clients(settings, session, judge_identity=identity)) as clients:
            yield open_environment(env_type, settings, clients, verb)


def _make_serve_directory(env_type: EnvType, loaded: LoadedEnv) -> Path:
    path = runs.new_path("serve", env_type.spec.name, *evaluating.list_model_names(loaded.settings))
    process_id = os.getpid()  # several are often started at once
    return path.with_name(f"{path.name}-{process_id}")
