"""Cohorts of several workers, over real sockets: one owner for each key, whatever happens to it."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from judgegym.judges.scorers.items import Item, ResponseScore
from judgegym.server.cohorts.key import cohort_key
from judgegym.server.cohorts.links import SocketOwners, socket_path
from judgegym.server.cohorts.messages import Member
from judgegym.server.cohorts.shared import OwnerAwayError, SharedCohorts, owner_of
from judgegym.server.cohorts.sockets import kept_for_others
from judgegym.server.errors import OverloadError
from tests.trainer import until

DEADLINE_S = 30.0
ITEM = Item("Why?", ("Because \ud83d.",), group="g", member="1")
SCORE = ResponseScore(0.5, "ok", explanation="\udfff")
OWNER = owner_of(cohort_key("m", ITEM), 2)


class Kept:
    """Cohorts of a worker, whose members get what a function says; counts who came and who left before it was said."""

    def __init__(self, answer: Callable[[], Awaitable[ResponseScore]]) -> None:
        self._answer = answer
        self.joined: list[tuple[str, Item, float]] = []
        self.left = 0

    async def join(self, mount: str, item: Item, spent_s: float) -> ResponseScore:
        self.joined.append((mount, item, spent_s))
        try:
            return await self._answer()
        except asyncio.CancelledError:
            self.left += 1
            raise


async def scored() -> ResponseScore:
    return SCORE


async def never() -> ResponseScore:
    await asyncio.Event().wait()
    raise AssertionError


def refusing(error: Exception) -> Kept:
    async def refused() -> ResponseScore:
        raise error

    return Kept(refused)


@asynccontextmanager
async def asking(
    place: Path, own: Kept | None = None, *, deadline_s: float = DEADLINE_S, stopping: bool = False
) -> AsyncIterator[SharedCohorts]:
    """The cohorts as the other worker sees them, which does not own the key of `ITEM`."""
    async with SocketOwners(place) as owners:
        mine = (1 - OWNER, own or Kept(never))
        yield SharedCohorts(owners, 2, deadline_s=deadline_s, own=mine, is_stopping=lambda: stopping)


def owning(place: Path, kept: Kept, drain_timeout_s: float = 0.0) -> AbstractAsyncContextManager[None]:
    """The worker that owns the key of `ITEM`; at the end of the context, its connections break as if it were killed."""
    return kept_for_others(kept, socket_path(place, OWNER), drain_timeout_s=drain_timeout_s)


def test_keys_are_spread_over_all_workers_and_stay_where_they_are() -> None:
    keys = [hashlib.sha256(bytes([number % 256, number // 256])).hexdigest() for number in range(4096)]
    for workers in (1, 2, 3, 4, 7):
        counted = Counter(owner_of(key, workers) for key in keys)
        assert set(counted) == set(range(workers))
        assert max(counted.values()) < 1.15 * len(keys) / workers
    assert [owner_of(key, 4) for key in keys[:8]] == [2, 0, 3, 0, 2, 2, 1, 0]


async def test_member_reaches_the_owner_of_its_key_as_it_is(tmp_path: Path) -> None:
    kept, own = Kept(scored), Kept(never)
    async with (
        owning(tmp_path, kept),
        asking(tmp_path, own) as shared,
    ):
        assert repr(await shared.join("m", ITEM, 2.0)) == repr(SCORE)
    ((mount, item, spent_s),) = kept.joined
    assert (mount, repr(item), own.joined) == ("m", repr(ITEM), [])
    assert 2.0 <= spent_s < DEADLINE_S


async def test_large_members_and_many_at_once_reach_the_owner(tmp_path: Path) -> None:
    kept = Kept(scored)
    large = replace(ITEM, responses=("\ud83dé" * 1_000_000,))
    async with owning(tmp_path, kept), asking(tmp_path) as shared:
        results = await asyncio.gather(*(shared.join("m", item, 0.0) for item in (large, *[ITEM] * 500, large)))
    assert results == [SCORE] * 502
    assert [len(item.response) for _, item, _ in kept.joined].count(2_000_000) == 2


async def test_own_key_stays_in_the_process(tmp_path: Path) -> None:
    own = Kept(scored)
    async with SocketOwners(tmp_path / "absent") as owners:
        shared = SharedCohorts(owners, 2, deadline_s=DEADLINE_S, own=(OWNER, own))
        assert await shared.join("m", ITEM, 2.0) == SCORE
    assert own.joined == [("m", ITEM, 2.0)]


async def test_caller_that_leaves_has_left_the_owner_too(tmp_path: Path) -> None:
    kept = Kept(never)
    async with (
        owning(tmp_path, kept),
        asking(tmp_path) as shared,
    ):
        waiting = asyncio.create_task(shared.join("m", ITEM, 0.0))
        await until(lambda: len(kept.joined) == 1, "the member is there")
        waiting.cancel()
        await until(lambda: kept.left == 1, "the member's caller has left")


async def test_callers_of_a_worker_that_ends_have_left_the_owner_too(tmp_path: Path) -> None:
    kept, member = Kept(never), Member("m", ITEM, 0.0)
    async with owning(tmp_path, kept):
        async with SocketOwners(tmp_path) as owners:
            waiting = [asyncio.create_task(owners.ask(OWNER, member)) for _ in range(3)]
            await until(lambda: len(kept.joined) == 3, "the members are there")
        told = await asyncio.gather(*waiting, return_exceptions=True)
        await until(lambda: kept.left == 3, "the members' callers have left")
    assert [type(error) for error in told] == [OwnerAwayError] * 3


async def test_owner_that_does_not_answer_in_time_is_a_flagged_failure(tmp_path: Path) -> None:
    kept = Kept(never)
    async with (
        owning(tmp_path, kept),
        asking(tmp_path, deadline_s=12.0) as shared,
    ):
        result = await shared.join("m", ITEM, 10.0)
        await until(lambda: kept.left == 1, "the owner is told")
    assert (result.score, result.status) == (None, "judge_failed")
    assert "deadline" in result.explanation


async def test_refusal_of_the_owner_is_one_here(tmp_path: Path) -> None:
    async with owning(tmp_path, refusing(OverloadError())), asking(tmp_path) as shared:
        with pytest.raises(OverloadError):
            await shared.join("m", ITEM, 0.0)


async def test_fault_of_the_owner_is_one_here(tmp_path: Path) -> None:
    async with (
        owning(tmp_path, refusing(ValueError("?"))),
        asking(tmp_path) as shared,
    ):
        with pytest.raises(RuntimeError, match="log"):
            await shared.join("m", ITEM, 0.0)


async def test_owner_that_has_not_started_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, was_away = Kept(scored), asyncio.Event()
    ask = SocketOwners.ask

    async def asked(owners: SocketOwners, owner: int, member: Member) -> ResponseScore:
        try:
            return await ask(owners, owner, member)
        except OwnerAwayError:
            was_away.set()
            raise

    monkeypatch.setattr(SocketOwners, "ask", asked)
    async with asking(tmp_path) as shared:
        waiting = asyncio.create_task(shared.join("m", ITEM, 0.0))
        await was_away.wait()
        async with owning(tmp_path, kept):
            assert await waiting == SCORE


async def test_owner_that_never_starts_is_a_flagged_failure(tmp_path: Path) -> None:
    async with asking(tmp_path, deadline_s=0.2) as shared:
        result = await shared.join("m", ITEM, 0.0)
    assert (result.score, result.status) == (None, "judge_failed")


async def test_owner_that_never_starts_is_not_waited_for_while_stopping(tmp_path: Path) -> None:
    async with asking(tmp_path, stopping=True) as shared:
        result = await shared.join("m", ITEM, 0.0)
    assert (result.score, result.status) == (None, "judge_failed")
    assert "stops" in result.explanation


async def test_members_of_an_owner_that_dies_wait_at_its_successor(tmp_path: Path) -> None:
    """The time that they have waited counts."""
    first, second = Kept(never), Kept(scored)
    async with asking(tmp_path) as shared:
        async with owning(tmp_path, first):
            waiting = [asyncio.create_task(shared.join("m", ITEM, 1.0)) for _ in range(3)]
            await until(lambda: len(first.joined) == 3, "the members are there")
        assert not any(task.done() for task in waiting)
        async with owning(tmp_path, second):
            assert await asyncio.gather(*waiting) == [SCORE] * 3
    assert all(spent_s > 1.0 for _, _, spent_s in second.joined)


async def test_member_whose_owners_die_again_and_again_is_given_up(tmp_path: Path) -> None:
    tries = 0
    async with asking(tmp_path) as shared:
        waiting = asyncio.create_task(shared.join("m", ITEM, 0.0))
        while not waiting.done():
            kept = Kept(never)
            async with owning(tmp_path, kept):
                await until(lambda: bool(kept.joined) or waiting.done(), "the member is there, or given up")  # noqa: B023
            tries += bool(kept.joined)
            await asyncio.sleep(0)
    assert (waiting.result().score, waiting.result().status) == (None, "judge_failed")
    assert "died" in waiting.result().explanation
    assert tries == 3


async def test_those_that_wait_get_their_results_when_the_owner_ends(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def at_the_gate() -> ResponseScore:
        await gate.wait()
        return SCORE

    kept = Kept(at_the_gate)
    async with asking(tmp_path) as shared:
        async with owning(tmp_path, kept, drain_timeout_s=DEADLINE_S):
            waiting = asyncio.create_task(shared.join("m", ITEM, 0.0))
            await until(lambda: len(kept.joined) == 1, "the member is there")
            asyncio.get_running_loop().call_later(0.05, gate.set)
        assert await waiting == SCORE
