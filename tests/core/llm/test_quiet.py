"""When a run is quiet: every row in progress waits for what others must bring, and no request is on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from judgegym.llm.at_once import (
    ACTIVITY,
    Activity,
    SingleFlight,
    blocked,
    request_in_flight,
    row_in_progress,
)
from judgegym.llm.cost.budget import Budget


async def row(work: Coroutine[Any, Any, object]) -> None:
    with row_in_progress(object()):
        await work


async def held(event: asyncio.Event, *, is_live: bool = False) -> int:
    with request_in_flight() if is_live else blocked():
        await event.wait()
    return 1


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_row_that_waits_for_another_call_or_for_the_budget_is_blocked() -> None:
    activity, come = Activity(), asyncio.Event()
    token = ACTIVITY.set(activity)
    flights: SingleFlight[int] = SingleFlight()
    budget = Budget(calls=1)
    await budget.reserve()
    waits = [
        flights.run("one", lambda: held(come)),
        flights.run("one", lambda: held(come)),
        budget.reserve(),
    ]
    tasks = [asyncio.create_task(row(each)) for each in waits]
    await settled()
    assert len(activity.rows) == 3 and activity.is_quiet

    live = asyncio.create_task(row(held(come, is_live=True)))
    await settled()
    assert not activity.is_quiet
    both = asyncio.create_task(row(asyncio.wait({asyncio.create_task(held(come)), live})))
    await settled()
    assert not activity.is_quiet  # a row of which one call is blocked, while another is on its way

    come.set()
    budget.give_back()
    await asyncio.gather(*tasks, live, both)
    assert (
        activity.is_quiet and not activity.rows and not activity.blocked and not activity.requests
    )
    ACTIVITY.reset(token)
