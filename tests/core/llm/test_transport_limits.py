"""How many requests run at once, and how fast they are started."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiolimiter import AsyncLimiter

from judgegym.llm import ledger, transport
from judgegym.llm.errors import EndpointError
from judgegym.llm.http import exchange, limits
from judgegym.llm.http.exchange import open_session
from tests.scripted import Meeting, Reply, ScriptedEndpoint, completion, in_turn

ASK = [{"role": "user", "content": "hi"}]

Connect = Callable[..., Any]


async def test_requests_in_flight_reach_and_never_pass_the_limit(connect: Connect) -> None:
    meetings = [Meeting(4) for _ in range(5)]

    async def script(request: dict[str, Any], number: int) -> str:
        await meetings[(number - 1) // 4].wait()
        return "fine"

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint, max_concurrency=4)
        await asyncio.gather(*(client.chat(ASK) for _ in range(20)))
    assert (endpoint.peak, len(endpoint.requests)) == (4, 20)


@pytest.mark.parametrize(("status", "peak_after"), [(503, 4), (429, 4), (500, 8)])
async def test_an_overload_halves_the_limit_once_and_another_failure_does_not(
    connect: Connect, status: int, peak_after: int
) -> None:
    burst, release = Meeting(8), asyncio.Event()

    async def script(request: dict[str, Any], number: int) -> Reply | str:
        if number <= 8:
            await burst.wait()
            return Reply(status=status)
        await release.wait()
        return "fine"

    async with ScriptedEndpoint(script) as endpoint, open_session() as session:
        client = connect(endpoint, max_concurrency=8)
        calls = [asyncio.create_task(client.chat(ASK)) for _ in range(8)]
        await endpoint.arrived(8 + peak_after)
        await session.get(
            endpoint.base_url
        )  # whatever was sent together with the last arrival is here after this
        in_flight_after = endpoint.in_flight
        release.set()
        answers = await asyncio.gather(*calls)
    assert in_flight_after == peak_after
    assert [answer.attempts for answer in answers] == [2] * 8


@pytest.mark.parametrize(("share", "peak"), [(1.0, 8), (0.5, 4), (0.3, 2), (0.0, 1)])
async def test_a_client_may_use_a_share_of_its_limit(
    connect: Connect, share: float, peak: int
) -> None:
    meetings = [Meeting(peak) for _ in range(8)]

    async def script(request: dict[str, Any], number: int) -> str:
        await meetings[(number - 1) // peak].wait()
        return "fine"

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint, max_concurrency=8)
        client.rescale(share)
        await asyncio.gather(*(client.chat(ASK) for _ in range(8)))
    assert endpoint.peak == peak


async def test_a_retry_goes_before_those_who_wait_for_their_first_attempt(connect: Connect) -> None:
    arrivals: list[str] = []

    def script(request: dict[str, Any], number: int) -> Reply | str:
        arrivals.append(request["messages"][0]["content"])
        return Reply(status=500) if number == 2 else "fine"

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint, max_concurrency=1)
        await client.chat([{"role": "user", "content": "ahead"}])
        names = ["first", "second", "third", "fourth"]
        await asyncio.gather(*(client.chat([{"role": "user", "content": name}]) for name in names))
    # The second takes the place that the first one's failure leaves; the retry is next.
    assert arrivals == ["ahead", "first", "second", "first", "third", "fourth"]


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is taken from the rate budgets, in order; nobody waits."""
    amounts: list[float] = []

    async def acquire(self: AsyncLimiter, amount: float = 1) -> None:
        assert amount <= self.max_rate  # AsyncLimiter would raise
        amounts.append(amount)

    monkeypatch.setattr(AsyncLimiter, "acquire", acquire)
    return amounts


async def test_a_call_larger_than_the_budget_spends_all_of_it(
    connect: Connect, spent: list[float]
) -> None:
    async with ScriptedEndpoint() as endpoint:
        await connect(endpoint, tokens_per_minute=500, max_tokens=1000).chat(ASK)
    assert spent == [500]


async def test_later_calls_spend_what_the_answered_ones_took_on_average(
    connect: Connect, spent: list[float]
) -> None:
    reply = Reply(body=completion("fine", completion_tokens=200))
    async with ScriptedEndpoint(reply) as endpoint:
        client = connect(endpoint, tokens_per_minute=10_000, max_tokens=1000)
        for _ in range(3):
            await client.chat(ASK)
    assert 1001 <= spent[0] <= 1010
    assert [200 <= amount <= 210 for amount in spent[1:]] == [True, True]


async def test_first_attempts_wait_for_the_budget_is_neither_of_the_deadline_nor_of_the_latency(
    connect: Connect, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, granted = 1000.0, list[float]()

    async def acquire(self: AsyncLimiter, amount: float = 1) -> None:
        nonlocal now
        now += 100.0 if now == 1000.0 else 15.0

    def script(request: dict[str, Any], number: int) -> Reply | str:
        nonlocal now
        now += 30.0 if number == 1 else 10.0
        return Reply(status=500) if number == 1 else "fine"

    def time_out(*, total: float, sock_connect: float) -> aiohttp.ClientTimeout:
        granted.append(total)
        return aiohttp.ClientTimeout(total=60.0)

    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(AsyncLimiter, "acquire", acquire)
    for module in (ledger, limits, transport):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(
        exchange, "aiohttp", SimpleNamespace(**{**vars(aiohttp), "ClientTimeout": time_out})
    )
    async with ScriptedEndpoint(script) as endpoint:
        client = connect(
            endpoint, requests_per_minute=60, timeout_s=500.0, deadline_s=90.0, retry_delay_s=0.0
        )
        answer = await client.chat(ASK)
    assert granted == [90.0, 45.0], (
        "the retry has what the first attempt and its own wait left of the deadline"
    )
    assert (answer.attempts, answer.latency_s) == (2, 55.0)


async def test_retry_whose_deadline_passes_while_it_waits_is_not_sent(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0

    async def acquire(self: AsyncLimiter, amount: float = 1) -> None:
        nonlocal now
        now += 100.0

    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(AsyncLimiter, "acquire", acquire)
    for module in (ledger, limits, transport):
        monkeypatch.setattr(module, "time", clock)
    async with ScriptedEndpoint(in_turn(Reply(status=500), "fine")) as endpoint:
        client = connect(endpoint, requests_per_minute=60, deadline_s=90.0, max_concurrency=1)
        with pytest.raises(EndpointError) as raised:
            await client.chat(ASK)
        assert (raised.value.status, raised.value.attempts, len(endpoint.requests)) == (500, 1, 1)
        assert (await client.chat(ASK)).first.text == "fine", "its slot is free"
