"""The command of the page that serves an environment, asked over OpenEnv's HTTP routes."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket

import aiohttp

from judgegym_trainers.single_turn import EnvironmentSource, opened
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap


async def test_the_command_of_the_page_serves_an_environment() -> None:
    python = str(trainers.place_of("openenv") / "bin" / "python")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    words = shlex.split(swap(example("OpenEnv", "bash", 1), ("--port 8000", f"--port {port}")), comments=True)
    assert words[0] == "python"
    environment = {**os.environ, "PYTHONPATH": str(trainers.ROOT)}
    serving = await asyncio.create_subprocess_exec(python, *words[1:], env=environment)
    try:
        ours = await asyncio.to_thread(opened, EnvironmentSource.of("arena_hard", offline=True))
        uid = ours.uids[0]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            while True:
                assert serving.returncode is None
                try:
                    async with session.get("/health") as response:
                        assert response.status == 200
                        break
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.1)
            action = {"uid": uid, "completion": "It is simple: you look at it for a while."}
            async with session.post("/step", json={"action": action}) as response:
                answer = await response.json()
        (expected,) = await ours.rewards(uid, [action["completion"]])
        assert answer["reward"] == expected.reward
    finally:
        serving.terminate()
        await serving.wait()
