import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.core.calls import Vote, ask, collect_votes
from judgegym.judges.core.judgment import CallRun, JudgeCall
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.usage import Prices, Usage
from tests.scripted import Reply, ScriptedEndpoint, completion, in_turn

ASK = [{"role": "user", "content": "How many?"}]

Connect = Callable[..., Any]


@verdict_parser
def number_in(own: str) -> ParsedVerdict[int] | None:
    return ParsedVerdict(int(own)) if own.isdigit() else None


async def test_a_verdict(connect: Connect) -> None:
    reply = Reply(
        body=completion("7", reasoning="counted", prompt_tokens=100, completion_tokens=20)
    )
    async with ScriptedEndpoint(reply) as endpoint:
        call = await ask(connect(endpoint, prices=Prices(10.0, 50.0)), ASK, number_in, name="count")
    assert (call.name, call.text, call.value, call.reasoning) == ("count", "7", 7, "counted")
    assert (call.error, call.failed) == (None, False)
    assert (call.run.attempts, call.run.cached) == (1, False)
    assert call.run.usage == Usage(100, 20, pytest.approx(0.002))


async def test_a_call_that_failed_may_have_cost_something(connect: Connect) -> None:
    async with ScriptedEndpoint(
        Reply(body=completion("", prompt_tokens=100, completion_tokens=20))
    ) as endpoint:
        call = await ask(connect(endpoint, max_retries=1), ASK, number_in, name="count")
    assert (call.failed, call.run.usage) == (True, Usage(200, 40, None))


async def test_only_an_answer_with_a_verdict_is_kept(connect: Connect, tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    async with ScriptedEndpoint(in_turn("many", "7", "8")) as endpoint:
        client = connect(endpoint, cache=cache)
        calls = [await ask(client, ASK, number_in, name="count") for _ in range(3)]
        other_vote = await ask(client, ASK, number_in, name="count", vote=Vote(1))
    cache.close()
    assert [(call.value, call.run.cached) for call in calls] == [
        (None, False),
        (7, False),
        (7, True),
    ]
    assert (calls[2].run.attempts, calls[2].run.usage) == (0, Usage())
    assert (other_vote.value, other_vote.run.cached) == (8, False)
    assert len(endpoint.requests) == 3


async def test_votes_of_one_seed_never_share_an_answer(connect: Connect, tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    async with ScriptedEndpoint(lambda request, number: str(number)) as endpoint:
        client = connect(endpoint, cache=cache, temperature=0.0)
        votes = [Vote(0, 5), Vote(1, 5), Vote(0, 6), Vote(0, 5)]
        calls = [await ask(client, ASK, number_in, name="count", vote=vote) for vote in votes]
    cache.close()
    assert [call.value for call in calls] == [1, 2, 3, 1]
    assert len(endpoint.requests) == 3


def counted(number: int, value: int | None, *, failed: bool = False) -> JudgeCall[int]:
    return JudgeCall(f"vote {number}", "", None, value, None, CallRun(), failed)


async def collected(
    ask_one: Callable[[Vote], Any], wanted: int, at_most: int
) -> tuple[list[JudgeCall[int]], list[list[int | None]]]:
    """All calls, and the usable values whenever it was asked how many are missing."""
    seen: list[list[int | None]] = []

    def missing(usable: Sequence[JudgeCall[int]]) -> int:
        seen.append([call.value for call in usable])
        return wanted - len(usable)

    return await collect_votes(
        ask_one, missing, count=wanted, seed=10, redraws=at_most - wanted
    ), seen


@pytest.mark.parametrize(
    ("useless", "wanted", "at_most", "waves"),
    [
        (set(), 1, 3, [[0]]),
        (set(), 4, 6, [[0, 1, 2, 3]]),
        ({0}, 1, 3, [[0], [1]]),
        ({0, 1, 2}, 1, 3, [[0], [1], [2]]),
        ({0, 2}, 3, 5, [[0, 1, 2], [3, 4]]),
        ({1, 3}, 3, 5, [[0, 1, 2], [3], [4]]),
        ({0, 1}, 2, 2, [[0, 1]]),
        (set(), 5, 3, [[0, 1, 2]]),
        (set(), 0, 3, []),
    ],
)
async def test_votes_without_a_verdict_are_asked_for_again_in_waves(
    useless: set[int], wanted: int, at_most: int, waves: list[list[int]]
) -> None:
    """A wave is asked at once: all its questions before anyone is answered. Zero is an answer."""
    found: list[list[int]] = []
    answering = True

    async def ask_one(vote: Vote) -> JudgeCall[int]:
        nonlocal answering
        if answering:
            found.append([])
        answering = False
        found[-1].append(vote.number)
        assert vote.seed == (None if wanted == 1 else 10 + vote.number)
        await asyncio.sleep(0)
        answering = True
        return counted(vote.number, None if vote.number in useless else 0)

    calls, seen = await collected(ask_one, wanted, at_most)
    assert found == waves
    asked = [number for wave in waves for number in wave]
    assert calls == [counted(number, None if number in useless else 0) for number in asked]
    assert all(None not in usable for usable in seen)
