import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.llm.http.limits import AdaptiveLimit, RateBudget


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


def queue(limit: AdaptiveLimit, *names: str, admitted: list[str]) -> list[asyncio.Task[None]]:
    """Tasks that wait for a place, those whose names begin with "urgent" urgently; they write down who got one."""

    async def wait(name: str) -> None:
        await limit.acquire(urgent=name.startswith("urgent"))
        admitted.append(name)

    return [asyncio.create_task(wait(name)) for name in names]


async def test_a_lowered_limit_admits_nobody_until_enough_have_left() -> None:
    limit, admitted = AdaptiveLimit(4), list[str]()
    times = [await limit.acquire() for _ in range(4)]
    queue(limit, "next", admitted=admitted)
    limit.note_overload(times[0])
    for left in (1, 2):
        limit.release()
        await settle()
        assert (admitted, limit.in_flight) == ([], 4 - left)
    limit.release()
    await settle()
    assert (admitted, limit.in_flight) == (["next"], 2)


@pytest.mark.parametrize("ceiling", [1, 10, 256])
async def test_successes_win_the_ceiling_back_and_no_more(ceiling: int) -> None:
    limit = AdaptiveLimit(ceiling)
    for _ in range(12):
        limit.note_overload(await limit.acquire())
        limit.release()
    seen = []
    for _ in range(30 * ceiling):
        limit.note_success()
        seen.append(limit.limit)
    assert seen == sorted(seen)
    assert seen[-1] == ceiling


@pytest.mark.parametrize(
    ("halvings", "ceiling", "limit"), [(0, 16, 16), (1, 16, 8), (3, 4, 1), (1, 1, 1)]
)
async def test_a_limit_keeps_its_share_of_a_ceiling_that_moves(
    halvings: int, ceiling: int, limit: int
) -> None:
    moved = AdaptiveLimit(8)
    for _ in range(halvings):
        moved.note_overload(await moved.acquire())
        moved.release()
    moved.rescale(ceiling)
    assert (moved.ceiling, moved.limit) == (ceiling, limit)
    for _ in range(60 * ceiling):
        moved.note_success()
    assert moved.limit == ceiling


STEPS = [
    "ask",
    "ask urgently",
    "release",
    "cancel 0",
    "cancel 1",
    "cancel 2",
    "cancel 3",
    "settle",
    "succeed",
    "overload",
]


async def test_a_window_of_successes_wins_back_five_per_cent() -> None:
    limit = AdaptiveLimit(200)
    limit.note_overload(await limit.acquire())
    for _ in range(100):
        limit.note_success()
    assert 109 <= limit.limit <= 110


@pytest.mark.parametrize(
    ("ceiling", "steps"),
    [
        (1, "ask ask ask settle cancel_1 release settle"),
        (1, "ask ask ask settle release cancel_1 settle"),
        (1, "ask ask settle release ask settle"),
        (2, "ask ask overload ask settle release settle succeed settle"),
        (1, "ask ask ask settle rescale_2 settle"),
    ],
)
def test_every_place_is_held_or_free(ceiling: int, steps: str) -> None:
    """One who leaves before or after a place is free; a late one; a success and a ceiling that give places."""
    asyncio.run(interleave(ceiling, [step.replace("_", " ") for step in steps.split()]))


@pytest.mark.slow
@given(
    st.integers(1, 3),
    st.lists(st.sampled_from([*STEPS, "rescale 1", "rescale 2", "rescale 4"]), max_size=30),
)
def test_no_interleaving_leaks_a_place_or_leaves_one_empty(ceiling: int, steps: list[str]) -> None:
    asyncio.run(interleave(ceiling, steps))


async def interleave(ceiling: int, steps: Sequence[str]) -> None:
    """Take these steps; check after each "settle" and at the end that every place is held or free."""
    limit, highest = AdaptiveLimit(ceiling), ceiling
    holding: list[float] = []
    tasks: list[asyncio.Task[None]] = []

    async def take(urgent: bool) -> None:
        holding.append(await limit.acquire(urgent=urgent))

    for step in steps:
        what, _, which = step.partition(" ")
        if what == "ask":
            tasks.append(asyncio.create_task(take(urgent=which == "urgently")))
        elif what == "release" and holding:
            holding.pop()
            limit.release()
        elif what == "succeed":
            limit.note_success()
        elif what == "overload" and holding:
            limit.note_overload(holding[-1])
        elif what == "cancel" and int(which) < len(tasks):
            tasks[int(which)].cancel()
        elif what == "rescale":
            limit.rescale(int(which))
            highest = max(highest, limit.ceiling)
        elif what == "settle":
            await settle()
            waiting = [task for task in tasks if not task.done()]
            assert limit.in_flight == len(holding) <= highest
            assert not waiting or limit.in_flight >= limit.limit
        assert 1 <= limit.limit <= limit.ceiling
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    while holding:
        holding.pop()
        limit.release()
    assert limit.in_flight == 0


async def test_a_spent_budget_makes_the_next_one_wait() -> None:
    budget = RateBudget(requests=1, tokens=None)
    await budget.spend(1)
    waiting = asyncio.create_task(budget.spend(1))
    await settle()
    assert not waiting.done()
    waiting.cancel()


async def test_a_minute_that_another_process_has_used_is_used_up() -> None:
    budget = RateBudget(60, 6000)
    assert budget.requests is not None
    assert budget.tokens is not None
    await budget.use_up()
    assert not budget.requests.has_capacity(5)
    assert not budget.tokens.has_capacity(500)
