"""Two runs of one configuration are the same, however much of them runs at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.arena import Arena, answering
from tests.scripted import Json, Reply


@pytest.mark.slow
def test_rows_that_finish_in_another_order_stand_in_the_same_order(arena: Arena) -> None:
    """The policy answers the last row first, and each row only after the one behind it."""
    turns: dict[int, asyncio.Event] = {}

    async def backwards(request: Json, number: int) -> str:
        row = int(answering(request, number).rpartition("-")[2])
        if row < 5:
            await turns.setdefault(row + 1, asyncio.Event()).wait()
        turns.setdefault(row, asyncio.Event()).set()
        return answering(request, number)

    forwards = arena.evaluate(run="forwards").files
    reversed_ = arena.evaluate(policy=backwards, run="backwards").files
    assert [sample["uid"] for sample in reversed_.samples] == [f"row-{number}" for number in range(6)]
    assert reversed_.without_run() == forwards.without_run()


def test_both_games_of_a_row_and_all_rows_run_at_once(arena: Arena) -> None:
    """Each judge request waits for all the others: anything that is awaited in turn would never end."""
    arrived = asyncio.Event()

    async def script(request: Json, number: int) -> str:
        if number == 12:
            arrived.set()
        await arrived.wait()
        return "[[A=B]]"

    run = arena.evaluate(judge_script=script)
    assert run.code == 0, run.said
    assert (run.judge.peak, len(run.judge.requests)) == (12, 12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "side"), [("--env.judge_max_concurrency=2", "judge"), ("--openai.num_requests_for_eval=2", "policy")]
)
def test_no_endpoint_gets_more_at_once_than_its_limit(arena: Arena, flag: str, side: str) -> None:
    slow = Reply("A verdict, or an answer: [[A=B]]", delay_s=0.02)  # long enough to overlap with whatever may run
    run = arena.evaluate(flag, judge_script=slow, policy=slow)
    assert run.code == 0, run.said
    assert getattr(run, side).peak == 2
