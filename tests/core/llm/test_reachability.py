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
from judgegym.llm.errors import EndpointError, EndpointOutage, FailureKind
from judgegym.llm.http import limits
from judgegym.llm.reachability import Reachability
from judgegym.llm.types import ChatSettings, Endpoint, Replica
from tests.scripted import Reply, ScriptedEndpoint, refusing

ASK = [{"role": "user", "content": "hi"}]
REFUSED = EndpointError(FailureKind.AWAY, endpoint="http://h/v1", answer="refused")

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
    client = connect(port.base_url, max_retries=0, deadline_s=10.0, away_deadline_s=60.0, title="the judge")
    calls = [asyncio.create_task(client.chat(ASK)) for _ in range(20)]
    # All have been refused: an attempt that were still on its way would take the 50 seconds below for its own.
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
    assert all(gap >= 0.5 * 0.01 * 2**number for number, gap in enumerate(gaps)), "the pauses double"
    async with port.open() as endpoint:
        await asyncio.gather(*calls)
    assert {request.method for request in endpoint.requests} == {"POST"}


async def test_after_the_deadline_all_calls_fail_and_later_ones_at_once(connect: Connect, port: Port) -> None:
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


async def test_other_replicas_go_on_and_one_that_is_back_is_used(connect: Connect, port: Port) -> None:
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
    assert f"the judge at {port.base_url} refuses connections (it has never answered: is its URL right?)" in first
    assert "Cannot connect" in first and "at most 60 s (--env.endpoint_away_deadline)" in first
    assert later and all("still refuses connections" in each for each in later)
    assert "accepts connections again" in last


async def test_model_that_was_never_there_is_wrong_and_one_that_has_answered_is_away(
    connect: Connect, port: Port
) -> None:
    deadlines = {"start_deadline_s": 0.05, "away_deadline_s": 0.1, "section": "env.", "url_setting": "--env.url"}
    client = connect(port.base_url, title="the judge", **deadlines)
    expected = rf"{port.base_url} has never answered, for 0\.05 s \(--env\.wait_for_endpoints\).*--env\.url"
    for _ in range(2):
        with pytest.raises(EndpointOutage, match=expected) as raised:
            await client.chat(ASK)
        assert raised.value.exit_code == 2
    waiting = client.waiting
    assert waiting is not None and waiting.endswith("refuses connections; 0 s left (--env.wait_for_endpoints)")
    client = connect(port.base_url, **deadlines)
    async with port.open():
        await client.chat(ASK)
    with pytest.raises(EndpointError, match=r"away for \d s, the limit is 0\.1 s \(--env\.endpoint_away_deadline\)"):
        await client.chat(ASK)


async def test_endpoint_that_has_answered_before_is_not_taken_for_a_mistyped_one(
    connect: Connect, port: Port, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(port.base_url, away_deadline_s=0.05)
    async with port.open(Reply(status=400)):
        with pytest.raises(EndpointError, match="rejected"):
            await client.chat(ASK)
    with pytest.raises(EndpointError, match="away"):
        await client.chat(ASK)
    assert "refuses connections: " in caplog.text and "never answered" not in caplog.text


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
    with pytest.raises(EndpointError, match=r"away for \d s, the limit is 0\.2 s \(--endpoint_away_deadline\)"):
        while True:
            found.lost(replica, REFUSED)
            await found.wait()
    assert 0 < probes < 30
    await found.close()


async def test_answer_ends_the_time_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(reachability, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now)}))
    replica = Replica(Endpoint("http://h/v1", "m"))
    found = away([replica], "the judge", 60.0)
    found.lost(replica, REFUSED)
    now = 1042.0
    assert found.waiting == "the judge at http://h/v1 refuses connections, for 42 s"
    replica.reached()
    assert found.waiting == "the judge at http://h/v1 refuses connections, for 42 s", "by a request from before"
    replica.is_there = True
    replica.reached()
    found.lost(replica, REFUSED)
    assert found.waiting == "the judge at http://h/v1 refuses connections, for 0 s"
    await found.close()


async def test_time_away_is_that_of_the_last_replica_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(reachability, "time", SimpleNamespace(monotonic=lambda: now))
    replicas = [Replica(Endpoint(f"http://{host}/v1", "m")) for host in "ab"]
    found = away(replicas, "the policy", 60.0)
    found.lost(replicas[0], REFUSED)
    assert found.waiting is None
    now += 30.0
    found.lost(replicas[1], REFUSED)
    now += 5.0
    assert found.waiting == "the policy at http://a/v1, http://b/v1 refuses connections, for 5 s"
    await found.close()


async def test_call_that_waits_for_a_slot_does_not_ask_an_endpoint_that_has_gone_away(
    connect: Connect, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    attempt = transport.Transport._attempt

    async def counted(self: transport.Transport, *arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return await attempt(self, *arguments)

    monkeypatch.setattr(transport.Transport, "_attempt", counted)
    client = connect(port.base_url, max_concurrency=1, away_deadline_s=0.05)
    outcomes = await asyncio.gather(*(client.chat(ASK) for _ in range(5)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [EndpointError] * 5
    assert asked == 1


async def test_client_that_is_closed_probes_no_more(connect: Connect) -> None:
    with refusing() as base_url:
        client = connect(base_url, away_deadline_s=0.0)
        with pytest.raises(EndpointError):
            await client.chat(ASK)
        await client.close()
        assert [task for task in asyncio.all_tasks() if "Reachability._probe" in repr(task)] == []


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
