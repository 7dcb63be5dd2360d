"""The client with a judgment cache: no answer is paid for twice, and none is shared that must be independent."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.cache import CacheRow, JudgmentCache, request_key, request_shape
from judgegym.llm.errors import EndpointError
from judgegym.llm.usage import Usage
from judgegym.llm.wire import Choice, Token
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


async def test_another_client_and_another_day_find_it_too(connect: Connect, tmp_path: Path) -> None:
    async with ScriptedEndpoint() as endpoint:
        for expected in (False, True):
            cache = JudgmentCache(tmp_path / "cache.sqlite")
            assert (await connect(endpoint, cache=cache).chat(ASK)).cached is expected
            cache.close()


async def test_replicas_and_keys_do_not_matter_to_a_named_endpoint(connect: Connect, cache: JudgmentCache) -> None:
    async with ScriptedEndpoint() as first, ScriptedEndpoint() as second:
        await connect(first, cache=cache, identity="judge", key="a").chat(ASK)
        answer = await connect(second, cache=cache, identity="judge", key="b", max_retries=9, timeout_s=9.0).chat(ASK)
        assert answer.cached
        assert not (await connect(second, cache=cache, identity="other").chat(ASK)).cached


@pytest.mark.parametrize(
    "different",
    [
        {"vote": 1},
        {"seed": 0},
        {"seed": 7},
        {"temperature": 0.3},
        {"temperature": None},
        {"max_tokens": 99},
        {"extra": {"top_p": 0.5}},
        {"messages": [{"role": "user", "content": "hi!"}]},
        {"messages": [*ASK, {"role": "assistant", "content": "x"}, *ASK]},
    ],
)
async def test_a_call_that_differs_is_asked(connect: Connect, cache: JudgmentCache, different: dict[str, Any]) -> None:
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
        completion("no", finish_reason="content_filter"),
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


async def test_a_failure_is_not_kept(connect: Connect, cache: JudgmentCache) -> None:
    async with ScriptedEndpoint(in_turn(Reply(status=400), "fine")) as endpoint:
        client = connect(endpoint, cache=cache)
        with pytest.raises(EndpointError):
            await client.chat(ASK)
        answer = await client.chat(ASK)
    assert (answer.first.text, answer.cached) == ("fine", False)


async def test_the_judge_says_what_is_worth_keeping(connect: Connect, cache: JudgmentCache) -> None:
    async with ScriptedEndpoint(in_turn("no verdict", "[[A]]")) as endpoint:
        client = connect(endpoint, cache=cache)
        answers = [await client.chat(ASK, keep=lambda choice: "[[" in choice.text) for _ in range(3)]
    assert [(answer.first.text, answer.cached) for answer in answers] == [
        ("no verdict", False),
        ("[[A]]", False),
        ("[[A]]", True),
    ]


async def test_what_is_not_worth_keeping_is_not_taken_from_the_cache_either(
    connect: Connect, cache: JudgmentCache
) -> None:
    """The cache may hold it of an earlier version, or of a judge with another parser."""
    async with ScriptedEndpoint(in_turn("no verdict", "[[A]]")) as endpoint:
        client = connect(endpoint, cache=cache)
        await client.chat(ASK)
        answers = [await client.chat(ASK, keep=lambda choice: "[[" in choice.text) for _ in range(2)]
        assert (await client.chat(ASK)).first.text == "[[A]]", "it has been replaced"
    assert [(answer.first.text, answer.cached) for answer in answers] == [("[[A]]", False), ("[[A]]", True)]


UNUSABLE = {
    "empty": b'{"message":{"content":""},"finish_reason":"stop"}',
    "reasoning": b'{"message":{"content":"","reasoning":"since"},"finish_reason":"stop"}',
    "error": b'{"message":{"content":"[[A]]"},"finish_reason":"error"}',
    "abort": b'{"message":{"content":"[[A]]"},"finish_reason":"abort"}',
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
    assert [(answer.first.text, answer.cached) for answer in answers] == [("whole", False), ("whole", True)]
    assert len(endpoint.requests) == 2


class SlowToRead(JudgmentCache):
    """A cache whose second reading takes until it is told to end."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.readings = 0
        self.end = asyncio.Event()

    async def get(self, key: str) -> CacheRow:
        self.readings += 1
        second = self.readings == 2
        kept = await super().get(key)
        if second:
            await self.end.wait()
        return kept


async def test_a_greedy_call_that_ends_while_the_cache_is_read_is_not_paid_for_again(
    connect: Connect, tmp_path: Path
) -> None:
    cache = SlowToRead(tmp_path / "cache.sqlite")
    async with ScriptedEndpoint() as endpoint:
        client = connect(endpoint, cache=cache, temperature=0.0)
        first, second = (asyncio.create_task(client.chat(ASK)) for _ in range(2))
        await first
        cache.end.set()
        assert (await second).cached
    assert len(endpoint.requests) == 1
    cache.close()


async def test_several_completions_are_never_answered_by_the_cache(connect: Connect, cache: JudgmentCache) -> None:
    async with ScriptedEndpoint(Reply(body=completion("a", "b"))) as endpoint:
        client = connect(endpoint, cache=cache)
        await client.chat(ASK, n=2)
        assert not (await client.chat(ASK, n=2)).cached
    assert len(endpoint.requests) == 2


async def test_answers_to_a_seed_that_was_refused_are_kept(connect: Connect, cache: JudgmentCache) -> None:
    refused = Reply(status=400, body={"error": {"message": "unknown field: seed"}})
    async with ScriptedEndpoint(lambda request, number: refused if "seed" in request else f"text {number}") as endpoint:
        first = [await connect(endpoint, cache=cache).chat(ASK, vote=vote, seed=vote) for vote in (0, 1)]
        again = [await connect(endpoint, cache=cache).chat(ASK, vote=vote, seed=vote) for vote in (0, 1)]
    assert [answer.choices for answer in again] == [answer.choices for answer in first]
    assert [answer.cached for answer in again] == [True, True]
    assert first[0].choices != first[1].choices
    assert len(endpoint.requests) == 3, "the second client knows what the first one was refused"


async def test_tokens_with_their_alternatives_are_kept(connect: Connect, cache: JudgmentCache) -> None:
    body = completion("Of 4")
    top = [{"token": " 4", "logprob": -0.25}, {"token": "é5", "logprob": -1.5}, {"token": "\ud800", "logprob": -9.0}]
    content = [
        {"token": "Of", "logprob": 0, "top_logprobs": top},
        {"token": " 4", "logprob": -0.25, "top_logprobs": top},
    ]
    body["choices"][0]["logprobs"] = {"content": content}
    asked = {"logprobs": True, "top_logprobs": 3}
    async with ScriptedEndpoint(Reply(body=body)) as endpoint:
        client = connect(endpoint, cache=cache)
        first, again = await client.chat(ASK, extra=asked), await client.chat(ASK, extra=asked)
        plain = await client.chat(ASK)
    assert first.first.tokens == (Token("Of"), Token(" 4", ((" 4", -0.25), ("é5", -1.5), ("�", -9.0))))
    assert again.first.tokens == first.first.tokens
    assert [answer.cached for answer in (first, again, plain)] == [False, True, False]
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


async def test_answer_that_was_stored_first_and_has_no_verdict_for_this_caller_is_not_taken(
    connect: Connect, tmp_path: Path
) -> None:
    cache, other = (JudgmentCache(tmp_path / "cache.sqlite") for _ in range(2))

    async def script(request: Any, number: int) -> str:
        await other.put(sole_key(request), Choice("theirs"), instead_of=CacheRow())
        return "ours"

    def sole_key(request: Any) -> str:
        shown = {name: value for name, value in request.items() if name not in ("model", "messages")}
        return request_key(request_shape(f"judge {request['model']}", request["messages"], shown, 0))

    async with ScriptedEndpoint(script) as endpoint:
        answer = await connect(endpoint, cache=cache, identity="judge").chat(ASK, keep=lambda c: c.text == "ours")
    assert answer.first.text == "ours"
    for each in (cache, other):
        each.close()
