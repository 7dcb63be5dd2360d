"""The real rollout API behind a proxy that fails at random: nothing is lost, nobody is registered twice."""

from __future__ import annotations

import asyncio
from functools import partial

import aiohttp
import pytest

from tests.arena import Arena
from tests.core.serve.test_api_away import numbers
from tests.proxy import MisbehavingProxy
from tests.scripted import Recorded, Reply
from tests.serving import Served, serve
from tests.trainer import POSTS, RunApi, ScriptedServer, Trainer, passing_on, training, until

FLAGS = "--env.max_batches_offpolicy=2", "--env.include_messages=True"
BROKEN = [
    Reply(status=500, body="Internal Server Error"),
    Reply(status=502, body="<html>"),
    Reply(drop=True),
]


async def share_of(trainer: Trainer, number: int) -> float:
    weight: float = (await trainer.call("GET", "/status-env", {"env_id": number}))["env_weight"]
    return weight


async def all_until_now(trainer: Trainer, served: Served) -> list[int]:
    """The groups of all batches, once all that the policy was asked for until now are among them."""
    wanted = set(range(1, len(served.policy.requests) + 1))
    for _ in range(20):
        found = [number for batch in trainer.batches for number in numbers(batch)]
        if wanted <= set(found):
            return found
        await trainer.take(1)
    raise AssertionError(f"lost: {wanted - set(found)}")


@pytest.mark.slow
@pytest.mark.parametrize("failure", BROKEN, ids=["500", "502", "dropped"])
@pytest.mark.parametrize("lost", [0.0, 0.5, 1.0])
async def test_api_that_fails_seven_times_of_ten_gets_each_group_once_and_one_registration_stays(
    arena: Arena, failure: Reply, lost: float
) -> None:
    async with (
        training(8) as trainer,
        MisbehavingProxy(trainer.url, seed=3) as proxy,
        serve(arena, proxy.url, *FLAGS) as served,
    ):
        proxy.failure, proxy.lost = failure, lost
        await trainer.take(2)
        proxy.rate = 0.7
        while sum(sum(proxy.failed.get(path, (0, 0))) for path in POSTS) < 5:
            await trainer.take()
        proxy.rate = 0.0
        found = await all_until_now(trainer, served)
        doubles = len(found) - len(set(found))
        assert doubles <= served.serving._outbox.maybe_double, (
            "each group that may be double is counted"
        )
        assert await share_of(trainer, served.connection.registration.env_id) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("failure", BROKEN, ids=["500", "502", "dropped"])
async def test_registration_whose_answer_is_lost_is_found_and_left(
    arena: Arena, failure: Reply
) -> None:
    async with training(8) as trainer, MisbehavingProxy(trainer.url) as proxy:
        other = (await trainer.call("POST", "/register-env", registration_of_another()))["env_id"]
        proxy.only, proxy.rate, proxy.lost, proxy.failure = ("/register-env",), 1.0, 1.0, failure
        async with serve(arena, proxy.url, *FLAGS) as served:
            await until(
                lambda: proxy.failed.get("/register-env", (0, 0))[1] >= 3, "registrations are lost"
            )
            proxy.rate = 0.0
            await trainer.take(1)
            assert served.connection.registration.env_id >= 4
            assert await share_of(trainer, other) == pytest.approx(0.5), "of two, and not of five"
            assert await share_of(trainer, served.connection.registration.env_id) == pytest.approx(
                0.5
            )
        assert await share_of(trainer, other) == 1.0, "it has left"


async def has_half(trainer: Trainer, number: int) -> bool:
    return await share_of(trainer, number) == pytest.approx(0.5)


async def test_registration_whose_answer_is_on_its_way_when_serve_is_stopped_is_left(
    arena: Arena,
) -> None:
    arrives = asyncio.Event()
    async with training(8) as trainer, aiohttp.ClientSession() as session:
        other = (await trainer.call("POST", "/register-env", registration_of_another()))["env_id"]
        pass_on = passing_on(trainer.url, session)

        async def answer_late(request: Recorded, number: int) -> Reply:
            answer = pass_on(request, number)
            assert not isinstance(answer, Reply)
            reply = await answer
            if request.path == "/register-env":
                await arrives.wait()
            return reply

        async with ScriptedServer(answer_late) as slow, serve(arena, slow.url, *FLAGS) as served:
            await until(partial(has_half, trainer, other), "it is registered, and does not know it")
            served.run.cancel()
            await asyncio.wait([served.run], timeout=0.2)
            arrives.set()
            await asyncio.wait([served.run])
        assert await share_of(trainer, other) == 1.0


def registration_of_another() -> dict[str, object]:
    """Another environment with the same settings."""
    return {"desired_name": "arena_hard", "weight": 1.0, "group_size": 4, "max_token_length": 2048}


@pytest.mark.slow
async def test_api_that_was_restarted_is_not_asked_for_what_the_old_one_had(arena: Arena) -> None:
    """Its numbers belong to others: nobody else is disconnected."""
    async with (
        RunApi() as real,
        aiohttp.ClientSession() as session,
        MisbehavingProxy(real.url) as proxy,
    ):
        trainer = Trainer(real.url, session)
        await trainer.register(8)
        async with serve(arena, proxy.url, *FLAGS) as served:
            await trainer.take(1)
            real.kill()
            await until(lambda: not served.connection.joined.is_set(), "the loss is noticed")
            proxy.away = True
            await real.start()
            await trainer.register(8)
            other = (await trainer.call("POST", "/register-env", registration_of_another()))[
                "env_id"
            ]
            assert other == served.connection.registration.env_id == 0
            proxy.away = False
            await trainer.take(1)
            assert await share_of(trainer, other) == pytest.approx(0.5), "it was not disconnected"
