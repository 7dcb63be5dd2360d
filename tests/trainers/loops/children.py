"""Processes of a trainer's command line, which start others: what they say, and their end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.trainers.loops import trainers


async def started(
    trainer: str, words: Sequence[str], folder: Path, **variables: str
) -> asyncio.subprocess.Process:
    """A command of a trainer's environment, run in a folder; its errors are in its output."""
    place = trainers.place_of(trainer) / "bin"
    env: Mapping[str, str] = {
        **os.environ,
        "PATH": f"{place}:{os.environ['PATH']}",
        "PYTHONPATH": str(trainers.ROOT),
        "RAY_USAGE_STATS_ENABLED": "0",
        "WANDB_MODE": "disabled",
        **variables,
    }
    return await asyncio.create_subprocess_exec(
        *(str(place / words[0]), *words[1:]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env=env,
        start_new_session=True,  # so that Ray's own processes can be ended with it
    )


async def ended(child: asyncio.subprocess.Process) -> tuple[int, str]:
    """Wait for its end: its exit code, and all that it said."""
    try:
        out, _ = await asyncio.wait_for(child.communicate(), trainers.PATIENCE_S)
    finally:
        kill(child)
    return child.returncode or 0, out.decode()


@asynccontextmanager
async def ready(child: asyncio.subprocess.Process, words: str) -> AsyncIterator[str]:
    """Servers from when they say these words; they must end by themselves once Ctrl-C has reached them.

    Yields:
        What they have said until then.
    """
    try:
        said = await asyncio.wait_for(until(child, words), trainers.PATIENCE_S)
        reading = asyncio.create_task(
            until(child, "nothing says this")
        )  # a full pipe would stop it
        yield said
        child.send_signal(signal.SIGINT)
        await asyncio.wait_for(child.wait(), trainers.PATIENCE_S)
        reading.cancel()
    finally:
        kill(child)


async def until(child: asyncio.subprocess.Process, words: str) -> str:
    """What a process says, up to a line with these words."""
    said = ""
    assert child.stdout is not None
    async for line in child.stdout:
        said += line.decode()
        if words in line.decode():
            return said
    raise AssertionError(f"it ended before it said {words!r}:\n{said}")


def kill(child: asyncio.subprocess.Process) -> None:
    """End a process, and those that it has started, if it still runs."""
    if child.returncode is None:
        os.killpg(child.pid, signal.SIGKILL)
