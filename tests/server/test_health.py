"""A judge that is away, busy or dead: answers come in time, `/readyz` and the log say so, and say when it is back."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from judgegym.llm.reachability import MOST_IN_A_ROW
from judgegym.server import operation
from tests.scripted import Json, Reply, completion
from tests.server.bodies import DOWN
from tests.server.running import running
from tests.trainer import free_port, until

ASK = {"prompt": "Q", "response": "A"}
VERDICT = "[FEEDBACK] fine [SCORE] 5"
BUSY = Reply(status=429, headers={"Retry-After": "60"}, body={"error": {"message": "later"}})
GENEROUS = ("--judge_max_retries=100", "--judge_deadline=900")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "_POLL_S", 0.01)


def unused_url() -> str:
    """The base URL of an endpoint that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


@pytest.mark.parametrize(
    "judge", [Reply(hang=True), BUSY, Reply(drop=True), DOWN], ids=["hangs", "429", "drops", "500"]
)
async def test_the_answer_comes_within_the_deadline_whatever_the_judge_does(judge: Reply) -> None:
    async with running("--deadline=0.2", *GENEROUS, judge=judge) as server:
        answer = await asyncio.wait_for(server.post("/v1/score", ASK), 20)
    assert (answer.status, answer.json["status"]) == (200, "judge_failed")
    assert "deadline" in answer.json["explanation"]


@asynccontextmanager
async def listening_at(port: int, text: str) -> AsyncIterator[None]:
    """A judge at this port that always answers this text."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(completion(text))

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def test_a_judge_that_is_away_is_told_at_once_and_found_again(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    async with running(*GENEROUS, f"--judge_base_url=http://127.0.0.1:{port}/v1") as server:
        answers = [await asyncio.wait_for(server.post("/v1/score", ASK), 20) for _ in range(operation.FAILURES - 1)]
        down = await server.get("/readyz")
        async with listening_at(port, VERDICT):

            async def answered() -> bool:
                return (await server.post("/v1/score", ASK)).json.get("score") == 1.0

            await until(answered, "the judge is found")
            ready = await server.get("/readyz")
    assert {(answer.status, answer.json["error"]["type"]) for answer in answers} == {(503, "judge_away")}
    assert "refuses connections" in answers[-1].json["error"]["message"]
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
    assert (down.status, down.json["error"]["type"], ready.status) == (503, "judge_down", 200)
    records = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("refuses connections" in line for line in records) == 1
    assert sum("accepts connections again" in line for line in records) == 1


NO_CREDIT = {"message": "You exceeded your current quota", "code": "insufficient_quota", "type": "insufficient_quota"}


@pytest.mark.parametrize(
    ("refusal", "asked", "words"),
    [
        (Reply(status=429, body={"error": NO_CREDIT}), MOST_IN_A_ROW, "You exceeded your current quota"),
        (Reply(status=429, headers={"Retry-After": "86400"}), 1, "asks to wait 24 h"),
    ],
    ids=["no credit", "daily limit"],
)
async def test_a_judge_whose_account_is_refused_is_not_ready(refusal: Reply, asked: int, words: str) -> None:
    async with running(*GENEROUS, judge=refusal) as server:
        bodies = [{**ASK, "response": str(number)} for number in range(asked)]
        await asyncio.wait_for(asyncio.gather(*(server.post("/v1/score", body) for body in bodies)), 20)
        answer, ready = await server.post("/v1/score", ASK), await server.get("/readyz")
        assert len(server.judge.requests) == asked
    assert (answer.status, answer.json["error"]["type"], ready.status) == (503, "judge_away", 503)
    assert words in answer.json["error"]["message"]


async def test_a_judge_that_was_away_is_ready_again_before_anybody_asks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """All judgments have failed by then: its client alone looks for it."""
    monkeypatch.setattr(operation, "_QUIET_S", 1e9)
    port = free_port()
    flags = ("--endpoint_away_deadline=0.05", f"--judge_base_url=http://127.0.0.1:{port}/v1")
    async with running(*GENEROUS, *flags) as server:
        for number in range(operation.FAILURES + 1):
            await server.post("/v1/score", {**ASK, "response": str(number)})
        assert (await server.get("/readyz")).status == 503
        async with listening_at(port, "I cannot say."):

            async def ready() -> bool:
                return (await server.get("/readyz")).status == 200

            await until(ready, "it is ready")


async def test_a_dead_judge_is_said_once_and_so_is_its_return(caplog: pytest.LogCaptureFixture) -> None:
    broken = asyncio.Event()
    broken.set()

    def judge(request: Json, number: int) -> str | Reply:
        return DOWN if broken.is_set() else VERDICT

    async with running(judge=judge) as server:
        before = await server.get("/readyz")
        for number in range(operation.FAILURES + 3):
            await server.post("/v1/score", {**ASK, "response": str(number)})
        down = await server.get("/readyz")
        alive = await server.get("/healthz")
        await until(lambda: "does not answer" in caplog.text, "it is logged")
        broken.clear()
        await server.post("/v1/score", ASK)
        back = await server.get("/readyz")
        await until(lambda: "is back" in caplog.text, "its return is logged")
    assert [before.status, down.status, alive.status, back.status] == [200, 503, 200, 200]
    assert down.json["error"]["type"] == "judge_down"
    assert server.judge.base_url not in down.text
    records = [record for record in caplog.records if record.name == "judgegym.server.operation"]
    lines = [record.getMessage() for record in records]
    assert [line.partition(":")[0] for line in lines] == ["the judge does not answer", "the judge is back"]
    assert "out of order" in lines[0]
    assert [record.levelno for record in records] == [logging.WARNING] * 2


async def test_a_judge_that_is_late_again_and_again_is_down() -> None:
    async with running("--deadline=0.05", *GENEROUS, judge=Reply(hang=True)) as server:
        for number in range(operation.FAILURES):
            await server.post("/v1/score", {**ASK, "response": str(number)})
        down = await server.get("/readyz")
    assert (down.status, down.json["error"]["type"]) == (503, "judge_down")


async def test_single_failures_and_unreadable_verdicts_are_no_dead_judge() -> None:
    answers = [DOWN, DOWN, VERDICT, DOWN, DOWN, "I cannot say.", *["I cannot say."] * 12]
    async with running(judge=lambda request, number: answers[min(number, len(answers)) - 1]) as server:
        for number in range(8):
            await server.post("/v1/score", {**ASK, "response": str(number)})
        assert (await server.get("/readyz")).status == 200


async def test_a_judge_that_nobody_asks_any_more_is_ready_again_when_its_endpoint_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operation, "_QUIET_S", 0.05)
    async with running(judge=DOWN) as server:
        for number in range(operation.FAILURES):
            await server.post("/v1/score", {**ASK, "response": str(number)})

        async def ready() -> bool:
            return (await server.get("/readyz")).status == 200

        await until(ready, "it is ready")
        asked = [request.path for request in server.judge.requests]
    assert asked.count("/v1/models") == 1


async def test_a_mounted_judge_that_is_down_is_named() -> None:
    mounts = f'{{"safety": {{"judge": "aspect", "judge_base_url": "{unused_url()}"}}}}'
    async with running(f"--mounts={mounts}", "--deadline=0.5", "--judge_deadline=0.3") as server:
        for number in range(operation.FAILURES):
            await server.post("/safety/v1/score", {**ASK, "response": str(number)})
        down = await server.get("/readyz")
    assert (down.status, "'safety'" in down.json["error"]["message"]) == (503, True)
