"""A Ray cluster in processes of its own, and its command `serve` run against it.

Ray lets a process join a cluster that knows its token. Each cluster here has one of its own, made
for it, which the commands that are run against it have in their environment.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.trainer import free_port
from tests.trainers.loops import trainers
from tests.trainers.loops.children import ended, kill, ready, started, until


@dataclass(frozen=True)
class Cluster:
    """The cluster's address, the URL of its HTTP proxy, a folder in which commands are run, and the cluster's token."""

    address: str
    url: str
    folder: Path
    token: str

    async def run(self, command: str, *more: str) -> tuple[int, str]:
        """Run a command to its end: its exit code, and all that it said."""
        return await ended(await self._child(self._words(command, *more)))

    @asynccontextmanager
    async def serving(self, command: str, *more: str) -> AsyncIterator[None]:
        """The application of `serve run`, from when it is ready; Ctrl-C ends it."""
        child = await self._child(self._words(command, *more))
        async with ready(child, "is ready at"):
            yield
        assert child.returncode == 0

    async def _child(self, words: Sequence[str]) -> asyncio.subprocess.Process:
        return await started(
            "ray", words, self.folder, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=self.token
        )

    def _words(self, command: str, *more: str) -> Sequence[str]:
        """The command line, with the cluster's address where a command takes one."""
        program, verb, *words = shlex.split(
            command.replace("'auto'", repr(self.address)), comments=True
        )
        return program, verb, *(("--address", self.address) if verb == "run" else ()), *words, *more


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    """A cluster, while the context lasts."""
    port, token = free_port(), secrets.token_hex(32)
    words = ["python", str(Path(__file__).with_name("cluster.py")), str(port)]
    child = await started("ray", words, folder, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token)
    try:
        said = await asyncio.wait_for(until(child, "address "), trainers.PATIENCE_S)
        address = said.splitlines()[-1].split()[1]
        yield Cluster(address, f"http://127.0.0.1:{port}", folder, token)
        await asyncio.wait_for(child.communicate(b""), trainers.PATIENCE_S)
    finally:
        kill(child)
