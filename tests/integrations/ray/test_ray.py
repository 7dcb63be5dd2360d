"""The reward server on Ray Serve: one cluster of one process keeps what the other bindings promise."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.integrations import trainers
from tests.judges.server.bodies import by_response
from tests.judges.server.promises import PROMISES, SETTINGS
from tests.judges.server.running import Reached, judged_by
from tests.scripted import ScriptedEndpoint


@asynccontextmanager
async def served_by_ray() -> AsyncIterator[Reached]:
    python = trainers.place_of("ray") / "bin" / "python"
    env = {**os.environ, "PYTHONPATH": str(trainers.ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    async with ScriptedEndpoint(by_response) as endpoint, aiohttp.ClientSession() as session:
        settings = json.dumps({**judged_by(endpoint), **SETTINGS, "max_replicas": 1})
        child = await asyncio.create_subprocess_exec(
            str(python),
            *(str(trainers.HERE / "ray" / "program.py"), str(_free_port()), settings),
            stdin=-1,
            stdout=-1,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=trainers.ROOT,
            env=env,
            start_new_session=True,  # so that Ray's own processes can be ended with it
        )
        try:
            assert child.stdout is not None
            url = (await asyncio.wait_for(_url(child.stdout), trainers.PATIENCE_S)).strip()
            yield Reached(url, endpoint, session)
            await asyncio.wait_for(child.communicate(b""), trainers.PATIENCE_S)
            assert child.returncode == 0
        finally:
            if child.returncode is None:
                os.killpg(child.pid, signal.SIGKILL)


async def _url(lines: asyncio.StreamReader) -> str:
    """The line that is a URL; Ray prints others."""
    async for line in lines:
        if line.startswith(b"http://"):
            return line.decode()
    raise AssertionError("the server has ended before it answered")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.timeout(4 * trainers.PATIENCE_S)
async def test_what_the_server_promises() -> None:
    """All promises to one server: Ray takes long to start."""
    async with served_by_ray() as server:
        for promise in PROMISES:
            await promise(server)
