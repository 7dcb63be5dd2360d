"""The reward server on Ray Serve: one cluster of one process keeps what the other bindings promise."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from judgegym.llm.wire import JSON
from tests.core.server.bodies import by_response
from tests.core.server.promises import PROMISES, SETTINGS
from tests.core.server.running import Answer, Reached, judged_by
from tests.listwise import judging
from tests.scripted import Script, ScriptedEndpoint
from tests.trainer import free_port
from tests.trainers.loops import trainers
from tests.trainers.loops.children import kill, started, until

GROUPS, SIZE = 12, 4
pytestmark = pytest.mark.timeout(4 * trainers.PATIENCE_S)


@asynccontextmanager
async def served_by_ray(
    script: Script, settings: Mapping[str, JSON], folder: Path
) -> AsyncIterator[Reached]:
    async with ScriptedEndpoint(script) as endpoint, aiohttp.ClientSession() as session:
        arguments = json.dumps({**judged_by(endpoint), **settings})
        program = Path(__file__).with_name("program.py")
        child = await started("ray", ("python", str(program), str(free_port()), arguments), folder)
        try:
            said = await asyncio.wait_for(until(child, "answers at "), trainers.PATIENCE_S)
            yield Reached(said.split()[-1], endpoint, session)
            await asyncio.wait_for(child.communicate(b""), trainers.PATIENCE_S)
            assert child.returncode == 0
        finally:
            kill(child)


async def test_what_the_server_promises(tmp_path: Path) -> None:
    """All promises to one server: Ray takes long to start."""
    async with served_by_ray(by_response, {**SETTINGS, "max_replicas": 1}, tmp_path) as server:
        for promise in PROMISES:
            await promise(server)


def quality(text: str, place: int) -> float:
    """The score that each answer asks for."""
    return float(text.rpartition(" ")[2])


async def test_members_of_a_cohort_meet_in_the_one_replica(tmp_path: Path) -> None:
    settings: dict[str, JSON] = {"judge": "listwise", "group_size": SIZE}

    def score(group: int, number: int) -> float:
        return (10 * number + group) / 100

    async def member(server: Reached, group: int, number: int) -> Answer:
        ids = {"group": str(group), "member": str(number)}
        body = {"prompt": "Why?", "response": f"Score {score(group, number)}", **ids}
        return await server.post("/v1/score", body)

    members = [(group, number) for number in range(SIZE) for group in range(GROUPS)]
    async with served_by_ray(judging(quality), settings, tmp_path) as server:
        answers = await asyncio.gather(*(member(server, *each) for each in members))
        again = await member(server, 0, 1)
        counted = (await server.get("/metrics")).text
        cut = asyncio.create_task(member(server, GROUPS, 0))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(cut, 1.0)
        rest = await asyncio.gather(*(member(server, GROUPS, number) for number in range(SIZE)))
    assert [answer.json["score"] for answer in answers] == [score(*each) for each in members]
    assert (again.json["score"], again.json["shared"]) == (0.1, True)
    assert [answer.json["score"] for answer in rest] == [
        score(GROUPS, number) for number in range(SIZE)
    ]
    assert len(server.judge.requests) == GROUPS + 1
    requests = float(re.findall(r"^judgegym_requests_total.* (\S+)$", counted, re.MULTILINE)[0])
    assert requests == GROUPS * SIZE + 1
