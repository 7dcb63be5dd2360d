"""Groups that wait to be posted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from judgegym.environments.training import delivery
from judgegym.environments.training.connection import TrainerConnection
from judgegym.environments.training.delivery import Outbox


class Posts(Outbox):
    """Notes each post, and lets it through when it is told to."""

    def __init__(self, refused: Collection[bytes] = ()) -> None:
        """Refuse these groups, with the list that they are in."""
        super().__init__(cast("TrainerConnection", None))
        self.refused = set(refused)
        self.posts: list[list[bytes]] = []
        self.free = asyncio.Event()

    async def post(self, groups: Sequence[bytes]) -> str | None:
        self.posts.append(list(groups))
        self.is_posting = True
        await self.free.wait()
        self.is_posting = False
        return "refused" if self.refused & set(groups) else None


@asynccontextmanager
async def running(posts: Posts) -> AsyncIterator[Outbox]:
    task = asyncio.create_task(posts.run())
    yield posts
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def put(box: Outbox, *groups: bytes) -> list[asyncio.Task[str | None]]:
    tasks = [asyncio.create_task(box.deliver(group)) for group in groups]
    await settled()
    return tasks


async def settled() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_groups_of_the_turns_of_a_row_stay_in_one_post_and_are_refused_together() -> None:
    posts = Posts(refused={b"turn 2"})
    async with running(posts) as box:
        waiting = await put(box, b"1")
        waiting += [asyncio.create_task(box.deliver(b"turn 1", b"turn 2"))]
        await settled()
        waiting += await put(box, b"3")
        assert box.waiting == 3, "those of turns count as one"
        posts.free.set()
        assert await asyncio.gather(*waiting) == [None, "refused", None]
    assert posts.posts == [[b"1"], [b"turn 1", b"turn 2", b"3"], [b"turn 1", b"turn 2"], [b"3"]]


async def test_groups_of_turns_are_not_divided_at_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery, "MAX_GROUPS", 3)
    posts = Posts()
    async with running(posts) as box:
        waiting = await put(box, b"1")
        waiting += [asyncio.create_task(box.deliver(turn, turn)) for turn in (b"2", b"3")]
        await settled()
        posts.free.set()
        await asyncio.gather(*waiting)
    assert posts.posts == [[b"1"], [b"2", b"2"], [b"3", b"3"]]


@pytest.mark.parametrize(
    ("limit", "value", "expected"),
    [("MAX_GROUPS", 2, [[b"22", b"33"], [b"44"]]), ("MAX_BYTES", 5, [[b"22", b"33"], [b"44"]])],
)
async def test_list_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, expected: list[Any]
) -> None:
    monkeypatch.setattr(delivery, limit, value)
    posts = Posts()
    async with running(posts) as box:
        waiting = await put(box, b"a group larger than the limit")
        waiting += await put(box, b"22", b"33", b"44")
        posts.free.set()
        await asyncio.gather(*waiting)
    assert posts.posts == [[b"a group larger than the limit"], *expected]
