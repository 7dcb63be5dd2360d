"""What a group shares is written once and read by all others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from judgegym.llm.errors import EndpointError
from judgegym.llm.providers.prefixes import SharedPrefixes
from judgegym.llm.usage import Prices
from tests.messages import MessagesEndpoint
from tests.scripted import Json, Reply, ScriptedEndpoint

LONG = "\n".join(f"Line {number} of what the row shows to its judge." for number in range(200))
ALSO = "\n".join(f"Rule {number} of the instructions that all rows have." for number in range(200))


def asked(own: str, shared: str = LONG, system: str = "Judge.") -> list[Json]:
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": f"{shared}\nThe answer: {own}"},
    ]


@pytest.fixture
def native(connect: Callable[..., Any]) -> Callable[..., Any]:
    return lambda endpoint, **settings: connect(endpoint, api="anthropic", **settings)


async def test_group_of_8_writes_the_prefix_once_and_reads_it_seven_times(
    native: Callable[..., Any],
) -> None:
    first, release = asyncio.Event(), asyncio.Event()

    async def script(request: Json, number: int) -> str:
        if number == 1:
            first.set()
            await release.wait()
        return "fine"

    async with ScriptedEndpoint(script) as behind, MessagesEndpoint(behind.base_url) as endpoint:
        client = native(endpoint, prices=Prices(10.0, 0.0, 1.0, 12.5))
        calls = asyncio.gather(*(client.chat(asked(f"It is {number}.")) for number in range(8)))
        await first.wait()
        await asyncio.sleep(0.05)
        assert len(behind.requests) == 1, "the others wait for the first response"
        release.set()
        answers = await calls
    written = [usage["cache_creation_input_tokens"] for usage in endpoint.usages]
    read = [usage["cache_read_input_tokens"] for usage in endpoint.usages]
    assert sorted(map(bool, written)) == [False] * 7 + [True]
    assert [bool(count) for count in read] == [not count for count in written] and set(read) == {
        0,
        max(written),
    }
    assert client.meter.usage.cache_write_tokens == sum(written)
    assert client.meter.usage.cached_prompt_tokens == sum(read)
    fresh = client.meter.usage.prompt_tokens - sum(written) - sum(read)
    assert client.meter.usage.cost == pytest.approx(
        (10 * fresh + 12.5 * sum(written) + sum(read)) / 1e6
    )
    assert all(answer.first.text == "fine" for answer in answers)
    assert client.meter.usage.cost < 10 * client.meter.usage.prompt_tokens / 1e6 / 3


async def test_equal_prompts_are_shared_as_a_whole_and_later_ones_read(
    native: Callable[..., Any],
) -> None:
    async with ScriptedEndpoint("fine") as behind, MessagesEndpoint(behind.base_url) as endpoint:
        client = native(endpoint)
        await client.chat(asked("same"), n=3, temperature=0.7)
        await client.chat(asked("same"), vote=4, temperature=0.7)
    fresh = [usage["input_tokens"] for usage in endpoint.usages]
    assert [bool(usage["cache_read_input_tokens"]) for usage in endpoint.usages] == [
        False,
        True,
        True,
        True,
    ]
    assert max(fresh) < 10


async def test_short_and_lonely_prompts_mark_nothing(native: Callable[..., Any]) -> None:
    async with ScriptedEndpoint("fine") as behind, MessagesEndpoint(behind.base_url) as endpoint:
        client = native(endpoint)
        await asyncio.gather(*(client.chat(asked(str(number), "short")) for number in range(3)))
        await asyncio.gather(client.chat(asked("a")), client.chat(asked("b", LONG[::-1])))
    assert len(endpoint.bodies) == 5
    assert not any("cache_control" in str(body) for body in endpoint.bodies)


async def test_nested_beginnings_are_marked_each() -> None:
    shared = SharedPrefixes(512)
    texts = [f"{ALSO}\n{LONG[row:]}\nanswer {number}" for row in range(3) for number in range(4)]
    marks: list[tuple[int, ...]] = []

    async def one(text: str) -> None:
        async with shared.turn(text) as found:
            marks.append(found)

    await asyncio.gather(*map(one, texts))
    assert {len(found) for found in marks} == {2} and len({found[0] for found in marks}) == 1
    assert len({found[1] for found in marks}) == 3


async def test_others_do_not_wait_after_a_failure(native: Callable[..., Any]) -> None:
    async with (
        ScriptedEndpoint(Reply(status=400)) as behind,
        MessagesEndpoint(behind.base_url) as endpoint,
    ):
        client = native(endpoint)
        calls = (client.chat(asked(str(number))) for number in range(3))
        failed = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, EndpointError) for each in failed) and len(endpoint.bodies) == 3
