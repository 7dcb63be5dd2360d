"""Atropos' rollout API as a process, and a trainer that takes batches as they come."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp

from benchmarks.rollouts.processes import running

BATCH = 128
_POLL_S = 0.01
_PLAIN = {
    "Accept-Encoding": "identity"
}  # the API compresses at the highest level, which is not what is measured


@asynccontextmanager
async def rollout_api(session: aiohttp.ClientSession) -> AsyncIterator[str]:
    """The real API; yields its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    async with running("-m", "atroposlib.cli.run_api", "--host=127.0.0.1", f"--port={port}"):
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(url + "/info") as response:
                    if response.status == 200:
                        break
            await asyncio.sleep(_POLL_S)
        yield url


class Trainer:
    """Takes batches of 128 sequences, and remembers when."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = url, session
        self.times: list[float] = []

    async def register(self, steps: int) -> None:
        """Register, and ask for the first batch, which lets environments in."""
        registration = {
            "wandb_group": "",
            "wandb_project": "",
            "batch_size": BATCH,
            "max_token_len": -1,
            "checkpoint_dir": "",
            "save_checkpoint_interval": -1,
            "starting_step": 0,
            "num_steps": steps,
        }
        async with self._session.post(self._url + "/register", json=registration) as response:
            response.raise_for_status()
        await self._ask()

    async def take(self, steps: int) -> None:
        """Take this many batches."""
        for _ in range(steps):
            while not await self._ask():  # noqa: ASYNC110  # only the API knows when
                await asyncio.sleep(_POLL_S)
            self.times.append(time.perf_counter())

    async def _ask(self) -> bool:
        async with self._session.get(self._url + "/batch", headers=_PLAIN) as response:
            body = await response.read()
        return response.status == 200 and not body.startswith((b'{"batch":null', b'{"status"'))
