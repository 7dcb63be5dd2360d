"""A rollout API that is slow to take groups: nothing waits for it but the groups themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from judgegym.environments.training.delivery import Outbox
from tests.arena import Arena
from tests.core.serve.test_api_away import numbers
from tests.scripted import Recorded, Reply
from tests.serving import serve
from tests.trainer import POSTS, ScriptedServer, passing_on, posted, training, until


class Slow:
    """The real API, which takes groups only when it is told to.

    Attributes:
        posts: how many groups each post had.
        free: set to let posts through.
        refuses: the policy's request whose group is refused.
    """

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.posts: list[int] = []
        self.free = asyncio.Event()
        self.refuses: int | None = None
        self._on = passing_on(url, session)

    async def __call__(self, request: Recorded, number: int) -> Reply:
        if request.path in POSTS:
            groups = posted(request)
            self.posts.append(len(groups))
            await self.free.wait()
            if self.refuses in numbers(groups):
                return Reply(status=422, body={"detail": "of no use"})
        answer = self._on(request, number)
        assert not isinstance(answer, Reply)
        return await answer


@asynccontextmanager
async def slow_api(url: str) -> AsyncIterator[tuple[Slow, ScriptedServer]]:
    """Lets all posts through at the end, also that of a test that fails."""
    async with aiohttp.ClientSession() as session:
        slow = Slow(url, session)
        async with ScriptedServer(slow) as server:
            try:
                yield slow, server
            finally:
                slow.free.set()


FLAGS = "--env.include_messages=True", "--env.max_num_workers=2"


@pytest.mark.slow
async def test_workers_go_on_while_groups_wait_and_those_that_waited_are_posted_together(
    arena: Arena,
) -> None:
    async with (
        training(16) as trainer,
        slow_api(trainer.url) as (slow, api),
        serve(arena, api.url, *FLAGS) as served,
    ):
        await served.policy.arrived(4)
        await until(
            lambda: served.judge.in_flight == 0 and len(served.judge.requests) == 4 * 8,
            "all is judged",
        )
        await asyncio.sleep(0.05)
        assert len(served.policy.requests) == 4, "two may be in progress, and as many may wait"
        assert await trainer.queued() == 0 and len(slow.posts) == 1
        slow.free.set()
        (batch,) = await trainer.take()
        assert numbers(batch) == [1, 2, 3, 4]
        assert sum(slow.posts[:2]) == 4


@pytest.mark.slow
async def test_group_that_is_refused_with_others_is_dropped_alone(arena: Arena) -> None:
    async with (
        training(8) as trainer,
        slow_api(trainer.url) as (slow, api),
        serve(arena, api.url, *FLAGS) as served,
    ):
        await until(
            lambda: served.judge.in_flight == 0 and len(served.judge.requests) == 4 * 8,
            "all is judged",
        )
        slow.refuses = 3
        slow.free.set()
        found = set[int]()
        while not {1, 2, 4} <= found:
            found |= {number for batch in await trainer.take() for number in numbers(batch)}
        assert 3 not in found
        assert served.counted("refused") == 1


async def test_run_that_is_stopped_during_a_post_waits_for_its_answer(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = asyncio.Event()
    close = Outbox.close

    async def noted(self: Outbox, patience_s: float) -> None:
        closing.set()
        await close(self, patience_s)

    monkeypatch.setattr(Outbox, "close", noted)
    async with (
        training(8) as trainer,
        slow_api(trainer.url) as (slow, api),
        serve(arena, api.url, *FLAGS) as served,
    ):
        await until(lambda: bool(slow.posts), "a group is on its way")
        served.run.cancel()
        await closing.wait()
        assert not served.run.done()
        slow.free.set()
        with pytest.raises(asyncio.CancelledError):
            await served.run
        (sent,) = slow.posts
        assert f"{sent} groups were sent" in served.serving.progress()
        assert await trainer.queued() == sent
        begun = len(served.policy.requests)
        unfinished = served.serving._sampler.state_dict()["unfinished"]
        assert isinstance(unfinished, list) and len(unfinished) == begun - sent, (
            "what was sent is not made again"
        )
