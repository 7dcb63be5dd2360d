"""Endpoints at which nothing listens: all calls wait on one probe, and the others go on."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from judgegym.llm import ledger, reachability, transport
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.llm.http import limits
from judgegym.llm.reachability import Reachability
from judgegym.llm.types import ChatSettings, Endpoint, Replica
from tests.scripted import ScriptedEndpoint, refusing

ASK = [{"role": "user", "content": "hi"}]
REFUSED = EndpointError(FailureKind.UNREACHABLE, endpoint="http://h/v1", answer="refused")

Connect = Callable[..., ChatClient]


class Port:
    """A port that refuses connections until an endpoint is opened on it."""

    def __init__(self) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            self.number = bound.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.number}/v1"

    @asynccontextmanager
    async def open(self, script: Any = "fine") -> AsyncIterator[ScriptedEndpoint]:
        """Serve on it."""
        endpoint = ScriptedEndpoint(script, port=self.number)
        async with endpoint:
            yield endpoint


@pytest.fixture
def port() -> Port:
    return Port()


def away(replicas: list[Replica], title: str, deadline_s: float) -> Reachability:
    endpoints = tuple(replica.endpoint for replica in replicas)
    return Reachability(replicas, ChatSettings(endpoints, title=title, away_deadline_s=deadline_s))


@pytest.fixture(autouse=True)
def _quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(reachability, "_LONGEST_PAUSE_S", 0.02)


async def test_all_calls_wait_for_an_endpoint_and_their_deadline_counts_from_when_it_is_there(
    connect: Connect, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    for module in (ledger, limits, reachability, transport):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    client = connect(
        port.base_url, max_retries=0, deadline_s=10.0, away_deadline_s=60.0, title="the judge"
    )
    calls = [asyncio.create_task(client.chat(ASK)) for _ in range(20)]
    # All have been refused: an attempt that were still on its way would take the 50 seconds below
    # for its own.
    while client.waiting is None or client.limit.in_flight:  # noqa: ASYNC110  # the state that is tested
        await asyncio.sleep(0)
    now += 50.0
    assert client.waiting == f"the judge at {port.base_url} refuses connections, for 50 s"
    assert not any(call.done() for call in calls)
    async with port.open() as endpoint:
        answers = await asyncio.gather(*calls)
        assert client.waiting is None
    assert {(answer.first.text, answer.attempts) for answer in answers} == {("fine", 1)}
    assert len(endpoint.requests) == 20


@pytest.mark.slow
async def test_probe_is_one_for_all_calls_and_sends_nothing(
    connect: Connect, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[float] = []
    open_connection = asyncio.open_connection

    async def counted(*where: Any, **how: Any) -> Any:
        opened.append(time.monotonic())
        return await open_connection(*where, **how)

    monkeypatch.setattr(asyncio, "open_connection", counted)
    monkeypatch.setattr(reachability, "_LONGEST_PAUSE_S", 10.0)
    client = connect(port.base_url, away_deadline_s=60.0)
    calls = [asyncio.create_task(client.chat(ASK)) for _ in range(50)]
    while len(opened) < 5:  # noqa: ASYNC110  # the state that is tested
        await asyncio.sleep(0.01)
    gaps = [later - earlier for earlier, later in pairwise(opened)]
    assert all(gap >= 0.5 * 0.01 * 2**number for number, gap in enumerate(gaps)), (
        "the pauses double"
    )
    async with port.open() as endpoint:
        await asyncio.gather(*calls)
    assert {request.method for request in endpoint.requests} == {"POST"}


async def test_after_the_deadline_all_calls_fail_and_later_ones_at_once(
    connect: Connect, port: Port
) -> None:
    client = connect(port.base_url, away_deadline_s=0.05)
    outcomes = await asyncio.gather(*(client.chat(ASK) for _ in range(5)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [EndpointError] * 5
    with pytest.raises(EndpointError, match="away after 0 requests"):
        await client.chat(ASK)
    async with port.open():
        answer = None
        while answer is None:
            with suppress(EndpointError):
                answer = await client.chat(ASK)
            await asyncio.sleep(0.01)
    assert answer.first.text == "fine"


async def test_other_replicas_go_on_and_one_that_is_back_is_used(
    connect: Connect, port: Port
) -> None:
    async with ScriptedEndpoint("there") as there:
        client = connect(port.base_url, there, max_retries=0, away_deadline_s=60.0)
        answers = [await client.chat(ASK) for _ in range(5)]
        assert {(answer.first.text, answer.attempts) for answer in answers} == {("there", 1)}
        assert client.waiting is None
        async with port.open("back") as back:
            while not back.requests:
                await asyncio.gather(*(client.chat(ASK) for _ in range(4)))
                await asyncio.sleep(0.01)


async def test_endpoint_that_goes_away_is_said_at_once_and_when_it_is_back(
    connect: Connect, port: Port, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "_SAY_AGAIN_S", 0.05)
    client = connect(port.base_url, away_deadline_s=60.0, title="the judge", section="env.")
    with caplog.at_level(logging.WARNING):
        call = asyncio.create_task(client.chat(ASK))
        while "still refuses" not in caplog.text:  # noqa: ASYNC110  # likewise
            await asyncio.sleep(0.01)
        async with port.open():
            await call
    first, *later, last = (record.getMessage() for record in caplog.records)
    assert f"the judge at {port.base_url} refuses connections (" in first
    assert "never answered" in first
    assert "Cannot connect" in first and "at most 60 s (--env.endpoint_away_deadline)" in first
    assert later and all("still refuses connections" in each for each in later)
    assert "accepts connections again" in last


async def test_endpoint_that_accepts_connections_and_never_answers_is_away_until_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each probe connects, and each request is refused: neither without a pause nor without an end."""
    probes = 0

    async def accepts(replica: Replica) -> bool:
        nonlocal probes
        probes += 1
        return True

    monkeypatch.setattr(reachability, "_accepts_connections", accepts)
    replica = Replica(Endpoint("http://h/v1", "m"))
    found = away([replica], "the judge", 0.2)
    with pytest.raises(
        EndpointError,
        match=r"unreachable for \d s, .* 0\.2 s \(--endpoint_away_deadline\)",
    ):
        while True:
            found.note_unreachable(replica, REFUSED)
            await found.wait()
    assert 0 < probes < 30
    await found.close()


@pytest.mark.parametrize("ticks", range(6))
async def test_probe_that_is_cancelled_in_the_moment_of_a_refusal_ends(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, ticks: int
) -> None:
    """A cancellation that was lost then kept commands alive after their end (`wait_for` before Python 3.12)."""
    connections: list[asyncio.Future[Any]] = []
    begun = asyncio.Event()

    async def opened(host: str, port: int, **how: Any) -> Any:
        connections.append(asyncio.get_running_loop().create_future())
        begun.set()
        return await connections[-1]

    monkeypatch.setattr(asyncio, "open_connection", opened)
    with refusing() as dead:
        client = connect(dead)
        asked = asyncio.create_task(client.chat(ASK))
        await begun.wait()
        connections[0].set_exception(ConnectionRefusedError("just now"))
        for _ in range(ticks):
            await asyncio.sleep(0)
        await asyncio.wait_for(client.close(), 5)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
