import asyncio

import aiohttp
import pytest

from tests.scripted import Meeting, Reply, ScriptedEndpoint


async def ask(base_url: str, **body: object) -> tuple[int, dict[str, object]]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base_url}/chat/completions", json=body) as response,
    ):
        return response.status, await response.json()


async def test_a_script_may_hold_requests_until_they_meet() -> None:
    meeting = Meeting(3)

    async def script(request: dict[str, object], number: int) -> str:
        await meeting.wait()
        return "met"

    async with ScriptedEndpoint(script) as endpoint:
        asking = [asyncio.create_task(ask(endpoint.base_url)) for _ in range(3)]
        await endpoint.arrived(3)
        await asyncio.gather(*asking)
    assert (endpoint.peak, endpoint.in_flight) == (3, 0)


@pytest.mark.parametrize(
    ("reply", "timeout_s", "expected"),
    [
        (Reply(drop=True), None, aiohttp.ServerDisconnectedError),
        (Reply(hang=True), 0.05, asyncio.TimeoutError),
    ],
)
async def test_no_answer_at_all(
    reply: Reply, timeout_s: float | None, expected: type[Exception]
) -> None:
    timeout = aiohttp.ClientTimeout(total=None, sock_read=timeout_s)
    async with (
        ScriptedEndpoint(reply) as endpoint,
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        with pytest.raises(expected):
            await session.post(f"{endpoint.base_url}/chat/completions", json={})
        await endpoint.arrived(1)
    assert len(endpoint.requests) == 1


async def test_what_a_script_raises_fails_the_test() -> None:
    def script(request: dict[str, object], number: int) -> str:
        raise AssertionError("wrong request")

    with pytest.raises(AssertionError, match="wrong request"):
        async with ScriptedEndpoint(script) as endpoint:
            assert (await ask(endpoint.base_url))[0] == 400
