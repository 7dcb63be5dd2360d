"""The command line of every environment, and its exit codes.

0: done. 1: too many failures, or nothing succeeded. 2: something to mend in settings, data or run directory, said in
one message. 130 and 143: stopped by Ctrl-C or SIGTERM; what is finished is on disk, and the command that resumes is
printed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

from rich.logging import RichHandler

from environments import offline
from environments.base import JudgedEnv
from environments.clients import Clients
from environments.command_line.arguments import command_help, config_lines, load_settings, overview, read_verb
from environments.command_line.resume import resume_command
from environments.evaluate import command as evaluate_command
from environments.evaluate import report
from environments.evaluate.evaluation import Evaluation
from environments.metrics import Metrics
from environments.runs import directory as runs
from environments.runs.failure_guard import NothingSucceeds
from environments.settings import EnvSettings
from environments.settings.verbs import Verb
from environments.training.connection import TrainerConnection
from environments.training.process import ProcessRun
from environments.training.rollout_api import RolloutApi
from environments.training.serve import ServeRun
from judges.config.help import help_requested
from judges.config.sources import LoadedSettings
from judges.llm.errors import SettingsError, UserError
from judges.llm.transport import open_session

logger = logging.getLogger(__name__)

FAILED, BAD_INPUT = 1, 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """A signal asked us to stop."""

    def __init__(self, number: int) -> None:
        """Remember which."""
        super().__init__(number)
        self.number = number


def main(env_type: type[JudgedEnv[Any, Any, Any]], argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        env_type: the environment.
        argv: the command line without the program's name; the process's own by default.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    console = report.messages()
    try:
        if arguments[:1] in (["--help"], ["-h"]):
            report.output().print(overview())
            return 0
        verb, rest = read_verb(arguments)
        detail = help_requested(rest)
        if detail is not None:
            report.output().print(command_help(env_type, verb, detail))
            return 0
        loaded = load_settings(env_type, rest, verb=verb)
        if loaded.settings.show_config is not None:
            report.show_config(config_lines(loaded, verb))
            return 0
        _log_to_terminal(debug=loaded.settings.env.full_debug)
        command = {"evaluate": _evaluate, "serve": _serve, "process": _process}[verb]
        return asyncio.run(_until_stopped(command(env_type, loaded, arguments)))
    except UserError as error:
        console.print(str(error))
        return BAD_INPUT
    except NothingSucceeds as error:
        console.print(f"nothing succeeded, so {arguments[0]} was given up: {error}")
        return FAILED
    except Stopped as stopped:
        return 128 + stopped.number
    except KeyboardInterrupt:  # before the event loop took the signal over
        return 128 + signal.SIGINT


@asynccontextmanager
async def _opened(
    env_type: type[JudgedEnv[Any, Any, Any]], loaded: LoadedSettings[EnvSettings[Any]], verb: Verb
) -> AsyncIterator[JudgedEnv[Any, Any, Any]]:
    """The environment, with its stand-ins and the process's one HTTP session."""
    # A stand-in's port is another one in each run, its answers are not.
    identity = offline.LAYER if offline.stand_ins(loaded).judge else ""
    async with offline.running(loaded, env_type.offline_prompts) as settings, open_session() as session:
        with closing(Clients(settings, session, judge_identity=identity)) as clients:
            yield env_type(settings, clients, verb=verb)


async def _evaluate(
    env_type: type[JudgedEnv[Any, Any, Any]], loaded: LoadedSettings[EnvSettings[Any]], arguments: Sequence[str]
) -> int:
    """`evaluate`, from settings to exit code."""
    if loaded.settings.resume and not loaded.given("env.data_dir_to_save_evals"):
        raise SettingsError("--resume: which run? Name its directory with --env.data_dir_to_save_evals")
    _name_run(env_type, loaded)
    console = report.messages()
    async with _opened(env_type, loaded, "evaluate") as env:
        with _interruptible():
            evaluation = Evaluation.of(env)
        _spare_the_collector()
        try:
            result = await evaluate_command.evaluate(evaluation)
        except asyncio.CancelledError:
            console.print(f"stopped; what is finished is kept. To resume:\n  {resume_command(loaded, arguments)}")
            raise
    if result.problem is None:
        report.output().print(f"The run is in {result.path}")
        return 0
    console.print(f"{result.problem}\nThe run is in {result.path}. To try again what failed:")
    console.print(f"  {resume_command(loaded, arguments)}")
    return FAILED


async def _serve(
    env_type: type[JudgedEnv[Any, Any, Any]], loaded: LoadedSettings[EnvSettings[Any]], arguments: Sequence[str]
) -> int:
    """`serve`, until the trainer has had its steps or a signal comes."""
    config = loaded.settings.env
    if config.group_size == 1 and config.ensure_scores_are_not_same:
        raise SettingsError(
            "--env.group_size: the scores of a group of 1 are all the same, so nothing would ever be sent; "
            "take a larger group, or --env.ensure_scores_are_not_same=False"
        )
    _name_run(env_type, loaded)
    async with _opened(env_type, loaded, "serve") as env:
        api = RolloutApi(config.rollout_server_url, env.clients.session)
        connection = TrainerConnection(api, config, config.wandb_name or env_type.name)

        async def evaluate(step: int) -> Metrics:
            assert evaluation is not None  # asked for only where steps_per_eval > 0
            return await evaluate_command.evaluate_during_training(evaluation, step)

        with _interruptible():
            serving = ServeRun(env, connection, evaluate)
            evaluation = Evaluation.of(env) if config.steps_per_eval > 0 else None
        _spare_the_collector()
        await serving.run()
    return 0


async def _process(
    env_type: type[JudgedEnv[Any, Any, Any]], loaded: LoadedSettings[EnvSettings[Any]], arguments: Sequence[str]
) -> int:
    """`process`, from settings to exit code."""
    async with _opened(env_type, loaded, "process") as env:
        with _interruptible():
            processing = ProcessRun(env)
        processed = await processing.run()
        stand_ins = env.settings.stand_ins
    notices = [report.offline_notice(stand_ins)] if stand_ins else []
    report.show_metrics(f"{env_type.name}: {processed.groups} groups", processed.metrics, notices)
    wanted = loaded.settings.env.total_steps
    if processed.groups < wanted:
        tried = ", ".join(f"{count} {reason}" for reason, count in processed.dropped.items())
        said = f"{wanted - processed.groups} of {wanted} groups could not be scored; rows that were tried: {tried}"
        report.messages().print(said)
    report.output().print(f"The groups are in {processed.path}, to read in {processed.page}")
    return 0 if processed.groups == wanted else FAILED


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let a signal end the process at once: datasets are loaded without the event loop, which would not hear of it."""
    handlers = {number: signal.signal(number, signal.SIG_DFL) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _spare_the_collector() -> None:
    """Take all that is loaded by now (libraries, rows) out of the garbage collector's rounds.

    They walk a million objects that live until the end; without this they cost a third of an evaluation's CPU time.
    """
    gc.collect()
    gc.freeze()


def _name_run(env_type: type[JudgedEnv[Any, Any, Any]], loaded: LoadedSettings[EnvSettings[Any]]) -> None:
    """Settle the run directory's name, so that the command that resumes can be printed whatever happens."""
    config = loaded.settings.env
    if config.data_dir_to_save_evals is None:
        model = evaluate_command.model_name_of(loaded.settings)
        config.data_dir_to_save_evals = str(runs.new_path(env_type.name, model))


async def _until_stopped(command: Coroutine[Any, Any, int]) -> int:
    """Run a command; SIGINT and SIGTERM cancel it at once.

    Raises:
        Stopped: it was cancelled by a signal.
    """
    task = asyncio.ensure_future(command)
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Stopped(received[0]) from None
        raise


def _log_to_terminal(*, debug: bool) -> None:
    """Our own log, on standard error; others' from warnings on."""
    console = report.messages()
    if console.is_terminal:
        handler: logging.Handler = RichHandler(console=console, show_path=False, markup=False)
        logging.basicConfig(level=logging.WARNING, format="%(message)s", datefmt="[%X]", handlers=[handler], force=True)
    else:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", force=True)
    for name in ("judges", "environments", "eval_environments"):
        logging.getLogger(name).setLevel(logging.DEBUG if debug else logging.INFO)
