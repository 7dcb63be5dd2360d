"""A judge that is away, busy or dead: answers come in time, `/readyz` and the log say so, and say when it is back."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from judgegym.llm.reachability import MOST_IN_A_ROW
from judgegym.server import operation
from tests.core.judges.reward_models.servers import reward_server
from tests.core.server.bodies import DOWN
from tests.core.server.running import Running, running
from tests.scripted import Json, Reply, completion
from tests.trainer import free_port, until

ASK = {"prompt": "Q", "response": "A"}
VERDICT = "[FEEDBACK] fine [SCORE] 5"
BUSY = Reply(status=429, headers={"Retry-After": "60"}, body={"error": {"message": "later"}})
GENEROUS = ("--judge_max_retries=100", "--judge_deadline=900")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "_POLL_S", 0.01)


def metric(text: str, name: str) -> float:
    """The value of the only series of a metric."""
    (found,) = re.findall(rf"^{name}{{.*}} ([\d.]+)$", text, re.MULTILINE)
    return float(found)


async def until_ready(server: Running) -> None:
    async def ready() -> bool:
        return (await server.get("/readyz")).status == 200

    await until(ready, "it is ready")


async def fail(server: Running) -> None:
    """Ask until the judge is down."""
    for number in range(operation.FAILURES):
        await server.post("/v1/score", {**ASK, "response": str(number)})
    down = await server.get("/readyz")
    assert (down.status, down.json["error"]["type"]) == (503, "judge_down")


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that is down is soon asked for a completion, again and again."""
    monkeypatch.setattr(operation, "_QUIET_S", 0.05)
    monkeypatch.setattr(operation, "_FIRST_PAUSE_S", 0.01)


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


async def test_a_judge_that_is_away_is_told_at_once_and_found_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    async with running(*GENEROUS, f"--judge_base_url=http://127.0.0.1:{port}/v1") as server:
        answers = [
            await asyncio.wait_for(server.post("/v1/score", ASK), 20)
            for _ in range(operation.FAILURES - 1)
        ]
        down = await server.get("/readyz")
        async with listening_at(port, VERDICT):

            async def answered() -> bool:
                return (await server.post("/v1/score", ASK)).json.get("score") == 1.0

            await until(answered, "the judge is found")
            ready = await server.get("/readyz")
    assert {(answer.status, answer.json["error"]["type"]) for answer in answers} == {
        (503, "judge_away")
    }
    assert "refuses connections" in answers[-1].json["error"]["message"]
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
    assert (down.status, down.json["error"]["type"], ready.status) == (503, "judge_down", 200)
    records = [
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    ]
    assert sum("refuses connections" in line for line in records) == 1
    assert sum("accepts connections again" in line for line in records) == 1


NO_CREDIT = {
    "message": "You exceeded your current quota",
    "code": "insufficient_quota",
    "type": "insufficient_quota",
}


@pytest.mark.parametrize(
    ("refusal", "asked", "words"),
    [
        (
            Reply(status=429, body={"error": NO_CREDIT}),
            MOST_IN_A_ROW,
            "You exceeded your current quota",
        ),
        (Reply(status=429, headers={"Retry-After": "86400"}), 1, "asks to wait 24 h"),
    ],
    ids=["no credit", "daily limit"],
)
async def test_a_judge_whose_account_is_refused_is_not_ready(
    refusal: Reply, asked: int, words: str
) -> None:
    async with running(*GENEROUS, judge=refusal) as server:
        bodies = [{**ASK, "response": str(number)} for number in range(asked)]
        await asyncio.wait_for(
            asyncio.gather(*(server.post("/v1/score", body) for body in bodies)), 20
        )
        answer, ready = await server.post("/v1/score", ASK), await server.get("/readyz")
        assert len(server.judge.requests) == asked
    assert (answer.status, answer.json["error"]["type"], ready.status) == (503, "judge_away", 503)
    assert words in answer.json["error"]["message"]


async def test_a_dead_judge_is_said_once_and_so_is_its_return(
    caplog: pytest.LogCaptureFixture,
) -> None:
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
    assert len(lines) == 2 and "is back" in lines[1]
    assert "does not answer: " in lines[0] and "out of order" in lines[0]
    assert [record.levelno for record in records] == [logging.WARNING] * 2


async def test_single_failures_and_unreadable_verdicts_are_no_dead_judge() -> None:
    answers = [DOWN, DOWN, VERDICT, DOWN, DOWN, "I cannot say.", *["I cannot say."] * 12]
    async with running(
        judge=lambda request, number: answers[min(number, len(answers)) - 1]
    ) as server:
        for number in range(8):
            await server.post("/v1/score", {**ASK, "response": str(number)})
        assert (await server.get("/readyz")).status == 200


def probes(server: Running) -> list[Json]:
    """The requests for a completion of one token."""
    return [body for body in server.judge.bodies if body.get("max_tokens") == 1]


async def test_a_judge_that_nobody_asks_any_more_is_ready_again_when_a_completion_succeeds(
    probed: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Not before: its list of models answers all the time."""
    broken = asyncio.Event()
    broken.set()
    async with running(judge=lambda request, number: DOWN if broken.is_set() else "I") as server:
        await fail(server)
        await until(lambda: len(probes(server)) > 2, "it is asked for completions")
        down = await server.get("/readyz")
        told = "is back" in caplog.text
        broken.clear()
        await until_ready(server)
        await until(lambda: "is back" in caplog.text, "its return is logged")
        metrics = (await server.get("/metrics")).text
        asked = [request.path for request in server.judge.requests]
    assert (down.status, told) == (503, False)
    assert "/v1/models" not in asked
    assert 'judgegym_probes_total{judge="",outcome="answered"} 1.0' in metrics
    assert metric(metrics, "judgegym_judge_calls_total") == operation.FAILURES + len(probes(server))


async def test_a_judge_that_is_there_again_and_completes_nothing_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(operation, "_FIRST_PAUSE_S", 0.01)
    replies = [VERDICT]
    async with running(
        "--judge_max_retries=0", judge=lambda request, number: replies[-1]
    ) as server:
        await server.post("/v1/score", ASK)
        async with server.judge.away():
            await server.post("/v1/score", {**ASK, "response": "B"}, **{"X-Request-Deadline": "5"})
            assert (await server.get("/readyz")).status == 503
            replies.append(Reply(status=500, body={"error": {"message": "loading"}}))
        await until(lambda: len(probes(server)) > 1, "it is asked for completions")
        while_loading = await server.get("/readyz")
        await until(lambda: "no request since" in caplog.text, "it is logged")
        replies.append(VERDICT)
        await until_ready(server)
    assert while_loading.status == 503
    assert "HTTP 500" in caplog.text


async def test_a_model_that_refuses_one_token_is_asked_as_it_is_for_judgments(probed: None) -> None:
    replies: list[str | Reply] = [DOWN]

    def judge(request: Json, number: int) -> str | Reply:
        if replies[-1] is not DOWN and request.get("max_tokens") == 1:
            return Reply(
                status=400, body={"error": {"message": "the model output limit was reached"}}
            )
        return replies[-1]

    async with running(judge=judge) as server:
        await fail(server)
        replies.append("I am.")
        await until_ready(server)


LATE = [Reply(status=503), BUSY, DOWN, Reply(drop=True)]


@pytest.mark.parametrize("judge", LATE, ids=["503", "429", "500", "drops"])
async def test_an_answer_that_is_late_says_why_and_is_counted(
    judge: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    async with running("--deadline=0.7", *GENEROUS, judge=judge) as server:
        for number in range(operation.FAILURES):
            answer = await server.post("/v1/score", {**ASK, "response": str(number)})
        await until(lambda: "does not answer" in caplog.text, "it is logged")
        metrics = (await server.get("/metrics")).text
    status = f"HTTP {judge.status}" if not judge.drop else "broken"
    assert status in answer.json["explanation"]
    assert "deadline" in answer.json["explanation"]
    assert status in caplog.text
    assert (
        f'judgegym_judge_failures_total{{cause="late",judge=""}} {operation.FAILURES}.0' in metrics
    )


@pytest.mark.parametrize(
    ("judge", "cause"),
    [
        (Reply(status=400), "rejected"),
        (DOWN, "broken"),
        (BUSY, "429"),
        ("I cannot say.", "unparsable"),
    ],
)
async def test_failures_are_counted_by_cause(judge: Reply | str, cause: str) -> None:
    async with running("--judge_deadline=30", judge=judge) as server:
        await server.post("/v1/score", ASK)
        metrics = (await server.get("/metrics")).text
    assert f'judgegym_judge_failures_total{{cause="{cause}",judge=""}} 1.0' in metrics


async def test_a_reward_model_is_asked_for_a_number_and_for_no_completion(probed: None) -> None:
    answers, replies = reward_server("vllm_classify", lambda text: 1.5), [DOWN]

    def judge(request: Json, number: int) -> Reply:
        return replies[-1] if replies[-1] is DOWN else answers(request, number)

    async with running("--judge=reward_model", "--reward_scale=raw", judge=judge) as server:
        await fail(server)
        replies.append(Reply())
        await until_ready(server)
        asked = {request.path for request in server.judge.requests}
    assert asked == {"/classify"}
