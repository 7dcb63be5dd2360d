"""Two runs of one configuration are the same, however much of them runs at once."""

from __future__ import annotations

import asyncio

from tests.arena import Arena
from tests.scripted import Json


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
