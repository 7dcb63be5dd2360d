"""Several endpoints of one model, and endpoints behind a proxy."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from judgegym.llm.errors import EndpointError
from tests.scripted import Meeting, Reply, ScriptedEndpoint, refusing

ASK = [{"role": "user", "content": "hi"}]
RESTING = Reply(status=503, headers={"Retry-After": "30"})

Connect = Callable[..., Any]


async def test_calls_spread_over_the_replicas(connect: Connect) -> None:
    meeting = Meeting(6)

    async def script(request: dict[str, Any], number: int) -> str:
        await meeting.wait()
        return "fine"

    async with (
        ScriptedEndpoint(script) as first,
        ScriptedEndpoint(script) as second,
        ScriptedEndpoint(script) as third,
    ):
        client = connect(first, second, third)
        await asyncio.gather(*(client.chat(ASK) for _ in range(6)))
    assert [first.peak, second.peak, third.peak] == [2, 2, 2]


@pytest.mark.parametrize(
    "fault", [RESTING, Reply(status=500), Reply(drop=True), Reply(body=b"no JSON")]
)
async def test_a_call_that_fails_at_one_succeeds_at_the_other(
    connect: Connect, pauses: list[float], fault: Reply
) -> None:
    async with ScriptedEndpoint(fault) as broken, ScriptedEndpoint("fine") as whole:
        answer = await connect(broken, whole).chat(ASK)
    assert (answer.first.text, answer.attempts) == ("fine", 2)
    assert (len(broken.requests), len(whole.requests)) == (1, 1)


async def test_replica_that_failed_is_paused(connect: Connect, pauses: list[float]) -> None:
    async with ScriptedEndpoint(RESTING) as broken, ScriptedEndpoint("fine") as whole:
        client = connect(broken, whole)
        for _ in range(5):
            await client.chat(ASK)
    assert (len(broken.requests), len(whole.requests)) == (1, 5)


async def test_a_request_that_is_wrong_is_wrong_everywhere(connect: Connect) -> None:
    wrong = Reply(status=400, body={"error": {"message": "wrong"}})
    async with ScriptedEndpoint(wrong) as first, ScriptedEndpoint(wrong) as second:
        client = connect(first, second)
        for _ in range(2):
            with pytest.raises(EndpointError):
                await client.chat(ASK)
    # It does not rest a replica either: both calls went to the first one.
    assert (len(first.requests), len(second.requests)) == (2, 0)


# An endpoint answers as a proxy would: what comes to it by way of HTTP_PROXY keeps its own Host.


async def test_a_proxy_of_the_environment_is_used(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedEndpoint("through the proxy") as proxy:
        address = proxy.base_url.removesuffix("/v1").removeprefix("http://")
        monkeypatch.setenv("HTTP_PROXY", f"http://user:password@{address}")
        answer = await connect("http://judge.invalid:8000/v1", key="sk-secret").chat(ASK)
    assert answer.first.text == "through the proxy"
    headers = proxy.requests[0].headers
    assert headers["Host"] == "judge.invalid:8000"
    assert headers["Authorization"] == "Bearer sk-secret"
    assert headers["Proxy-Authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    "proxy", ["http://user:password@{}", "user:password@{}", "http://user:password@{}:99999"]
)
async def test_a_proxys_password_is_in_no_error(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    with refusing() as dead:
        monkeypatch.setenv(
            "HTTP_PROXY", proxy.format(dead.removesuffix("/v1").removeprefix("http://"))
        )
        with pytest.raises(EndpointError) as raised:
            await connect("http://judge.invalid/v1", max_retries=0).chat(ASK)
    assert "password" not in str(raised.value)
