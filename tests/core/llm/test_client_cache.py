"""The client with a judgment cache: no answer is paid for twice, and none is shared that must be independent."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.cache import JudgmentCache
from judgegym.llm.usage import Usage
from tests.scripted import Meeting, Reply, ScriptedEndpoint, completion, in_turn

ASK = [{"role": "user", "content": "hi"}]

Connect = Callable[..., Any]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[JudgmentCache]:
    opened = JudgmentCache(tmp_path / "cache.sqlite")
    yield opened
    opened.close()


@pytest.mark.parametrize("temperature", [0.0, 0.7, None])
async def test_a_repeat_costs_neither_request_nor_usage(
    connect: Connect, cache: JudgmentCache, temperature: float | None
) -> None:
    body = completion("yes", reasoning_content="since")
    async with ScriptedEndpoint(Reply(body=body)) as endpoint:
        client = connect(endpoint, cache=cache, temperature=temperature)
        first, second = await client.chat(ASK), await client.chat(ASK)
    assert len(endpoint.requests) == 1
    assert (first.cached, second.cached) == (False, True)
    assert second.choices == first.choices
    assert (second.usage, second.attempts) == (Usage(), 0)
    assert client.meter.usage == first.usage


async def test_replicas_and_keys_do_not_matter_to_a_named_endpoint(
    connect: Connect, cache: JudgmentCache
) -> None:
    async with ScriptedEndpoint() as first, ScriptedEndpoint() as second:
        await connect(first, cache=cache, identity="judge", key="a").chat(ASK)
        answer = await connect(
            second, cache=cache, identity="judge", key="b", max_retries=9, timeout_s=9.0
        ).chat(ASK)
        assert answer.cached
        assert not (await connect(second, cache=cache, identity="other").chat(ASK)).cached


@pytest.mark.parametrize(
    "different",
    [
        {"vote": 1},
        {"seed": 0},
        {"temperature": 0.3},
        {"temperature": None},
        {"max_tokens": 99},
        {"extra": {"top_p": 0.5}},
        {"messages": [{"role": "user", "content": "hi!"}]},
    ],
)
async def test_a_call_that_differs_is_asked(
    connect: Connect, cache: JudgmentCache, different: dict[str, Any]
) -> None:
    async with ScriptedEndpoint(lambda request, number: f"text {number}") as endpoint:
        client = connect(endpoint, cache=cache, temperature=0.2)
        calls: list[dict[str, Any]] = [{"messages": ASK}, {"messages": ASK, **different}] * 2
        answers = [await client.chat(**call) for call in calls]
    assert [answer.first.text for answer in answers] == ["text 1", "text 2"] * 2
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    "body",
    [
        completion("ye", finish_reason="length"),
        completion("", refusal="I won't."),
    ],
)
async def test_what_is_no_whole_answer_is_not_kept(
    connect: Connect, cache: JudgmentCache, body: dict[str, Any]
) -> None:
    async with ScriptedEndpoint(in_turn(Reply(body=body), "fine")) as endpoint:
        client = connect(endpoint, cache=cache)
        await client.chat(ASK)
        assert (await client.chat(ASK)).first.text == "fine"
        assert (await client.chat(ASK)).cached


async def test_what_is_not_worth_keeping_is_not_taken_from_the_cache_either(
    connect: Connect, cache: JudgmentCache
) -> None:
    """The cache may hold it of an earlier version, or of a judge with another parser."""
    async with ScriptedEndpoint(in_turn("no verdict", "[[A]]")) as endpoint:
        client = connect(endpoint, cache=cache)
        await client.chat(ASK)
        answers = [
            await client.chat(ASK, keep=lambda choice: "[[" in choice.text) for _ in range(2)
        ]
        assert (await client.chat(ASK)).first.text == "[[A]]", "it has been replaced"
    assert [(answer.first.text, answer.cached) for answer in answers] == [
        ("[[A]]", False),
        ("[[A]]", True),
    ]


UNUSABLE = {
    "empty": b'{"message":{"content":""},"finish_reason":"stop"}',
    "error": b'{"message":{"content":"[[A]]"},"finish_reason":"error"}',
    "length": b'{"message":{"content":"[[A]]"},"finish_reason":"length"}',
    "refusal": b'{"message":{"content":"[[A]]","refusal":"no"},"finish_reason":"stop"}',
    "torn": b'{"message":{"content":"[[A',
    "blob": b"\x00\x01",
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_entry_that_cannot_be_used_is_asked_for_again_and_replaced(
    connect: Connect, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "cache.sqlite"
    cache = JudgmentCache(path)
    async with ScriptedEndpoint("whole") as endpoint:
        client = connect(endpoint, cache=cache)
        await client.chat(ASK)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("UPDATE answers SET answer = ?", (UNUSABLE[name],))
        answers = [await client.chat(ASK) for _ in range(2)]
    cache.close()
    assert [(answer.first.text, answer.cached) for answer in answers] == [
        ("whole", False),
        ("whole", True),
    ]
    assert len(endpoint.requests) == 2


async def test_two_processes_that_ask_the_same_at_once_read_the_answer_that_was_stored_first(
    connect: Connect, tmp_path: Path
) -> None:
    meeting = Meeting(2)

    async def script(request: Any, number: int) -> str:
        await meeting.wait()
        return f"number {number}"

    caches = [JudgmentCache(tmp_path / "cache.sqlite") for _ in range(2)]
    async with ScriptedEndpoint(script) as endpoint:
        clients = [connect(endpoint, cache=cache) for cache in caches]
        one, other = await asyncio.gather(*(client.chat(ASK) for client in clients))
        later = await clients[0].chat(ASK)
        assert len(endpoint.requests) == 2
    assert one.choices == other.choices == later.choices
    assert (one.cached, other.cached, later.cached) == (False, False, True), "both were paid for"
    for cache in caches:
        cache.close()
