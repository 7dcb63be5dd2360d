"""`judgegym batch RUN`: show the state of a run's batches, and cancel open ones."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine import terminal
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.llm.errors import DataError, EndpointError, SettingsError

if TYPE_CHECKING:  # --help comes at once
    from judgegym.llm.batches.queue import Batch

_ABOUT = (
    "Show the state of a run's batches: as saved in its directory, or as reported by the provider "
    "if the key's variable is set. A cancelled batch is billed for its finished requests; the "
    "run, or its --resume, keeps these and sends the others again."
)


def main(argv: Sequence[str], *, prog: str) -> int:
    """Run the command.

    Args:
        argv: the command's arguments.
        prog: what the user typed to start it.

    Returns:
        The exit code: 0; 1 if the provider refuses to tell the state or to cancel; 2 if there is no
        such run.
    """
    options = make_parser(prog).parse_args(argv)
    return exit_code(
        lambda: asyncio.run(
            _show(_find_run(options.run), options.api_key_env, is_cancelled=options.cancel)
        )
    )


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = OneLineParser(prog, _ABOUT)
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="a run directory, or a file of score or process"
    )
    parser.add_argument("--cancel", action="store_true", help="cancel the open batches")
    parser.add_argument(
        "--api_key_env",
        metavar="NAME",
        help="the variable of the provider's key; OPENAI_API_KEY or ANTHROPIC_API_KEY",
    )
    return parser


def _find_run(path: Path) -> Path:
    """Find the run directory with the batches.

    Raises:
        DataError: there is no such run, or it has no batches.
    """
    require("environments")
    from judgegym.engine.runs.directory import locate_run_directory
    from judgegym.engine.runs.recorded_calls import BATCHES

    run = path if path.is_dir() else locate_run_directory(path)
    if not path.exists() and not run.exists():
        raise DataError(f"{path}: there is no such run directory, nor a file with a run beside it")
    if not (run / BATCHES).exists():
        raise DataError(
            f"{path} has no batches: expected a run with --judge_batch, which writes "
            f"{run / BATCHES}"
        )
    return run


async def _show(run: Path, variable: str | None, *, is_cancelled: bool) -> int:
    from judgegym.engine.runs.batches import read_batches
    from judgegym.llm.batches.queue import VOID

    failures = 0
    for batch in read_batches(run)[1].values():
        failure = ""
        if batch.id is not None and batch.state.status != VOID:
            try:
                await _query_batch(batch, batch.id, variable, is_cancelled=is_cancelled)
            except EndpointError as error:
                is_gone = (
                    error.status == HTTPStatus.NOT_FOUND
                )  # a cancelled batch of a folder; the run sends it again
                if is_gone:
                    failure = "; it is gone: --resume sends its requests again"
                else:
                    failure = f"; {error}"
                failures += not is_gone
            except SettingsError as error:
                failure, failures = f"; {error}", failures + 1
        terminal.say(
            f"{batch.description}{failure}  ({batch.kind}, {batch.model}, {batch.id or 'no id yet'})"
        )
    return min(1, failures)


async def _query_batch(
    batch: Batch, name: str, variable: str | None, *, is_cancelled: bool
) -> None:
    """Ask the provider for a batch's state, and cancel it if it is open.

    Without a key the provider is not asked.

    Raises:
        EndpointError: the provider does not tell the state.
        SettingsError: the batch is to be cancelled, and there is no key.
    """
    from pydantic import SecretStr

    from judgegym.llm.batches.kinds import open_batches
    from judgegym.llm.client import ChatClient
    from judgegym.llm.types import BatchOptions, ChatSettings, Endpoint
    from judgegym.llm.urls import is_public

    is_folder, is_anthropic = batch.kind == "folder", batch.kind == "anthropic"
    variable = variable or ("ANTHROPIC_API_KEY" if is_anthropic else "OPENAI_API_KEY")
    key = os.environ.get(variable)
    if not key and not is_folder and is_public(batch.endpoint):
        if is_cancelled:
            raise SettingsError(
                f"it cannot be cancelled: {variable} is not set; name another with --api_key_env"
            )
        return
    url = "http://127.0.0.1:9/v1" if is_folder else batch.endpoint
    secret = SecretStr(key) if key else None
    endpoint = Endpoint(url, batch.model, secret, api="anthropic" if is_anthropic else "openai")
    async with ChatClient(ChatSettings((endpoint,), max_retries=3, away_deadline_s=10.0)) as client:
        api = open_batches(BatchOptions(batch.kind, Path(batch.endpoint)), client)
        batch.state = await api.state(name)
        if is_cancelled and not batch.state.is_over:
            await api.cancel(name)
            batch.state = (
                replace(batch.state, status="cancelled") if is_folder else await api.state(name)
            )
