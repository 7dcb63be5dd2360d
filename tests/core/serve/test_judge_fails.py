"""Endpoints that are away or fail for a while: no group is lost, and a row that never succeeds is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.arena import Arena, uid_of
from tests.scripted import Json, Reply, Script
from tests.serving import Served, judging, sampling, serve, which
from tests.trainer import Group, training

DOWN = Reply(status=500, body={"error": {"message": "down"}})
REFUSED = Reply(status=400, body={"error": {"message": "not today"}})
Key = tuple[int, int]
"""A completion: the policy's request, and the place in the group."""


def held(event: asyncio.Event, script: Callable[[Json, int], Reply | str]) -> Script:
    """A script that answers its first request, and no other until the event."""

    async def wait(request: Json, number: int) -> Reply | str:
        if number > 1:
            await event.wait()
        return script(request, number)

    return wait


async def is_known_and_busy(served: Served, side: str) -> None:
    """Wait until the first answer of an endpoint has been read, and its next request has arrived."""
    while not served.env.clients.finish_reasons[side]:  # noqa: ASYNC110  # a state without an event
        await asyncio.sleep(0.01)
    await (served.judge if side == "judge" else served.policy).arrived(2)


def completions(group: Group) -> list[Key]:
    return [(number, index) for index, number in (which(turns[-1]["content"]) for turns in group["messages"])]


@pytest.mark.slow
async def test_a_judge_that_is_down_for_a_while(arena: Arena) -> None:
    """Its groups wait for it, nothing goes to the trainer meanwhile, and then all of it does."""
    up = asyncio.Event()

    def judge(request: Json, number: int) -> Reply | str:
        return judging()(request, number) if up.is_set() else DOWN

    patience = "--env.judge_max_retries=10000", "--env.retry_delay=0.02"
    async with (
        training(16) as trainer,
        serve(
            arena, trainer.url, *patience, "--env.max_batches_offpolicy=1", "--env.include_messages=True", judge=judge
        ) as served,
    ):
        await served.judge.arrived(60)
        assert await trainer.poll() is None
        assert await trainer.queued() == 0
        assert len(served.policy.requests) == 4
        up.set()
        (batch,) = await trainer.take()
        assert served.counted("judge_failed") == 0
    assert sorted(completions(group)[0][0] for group in batch) == [1, 2, 3, 4]
    assert all(group["scores"] == [1, -1, -1, -1] and group["overrides"] is None for group in batch)


@pytest.mark.parametrize("side", ["judge", "policy"])
async def test_endpoint_that_refuses_connections_for_a_while_costs_no_group(
    arena: Arena, side: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its calls wait for it; the log says so at once."""
    gone = asyncio.Event()
    flags = "--env.max_batches_offpolicy=1", "--env.include_messages=True"
    scripts: dict[str, Any] = {
        "judge": judging(),
        "policy": sampling(),
        side: held(gone, judging() if side == "judge" else sampling()),
    }
    async with training(16) as trainer, serve(arena, trainer.url, *flags, **scripts) as served:
        endpoint = served.judge if side == "judge" else served.policy
        await is_known_and_busy(served, side)
        async with endpoint.away():
            gone.set()
            while served.env.clients.waiting is None:  # noqa: ASYNC110  # the state that is tested
                await asyncio.sleep(0.01)
            assert served.env.clients.waiting.startswith(f"the {side} at {endpoint.base_url} refuses")
        (batch,) = await trainer.take()
        assert served.counted("judge_failed") == served.counted("policy_failed") == 0
    assert len({group["messages"][0][0]["content"] for group in batch}) == 4
    assert f"the {side} at {endpoint.base_url} refuses connections" in caplog.text


@pytest.mark.slow
async def test_group_that_failed_with_an_endpoint_that_is_away_is_the_last_until_it_is_back(arena: Arena) -> None:
    """Past the deadline a group is dropped; no other is sampled for a judge that is not there."""
    gone = asyncio.Event()
    flags = "--env.max_batches_offpolicy=1", "--env.endpoint_away_deadline=0.1", "--env.max_num_workers=2"
    async with training(16) as trainer, serve(arena, trainer.url, *flags, judge=held(gone, judging())) as served:
        await is_known_and_busy(served, "judge")
        async with served.judge.away():
            gone.set()
            while served.serving.metrics.total_dropped.get("judge_failed", 0) < 2:  # noqa: ASYNC110  # likewise
                await asyncio.sleep(0.01)
            sampled = len(served.policy.requests)
            await asyncio.sleep(0.3)  # longer than the pause after a failed group
            assert len(served.policy.requests) == sampled
        (batch,) = await trainer.take()
    assert len(batch) == 4


@pytest.mark.slow
async def test_a_policy_that_fails_for_a_while_costs_no_row(arena: Arena) -> None:
    """The request for a row is sent again."""
    failed = set()

    def policy(request: Json, number: int) -> Reply:
        if len(failed) < 3 and uid_of(request) not in failed:  # a row may be asked for again before the next one
            failed.add(uid_of(request))
            return DOWN
        return sampling()(request, number)

    flags = "--env.max_batches_offpolicy=1", "--env.include_messages=True", "--env.retry_delay=0.01"
    async with training(32) as trainer, serve(arena, trainer.url, *flags, policy=policy) as served:
        (batch,) = await trainer.take()
        assert served.counted("policy_failed") == 0
    assert len(failed) == 3
    assert len({group["messages"][0][0]["content"] for group in batch}) == 8, "each of the eight rows once"


@pytest.mark.slow
@pytest.mark.parametrize(("reply", "tries"), [(REFUSED, 1), (DOWN, 3)])
async def test_a_row_that_never_succeeds_is_given_up(arena: Arena, reply: Reply, tries: int) -> None:
    """The others go on without it; what is refused is not asked again."""

    def policy(request: Json, number: int) -> Reply:
        return reply if uid_of(request) == "row-3" else sampling()(request, number)

    retries = "--env.max_retries=2", "--env.retry_delay=0.01"
    flags = "--env.max_batches_offpolicy=1", *retries, "--env.token_source=chat"
    async with training(28) as trainer, serve(arena, trainer.url, *flags, policy=policy) as served:
        (batch,) = await trainer.take()
        asked = [uid_of(body) for body in served.policy.bodies].count("row-3")
        assert served.counted("policy_failed") == 1
    assert asked == tries
    assert len(batch) == 7
