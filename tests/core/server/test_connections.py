"""Connections: bounded in number, and in the time that the head of their first request may take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from judgegym.judges.config.removed import REMOVED
from judgegym.server import http, request, service
from judgegym.server.settings import RewardServerSettings
from tests.core.server.running import Running, running
from tests.trainer import until

ASK = json.dumps({"prompt": "Q", "response": "A"}).encode()
HEAD = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(ASK)


@asynccontextmanager
async def connected(
    server: Running,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


@pytest.fixture
def _short_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judgegym.server.http.HEAD_TIMEOUT_S", 0.3)


@pytest.mark.usefixtures("_short_heads")
async def test_a_head_that_does_not_come_is_given_up() -> None:
    async with running() as server, connected(server) as (reader, writer):
        writer.write(HEAD[:-5])
        answer = await reader.read()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b" 408 " in head.splitlines()[0]
    assert json.loads(body)["error"]["type"] == "timeout"


async def test_a_connection_beyond_the_limit_is_refused_until_another_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("judgegym.server.http.MOST_CONNECTIONS", 1)
    async with running("--max_pending=2") as server:
        async with connected(server) as (_, writer), connected(server) as (first, second):
            writer.write(b"POST")
            second.write(HEAD + ASK)
            served = await first.readuntil(b"\r\n")
            async with connected(server) as (reader, _):
                refused = await reader.read()
        later: list[int] = []

        async def served_again() -> bool:
            later.append((await server.post("/v1/score", ASK)).status)
            return later[-1] == 200

        await until(served_again, "a connection is free")
    assert b" 200 " in served
    assert b" 503 " in refused.splitlines()[0]
    assert json.loads(refused.partition(b"\r\n\r\n")[2])["error"]["type"] == "overloaded"


async def answered(reader: asyncio.StreamReader) -> bytes:
    """The first line of one answer, which is read to its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.splitlines()
        if line.lower().startswith(b"content-length")
    )
    await reader.readexactly(length)
    return head.splitlines()[0]


async def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judgegym.server.request.BODY_TIMEOUT_S", 0.3)
    async with running() as server, connected(server) as (reader, writer):
        writer.write(HEAD + ASK[:-5])
        assert b" 408 " in await reader.readline()


async def test_heads_in_small_pieces() -> None:
    async with running() as server, connected(server) as (reader, writer):
        for at in range(0, len(HEAD + ASK), 7):
            writer.write((HEAD + ASK)[at : at + 7])
            await writer.drain()
            await asyncio.sleep(0)
        assert b" 200 " in await answered(reader)


async def test_two_requests_in_one_piece() -> None:
    async with running() as server, connected(server) as (reader, writer):
        writer.write(2 * (HEAD + ASK))
        assert b" 200 " in await answered(reader)
        assert b" 200 " in await answered(reader)


@pytest.mark.usefixtures("_short_heads")
async def test_a_connection_may_be_idle_between_requests_for_longer_than_a_head_may_take() -> None:
    async with running() as server, connected(server) as (reader, writer):
        writer.write(HEAD + ASK)
        assert b" 200 " in await answered(reader)
        await asyncio.sleep(0.4)
        writer.write(HEAD + ASK)
        assert b" 200 " in await answered(reader)


async def test_a_head_without_end_is_refused() -> None:
    async with running() as server, connected(server) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 100_000)
        answer = await reader.readline()
    assert b" 400 " in answer


async def test_a_connection_without_a_request_does_not_delay_the_end() -> None:
    async with running() as server:
        idle = connected(server)
        reader, _ = await idle.__aenter__()
        await server.get("/healthz")
    assert await asyncio.wait_for(reader.read(), 20) == b""
    await idle.__aexit__(None, None, None)


async def test_a_caller_that_waits_for_permission_gets_it_when_its_token_is_known() -> None:
    waits = HEAD.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n%s\r\n")
    async with (
        running('--tokens={"a": "open-sesame"}') as server,
        connected(server) as (reader, writer),
    ):
        writer.write(waits % b"Authorization: Bearer open-sesame\r\n")
        permitted = await reader.readuntil(b"\r\n\r\n")
        writer.write(ASK)
        served = await answered(reader)
        async with connected(server) as (others_reader, other):
            other.write(waits % b"")
            refused = await others_reader.readline()
    assert permitted == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert b" 200 " in served
    assert b" 401 " in refused


def test_constants_are_the_values_of_the_settings_that_were_removed() -> None:
    removed = {each.name: each.constant for each in REMOVED if each.where == "RewardServerSettings"}
    assert removed == {
        "queue_deadline": RewardServerSettings().deadline,
        "request_deadline": None,
        "max_connections": http.MOST_CONNECTIONS,
        "max_aggregate_mb": service.LARGEST_AGGREGATE_MB,
        "header_timeout": http.HEAD_TIMEOUT_S,
        "body_timeout": request.BODY_TIMEOUT_S,
    }
