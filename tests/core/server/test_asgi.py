"""The ASGI application's own part: when the service is opened and closed, settings, access, uvicorn as a process."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import subprocess
import sys
import urllib.request
from typing import Any

import aiohttp
import pytest

from judgegym.server.asgi import RewardServer
from tests.command import PATIENCE_S, ROOT, clean_environment
from tests.core.server.bindings import uvicorn_serves
from tests.core.server.running import judged_by
from tests.scripted import ScriptedEndpoint

ASK = {"prompt": "Q", "response": "A"}
VERDICT = "[FEEDBACK] fine [SCORE] 5"


async def asked(url: str, path: str = "/v1/score") -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.post(url + path, json=ASK) as answer:
        return answer.status, await answer.json()


async def test_a_parents_lifespan_opens_and_closes_the_service() -> None:
    fastapi = pytest.importorskip("fastapi")
    async with ScriptedEndpoint(VERDICT) as endpoint:
        ours = RewardServer(**judged_by(endpoint))
        parent = fastapi.FastAPI(lifespan=ours.lifespan)
        parent.mount("/rewards", ours)
        async with uvicorn_serves(parent) as url:
            before = tasks_of_the_service()
            status, result = await asked(f"{url}/rewards")
        assert (status, result["score"]) == (200, 1.0)
        assert before
        assert not tasks_of_the_service()


def tasks_of_the_service() -> list[str]:
    """Tasks that hold the service open, or watch its judges."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return [name for name in names if name in ("_OpenService._hold", "Core.watch")]


async def test_requests_that_come_at_once_open_one_service() -> None:
    """Mounted, without a lifespan: equal judgments in flight are joined only within one service."""
    fastapi = pytest.importorskip("fastapi")
    gate = asyncio.Event()

    async def judge(request: Any, number: int) -> str:
        await gate.wait()
        return VERDICT

    async with ScriptedEndpoint(judge) as endpoint:
        parent = fastapi.FastAPI()
        parent.mount("/rewards", RewardServer(**judged_by(endpoint)))
        async with uvicorn_serves(parent) as url:
            waiting = [asyncio.create_task(asked(f"{url}/rewards")) for _ in range(5)]
            await endpoint.arrived(1)
            gate.set()
            answers = await asyncio.gather(*waiting)
    assert [status for status, _ in answers] == [200] * 5
    assert len(endpoint.requests) == 1


async def test_wrong_settings_are_told_in_the_log_and_not_to_the_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fastapi = pytest.importorskip("fastapi")
    parent = fastapi.FastAPI()
    parent.mount("/rewards", RewardServer(scale_min=5, scale_max=5))
    with caplog.at_level(logging.ERROR, logger="judgegym.server.asgi"):
        async with uvicorn_serves(parent) as url:
            status, answer = await asked(f"{url}/rewards")
    assert (status, answer["error"]["type"]) == (500, "internal")
    assert len(answer["error"]["request_id"]) == 32
    assert "scale_max" in caplog.text
    assert "scale_max" not in json.dumps(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "address", "status"),
    [
        ({}, "10.0.0.7", 401),
        ({}, "::1", 200),
        ({}, "127.0.0.1", 200),
        ({"insecure": True}, "10.0.0.7", 200),
        ({}, None, 200),
    ],
)
async def test_without_tokens_only_this_machine_is_answered(
    settings: Any, address: str | None, status: int
) -> None:
    ours = RewardServer(offline=True, **settings)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": [], "root_path": ""}
    if address is not None:
        scope["server"] = (address, 8000)
    async with ours.lifespan():
        await ours(scope, receive, send)
    assert sent[0]["status"] == status


class Uvicorn:
    """`uvicorn judgegym.server.asgi:app` as a process, with all that it has said."""

    def __init__(self, *flags: str, **environment: str) -> None:
        pytest.importorskip("uvicorn")
        words = [sys.executable, "-m", "uvicorn", "judgegym.server.asgi:app", "--port=0", *flags]
        env = {**clean_environment(), **environment}
        self.process = subprocess.Popen(
            words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.said = ""

    def __enter__(self) -> Uvicorn:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def until(self, words: str) -> str:
        """Read on to a line with these words, or to the end; returns it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line.decode()
            if words in line.decode():
                return line.decode()
        return ""

    def ended(self) -> int:
        self.until("no line has this")
        return self.process.wait(PATIENCE_S)


@pytest.mark.slow
def test_uvicorn_as_a_process_logs_requests_shows_no_token_and_ends_when_told() -> None:
    with Uvicorn(JUDGEGYM_OFFLINE="true", JUDGEGYM_TOKENS='{"a": "open-sesame"}') as server:
        url = re.search(r"http://[\d.:]+", server.until("Uvicorn running on"))
        assert url is not None, server.said
        request = urllib.request.Request(
            f"{url[0]}/token/open-sesame/v1/score", data=json.dumps(ASK).encode()
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert 0 <= json.load(answer)["score"] <= 1
        server.process.send_signal(signal.SIGTERM)
        server.ended()
    assert "Application shutdown complete" in server.said
    lines = [json.loads(line) for line in server.said.splitlines() if line.startswith("{")]
    assert [(line["path"], line["code"], line["caller"]) for line in lines] == [
        ("/token/…/v1/score", 200, "a")
    ]
    assert "open-sesame" not in server.said


@pytest.mark.slow
def test_uvicorn_does_not_start_with_wrong_settings_and_says_why() -> None:
    with Uvicorn(JUDGEGYM_OFFLINE="true", JUDGEGYM_SCALE_MIN="5", JUDGEGYM_SCALE_MAX="5") as server:
        code = server.ended()
    assert code != 0
    assert "scale_max" in server.said
    assert "Traceback" not in server.said
