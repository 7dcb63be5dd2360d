"""The reward server on Ray Serve: one cluster of one process keeps what the other bindings promise."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest

from judgegym.llm.wire import JSON
from tests.core.server.bodies import by_response
from tests.core.server.promises import PROMISES, SETTINGS
from tests.core.server.running import Answer, Reached, judged_by
from tests.listwise import judging
from tests.scripted import Script, ScriptedEndpoint
from tests.trainers.loops import trainers


@asynccontextmanager
async def served_by_ray(script: Script, settings: Mapping[str, JSON]) -> AsyncIterator[Reached]:
    python = trainers.place_of("ray") / "bin" / "python"
    env = {**os.environ, "PYTHONPATH": str(trainers.ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    async with ScriptedEndpoint(script) as endpoint, aiohttp.ClientSession() as session:
        arguments = json.dumps({**judged_by(endpoint), **settings})
        child = await asyncio.create_subprocess_exec(
            str(python),
            *(str(trainers.HERE / "ray" / "program.py"), str(_free_port()), arguments),
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
    async with served_by_ray(by_response, {**SETTINGS, "max_replicas": 1}) as server:
        for promise in PROMISES:
            await promise(server)


GROUPS, SIZE = 12, 4


def quality(text: str, place: int) -> float:
    """The score that each answer asks for."""
    return float(text.rpartition(" ")[2])


@pytest.mark.timeout(4 * trainers.PATIENCE_S)
async def test_members_of_a_cohort_meet_in_the_one_replica() -> None:
    settings: dict[str, JSON] = {"judge": "listwise", "group_size": SIZE}

    async def member(server: Reached, group: int, number: int) -> Answer:
        score = (10 * number + group) / 100
        ids = {"group": str(group), "member": str(number)}
        return await server.post("/v1/score", {"prompt": "Why?", "response": f"Score {score}", **ids})

    async with served_by_ray(judging(quality), settings) as server:
        answers = await asyncio.gather(*(member(server, group, n) for n in range(SIZE) for group in range(GROUPS)))
        again = await member(server, 0, 1)
        counted = (await server.get("/metrics")).text
        cut = asyncio.create_task(member(server, GROUPS, 0))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(cut, 1.0)
        rest = await asyncio.gather(*(member(server, GROUPS, number) for number in range(SIZE)))
    expected = [(10 * number + group) / 100 for number in range(SIZE) for group in range(GROUPS)]
    assert [answer.json["score"] for answer in answers] == expected
    assert (again.json["score"], again.json["shared"]) == (0.1, True)
    assert [answer.json["score"] for answer in rest] == [(10 * number + GROUPS) / 100 for number in range(SIZE)]
    assert len(server.judge.requests) == GROUPS + 1
    requests = float(re.findall(r"^judgegym_requests_total.* (\S+)$", counted, re.MULTILINE)[0])
    assert requests == GROUPS * SIZE + 1
