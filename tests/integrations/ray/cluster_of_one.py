"""A Ray cluster in processes of its own, and its command `serve` run against it.

Ray lets a process join a cluster that knows its token. Each cluster here has one of its own, made for it, which the
commands that are run against it have in their environment.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integrations import trainers


@dataclass(frozen=True)
class Cluster:
    """The cluster's address, the URL of its HTTP proxy, a folder in which commands are run, and the cluster's token."""

    address: str
    url: str
    folder: Path
    token: str

    async def run(self, command: str, *more: str) -> tuple[int, str]:
        """Run a command to its end: its exit code, and all that it said."""
        child = await started(self._words(command, *more), self.folder, self.token)
        try:
            out, _ = await asyncio.wait_for(child.communicate(), trainers.PATIENCE_S)
        finally:
            kill(child)
        return child.returncode or 0, out.decode()

    @asynccontextmanager
    async def serving(self, command: str, *more: str) -> AsyncIterator[Callable[[], None]]:
        """The application of `serve run`, from when it is ready to when the process has ended by itself.

        Yields:
            A function that stops it, as Ctrl-C does.
        """
        child = await started(self._words(command, *more), self.folder, self.token)
        try:
            await asyncio.wait_for(until(child, "is ready at"), trainers.PATIENCE_S)
            reading = asyncio.create_task(until(child, "nothing says this"))  # a full pipe would stop it
            yield lambda: child.send_signal(signal.SIGINT)
            await asyncio.wait_for(child.wait(), trainers.PATIENCE_S)
            reading.cancel()
            assert child.returncode == 0
        finally:
            kill(child)

    def _words(self, command: str, *more: str) -> Sequence[str]:
        """The command line, with the cluster's address where a command takes one."""
        program, verb, *words = shlex.split(command.replace("'auto'", repr(self.address)), comments=True)
        return program, verb, *(("--address", self.address) if verb == "run" else ()), *words, *more


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    """A cluster, while the context lasts."""
    port, token = free_port(), secrets.token_hex(32)
    child = await started(["python", str(Path(__file__).with_name("cluster.py")), str(port)], folder, token)
    try:
        line = await asyncio.wait_for(until(child, "address "), trainers.PATIENCE_S)
        yield Cluster(line.split()[1], f"http://127.0.0.1:{port}", folder, token)
        await asyncio.wait_for(child.communicate(b""), trainers.PATIENCE_S)
    finally:
        kill(child)


async def started(words: Sequence[str], folder: Path, token: str) -> asyncio.subprocess.Process:
    """A process of the environment with Ray."""
    place = trainers.place_of("ray") / "bin"
    env = {**os.environ, "PYTHONPATH": str(trainers.ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    env["PATH"] = f"{place}:{os.environ['PATH']}"
    return await asyncio.create_subprocess_exec(
        *(str(place / words[0]), *words[1:]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env=env,
        start_new_session=True,  # so that Ray's own processes can be ended with it
    )


async def until(child: asyncio.subprocess.Process, words: str) -> str:
    """The line with these words, once a process says it."""
    said = ""
    assert child.stdout is not None
    async for line in child.stdout:
        said += line.decode()
        if words in line.decode():
            return line.decode()
    raise AssertionError(f"it ended before it said {words!r}:\n{said}")


def kill(child: asyncio.subprocess.Process) -> None:
    """End a process, and those that it has started, if it still runs."""
    if child.returncode is None:
        os.killpg(child.pid, signal.SIGKILL)


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
