"""Endpoints that reject the account: how many requests that costs, what waits, what is asked again, and how it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from judgegym.llm import reachability
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, EndpointOutage
from judgegym.llm.reachability import MOST_IN_A_ROW
from judgegym.llm.types import ChatResponse
from tests.scripted import Json, Meeting, Reply, ScriptedEndpoint, in_turn

Connect = Callable[..., ChatClient]
NO_CREDIT = Reply(status=402, body={"error": {"message": "insufficient credits"}})
MOST_REJECTED = 32


def ask(number: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"question {number}"}]


async def asked(client: ChatClient, count: int) -> Counter[type]:
    """How calls end that are made at once."""
    outcomes = await asyncio.gather(
        *(client.chat(ask(number)) for number in range(count)), return_exceptions=True
    )
    return Counter(type(outcome) for outcome in outcomes)


@pytest.fixture(autouse=True)
def _quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "_FIRST_PROBE_PAUSE_S", 0.01)


@pytest.mark.slow
async def test_requests_in_progress_are_answered_and_say_nothing_of_later_ones(
    connect: Connect,
) -> None:
    """The answers to 256 requests come one by one, and as each comes another request is rejected."""
    held, go = Meeting(256), asyncio.Semaphore(0)

    async def script(request: Json, number: int) -> Reply | str:
        if number > 256:
            go.release()
            return NO_CREDIT
        await held.wait()
        if number > 1:
            await go.acquire()
        return "fine"

    async with ScriptedEndpoint(script) as endpoint:
        running = asyncio.create_task(
            asked(connect(endpoint, max_concurrency=256, rejected_deadline_s=0.0), 1000)
        )
        await endpoint.arrived(256 + MOST_IN_A_ROW)
        for _ in range(256):
            go.release()
        assert await running == {ChatResponse: 256, EndpointOutage: 744}
        assert len(endpoint.requests) - 256 <= MOST_REJECTED


async def test_endpoint_that_rejects_from_the_first_request_is_not_probed(connect: Connect) -> None:
    async with ScriptedEndpoint(NO_CREDIT) as endpoint:
        ended = await asked(connect(endpoint, max_concurrency=256, rejected_deadline_s=600.0), 500)
        assert ended == {EndpointOutage: 500}
        assert len(endpoint.requests) <= 256, (
            "while connections are opened, all that are allowed may be on their way"
        )


@pytest.mark.parametrize("at_once", [1, 64])
async def test_rejected_requests_among_answered_ones_fail_alone(
    connect: Connect, at_once: int
) -> None:
    """Such as texts that a moderation rejects; 15 of 60."""

    def script(request: Json, number: int) -> Reply | str:
        is_moderated = int(request["messages"][0]["content"].split()[1]) % 4 == 3
        return Reply(status=403) if is_moderated else "fine"

    async with ScriptedEndpoint(script) as endpoint:
        ended = await asked(connect(endpoint, max_concurrency=at_once, rejected_deadline_s=0.0), 60)
        assert ended == {ChatResponse: 45, EndpointError: 15}
        assert len(endpoint.requests) == 60


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_requests_that_are_bad_themselves_break_nothing(
    connect: Connect, status: int
) -> None:
    async with ScriptedEndpoint(
        lambda request, number: "fine" if number == 1 else Reply(status=status)
    ) as endpoint:
        client = connect(endpoint, rejected_deadline_s=0.0)
        await client.chat(ask(0))
        assert await asked(client, 40) == {EndpointError: 40}
        assert client.waiting is None


async def test_process_that_goes_on_after_the_deadline_finds_an_endpoint_that_is_back(
    connect: Connect,
) -> None:
    """A server has calls that fail at once, and one that is sent after each pause."""
    is_paid = asyncio.Event()
    async with ScriptedEndpoint(
        lambda request, number: "fine" if is_paid.is_set() else NO_CREDIT
    ) as endpoint:
        client = connect(endpoint, rejected_deadline_s=0.0)
        assert (await asked(client, MOST_IN_A_ROW))[EndpointOutage] == MOST_IN_A_ROW
        is_paid.set()
        ended = Counter[type]()
        while not ended[ChatResponse]:
            ended += await asked(client, 5)
            await asyncio.sleep(0.001)
        assert await asked(client, 5) == {ChatResponse: 5}


async def test_waiting_call_that_is_cancelled_leaves_the_others_waiting_and_close_ends_the_probe(
    connect: Connect,
) -> None:
    async with ScriptedEndpoint(
        lambda request, number: "fine" if number <= 1 else NO_CREDIT
    ) as endpoint:
        client = connect(endpoint, max_concurrency=4, rejected_deadline_s=600.0)
        opened = asyncio.Event()
        client.subscribe_outage(opened.set)
        await client.chat(ask(0))
        calls = [asyncio.create_task(client.chat(ask(number))) for number in range(50)]
        await (
            opened.wait()
        )  # the rejection that opens the breaker may be sent long before it is read
        for call in calls[:25]:
            call.cancel()
        await asyncio.gather(*calls[:25], return_exceptions=True)
        await endpoint.arrived(len(endpoint.requests) + 1)
        assert client.waiting is not None
        assert not any(call.done() for call in calls[25:])
        await client.close()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert [task for task in asyncio.all_tasks() if "CircuitBreaker" in repr(task)] == []


DAILY = Reply(
    status=429, headers={"Retry-After": "86400"}, body={"error": {"message": "Daily limit reached"}}
)


@pytest.mark.parametrize("seconds", [59, 600])
async def test_a_wait_that_a_call_can_sit_out_is_a_wait(
    connect: Connect, pauses: list[float], seconds: int
) -> None:
    busy = Reply(
        status=429,
        headers={"Retry-After": str(seconds)},
        body={"error": {"message": "Daily limit reached"}},
    )
    async with ScriptedEndpoint(in_turn(busy, "fine")) as endpoint:
        client = connect(endpoint, deadline_s=seconds + 1.0, rejected_deadline_s=600.0)
        assert (await client.chat(ask(0))).first.text == "fine"
    assert seconds in pauses


async def test_a_daily_limit_of_one_replica_leaves_the_calls_to_the_other(connect: Connect) -> None:
    async with ScriptedEndpoint(DAILY) as spent, ScriptedEndpoint("fine") as other:
        client = connect(spent, other, max_concurrency=4, rejected_deadline_s=600.0)
        assert await asked(client, 40) == {ChatResponse: 40}
        assert len(spent.requests) <= 4


@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached: 10 requests per minute",
        "Resource has been exhausted (e.g. check quota).",
    ],
)
async def test_endpoint_that_answers_nothing_but_429_is_told_of_with_its_words_and_waited_for(
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    message: str,
) -> None:
    monkeypatch.setattr(reachability, "_THROTTLED_S", 0.0)
    is_free = asyncio.Event()
    busy = Reply(status=429, body={"error": {"message": message, "status": "RESOURCE_EXHAUSTED"}})
    async with ScriptedEndpoint(
        lambda request, number: "fine" if is_free.is_set() else busy
    ) as endpoint:
        client = connect(endpoint, title="the judge", rejected_deadline_s=0.0)
        running = asyncio.create_task(asked(client, 3))
        await endpoint.arrived(12)
        assert client.throttle_notice is not None and client.waiting is None
        assert client.throttle_notice.startswith(f"the judge at {endpoint.base_url} ")
        assert client.throttle_notice.endswith(f"HTTP 429 for 0 s: {message}")
        is_free.set()
        assert await running == {ChatResponse: 3}
        assert client.throttle_notice is None
    said = [
        record.getMessage()
        for record in caplog.records
        if "answered only HTTP 429" in record.getMessage()
    ]
    assert len(said) == 1
