"""A judge that is away while groups are in progress; `tests/faults/test_away.py` has both endpoints and all verbs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.arena import Arena
from tests.scripted import Json, Reply, Script
from tests.serving import Served, judging, serve
from tests.trainer import training


def held(event: asyncio.Event, script: Callable[[Json, int], Reply | str]) -> Script:
    """A script that answers its first request, and no other until the event."""

    async def wait(request: Json, number: int) -> Reply | str:
        if number > 1:
            await event.wait()
        return script(request, number)

    return wait


async def is_known_and_busy(served: Served) -> None:
    """Wait until the judge's first response has been read, and its next request has arrived."""
    while not served.env.clients.finish_reasons["judge"]:  # noqa: ASYNC110  # a state without an event
        await asyncio.sleep(0.01)
    await served.judge.arrived(2)


@pytest.mark.slow
async def test_group_that_failed_with_an_endpoint_that_is_away_is_the_last_until_it_is_back(
    arena: Arena,
) -> None:
    """Past the deadline a group is dropped; no other is sampled for a judge that is not there."""
    gone = asyncio.Event()
    flags = (
        "--env.max_batches_offpolicy=1",
        "--env.endpoint_away_deadline=0.1",
        "--env.max_num_workers=2",
    )
    async with (
        training(16) as trainer,
        serve(arena, trainer.url, *flags, judge=held(gone, judging())) as served,
    ):
        await is_known_and_busy(served)
        async with served.judge.away():
            gone.set()
            while served.serving.metrics.total_dropped.get("judge_failed", 0) < 2:  # noqa: ASYNC110  # likewise
                await asyncio.sleep(0.01)
            sampled = len(served.policy.requests)
            await asyncio.sleep(0.3)  # longer than the pause after a failed group
            assert len(served.policy.requests) == sampled
        (batch,) = await trainer.take()
    assert len(batch) == 4
