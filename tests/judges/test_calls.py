from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges.cache import JudgmentCache
from judges.calls import ask
from judges.usage import Prices, Usage
from tests.scripted import Reply, ScriptedEndpoint, completion, in_turn

ASK = [{"role": "user", "content": "How many?"}]

Connect = Callable[..., Any]


def number_in(text: str) -> int | None:
    return int(text) if text.isdigit() else None


async def test_a_verdict(connect: Connect) -> None:
    reply = Reply(body=completion("7", reasoning="counted", prompt_tokens=100, completion_tokens=20))
    async with ScriptedEndpoint(reply) as endpoint:
        call = await ask(connect(endpoint, prices=Prices(10.0, 50.0)), ASK, number_in, purpose="count")
    assert (call.purpose, call.text, call.value, call.reasoning) == ("count", "7", 7, "counted")
    assert (call.error, call.failed) == (None, False)
    assert (call.run.attempts, call.run.cached) == (1, False)
    assert call.run.usage == Usage(100, 20, pytest.approx(0.002))


async def test_zero_is_a_verdict(connect: Connect) -> None:
    async with ScriptedEndpoint("0") as endpoint:
        call = await ask(connect(endpoint), ASK, number_in, purpose="count")
    assert (call.value, call.error) == (0, None)


async def test_an_answer_without_a_verdict_is_not_a_failed_call(connect: Connect) -> None:
    async with ScriptedEndpoint("many") as endpoint:
        call = await ask(connect(endpoint), ASK, number_in, purpose="count")
    assert (call.text, call.value, call.failed) == ("many", None, False)
    assert call.error is not None


async def test_a_call_that_never_succeeded_is_a_value(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply(status=500, body={"error": {"message": "out of order"}})) as endpoint:
        call = await ask(connect(endpoint, max_retries=2), ASK, number_in, purpose="count")
    assert (call.text, call.value, call.failed, call.run.attempts) == ("", None, True, 3)
    assert call.error is not None and "out of order" in call.error


async def test_a_call_that_failed_may_have_cost_something(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply(body=completion("", prompt_tokens=100, completion_tokens=20))) as endpoint:
        call = await ask(connect(endpoint, max_retries=1), ASK, number_in, purpose="count")
    assert (call.failed, call.run.usage) == (True, Usage(200, 40))


async def test_only_an_answer_with_a_verdict_is_kept(connect: Connect, tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    async with ScriptedEndpoint(in_turn("many", "7", "8")) as endpoint:
        client = connect(endpoint, cache=cache)
        calls = [await ask(client, ASK, number_in, purpose="count") for _ in range(3)]
        other_vote = await ask(client, ASK, number_in, purpose="count", vote=1)
    cache.close()
    assert [(call.value, call.run.cached) for call in calls] == [(None, False), (7, False), (7, True)]
    assert (calls[2].run.attempts, calls[2].run.usage) == (0, Usage())
    assert (other_vote.value, other_vote.run.cached) == (8, False)
    assert len(endpoint.requests) == 3
