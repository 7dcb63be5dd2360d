"""Training runs in the server of `judgegym view`, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from judgegym.monitoring.pause import RESUME
from tests.command import PATIENCE_S
from tests.core.reports.training.made import MadeTraining
from tests.core.reports.view.test_server import Server, served


def made(path: Path) -> MadeTraining:
    training = MadeTraining(path)
    training.step()
    training.live()
    return training


class Events:
    """The states that the server sends."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._lines = response.content
        self.type = response.content_type

    async def next(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self._line(b"data: "), PATIENCE_S)
        state: dict[str, Any] = json.loads(line)
        return state

    async def _line(self, begins: bytes) -> bytes:
        while not (line := await self._lines.readline()).startswith(begins):
            assert line, "the server has ended the events"
        return line.removeprefix(begins)


def steps_of(state: dict[str, Any]) -> list[float]:
    (chart,) = [each for each in state["judges"][0]["charts"] if each["id"] == "reward_mean"]
    steps: list[float] = chart["lines"][0]["x"]
    return steps


def address(server: Server, name: str = "run") -> str:
    return f"{server.url}/run/{server.key(name)}"


async def test_a_line_is_sent_to_all_who_look_after_it_is_written(tmp_path: Path) -> None:
    training = made(tmp_path / "runs" / "run")
    async with (
        served(tmp_path / "runs", tmp_path) as server,
        aiohttp.ClientSession(read_bufsize=1 << 22) as session,
        session.get(f"{address(server)}/events") as one,
        session.get(f"{address(server)}/events") as other,
    ):
        all_events = [Events(one), Events(other)]
        for events in all_events:
            assert events.type == "text/event-stream" and steps_of(await events.next()) == [1]
        training.step()
        for events in all_events:
            while steps_of(await events.next()) != [1, 2]:
                pass


async def test_groups_and_their_calls_are_asked_for(tmp_path: Path) -> None:
    made(tmp_path / "runs" / "run")
    async with served(tmp_path / "runs", tmp_path) as server:
        key = server.key("run")
        status, text, headers = await server.get(f"/run/{key}/group/0-2")
        assert (
            status == 200
            and json.loads(text)["uid"] == "row-2"
            and headers["X-Content-Type-Options"] == "nosniff"
        )
        assert (await server.get(f"/run/{key}/calls/0-2"))[:2] == (200, "{}")
        for path in ("group/0-99", "calls/0-99", "group/ff-2"):
            assert (await server.get(f"/run/{key}/{path}"))[0] == 410
        for path in ("group/../2", "group/2", "group/", "nothing"):
            assert (await server.get(f"/run/{key}/{path}"))[0] == 404
        assert (await server.get("/run/0123456789abcdef/events"))[0] == 410
        page = (await server.get(f"/run/{key}"))[2]["Content-Security-Policy"]
        assert "connect-src 'self'" in page and "unsafe" not in page


@pytest.mark.parametrize(
    ("given", "state", "status"),
    [("own", "paused", 202), ("", "paused", 403), ("own", "resumed", 409)],
)
async def test_a_paused_run_is_told_to_go_on_by_its_page_alone(
    tmp_path: Path, given: str, state: str, status: int
) -> None:
    training = made(tmp_path / "runs" / "run")
    training.monitor.note("pause", {"state": state, "by": "alarm", "step": 1})
    async with served(tmp_path / "runs", tmp_path) as server:
        page = (await server.get(f"/run/{server.key('run')}"))[1]
        token = re.search(r'"token":"([^"]+)"', page)
        assert token is not None
        headers = {"X_JudgeGym_Token": token[1] if given == "own" else "another"}
        assert (await server.get(f"/run/{server.key('run')}/resume", "POST", **headers))[
            0
        ] == status
    assert (training.path / RESUME).exists() == (status == 202)
