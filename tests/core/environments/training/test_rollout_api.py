"""The rollout API as an environment sees it: a scripted one, and for what goes through it, the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from judgegym.engine.settings import EnvConfig
from judgegym.environments.training import rollout_api
from judgegym.environments.training.rollout_api import (
    ApiRefusal,
    ApiStatus,
    ApiUnavailable,
    RolloutApi,
    call_with_retries,
)
from judgegym.environments.training.rollout_api import TrainerLimits as Wanted
from judgegym.llm import wire
from tests.scripted import Json, Recorded, Reply, refusing
from tests.trainer import ScriptedServer, training

GROUP: Json = {
    "tokens": [[1, 2], [1, 3], [1, 2, 4], [1]],
    "masks": [[-100, 2], [-100, 3], [-100, 2, 4], [-100]],
    "scores": [1.0, -1.0, 0.5, 0.0],
}
Call = Callable[[RolloutApi], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "trainer": lambda api: api.trainer(),
    "wandb_place": lambda api: api.wandb_place(),
    "register": lambda api: join(api),
    "status": lambda api: api.status(0),
    "send": lambda api: api.send([wire.dumps(GROUP)], 0),
    "leave": lambda api: api.leave(0),
}


async def join(api: RolloutApi) -> Any:
    return await api.register("env", 1.0, EnvConfig(group_size=4, max_token_length=512))


@asynccontextmanager
async def scripted(
    answers: dict[str, Reply], otherwise: Reply | None = None
) -> AsyncIterator[tuple[RolloutApi, ScriptedServer]]:
    """An API with one answer for each path."""

    def script(request: Recorded, _: int) -> Reply:
        return answers.get(request.path) or otherwise or Reply(body={})

    async with ScriptedServer(script) as server, aiohttp.ClientSession() as session:
        yield RolloutApi(server.url + "/", session), server


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=500, body={"detail": "it broke"}),
        Reply(status=429, body={"detail": "later"}),
        Reply(drop=True),
        Reply(body="<html>a proxy's page</html>"),
    ],
    ids=["500", "429", "dropped", "no JSON"],
)
async def test_what_may_be_well_again_later(call: Call, reply: Reply) -> None:
    async with scripted({}, reply) as (api, _):
        with pytest.raises(ApiUnavailable, match=r"http://127\.0\.0\.1"):
            await call(api)


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_what_waiting_does_not_mend(status: int) -> None:
    with_trainer = {"/info": Reply(body={"batch_size": 8, "max_token_len": -1})}
    async with scripted(
        with_trainer, Reply(status=status, body={"detail": "scores: not a number"})
    ) as (api, _):
        with pytest.raises(ApiRefusal, match="scores: not a number"):
            await api.send([wire.dumps(GROUP)], 0)


@pytest.mark.parametrize(
    ("path", "call"),
    [("/info", "trainer"), ("/register-env", "register"), ("/status-env", "status")],
)
@pytest.mark.parametrize("body", [{"status": "success", "batch_size": "8"}, []])
async def test_an_answer_that_says_nothing(path: str, call: str, body: Any) -> None:
    """Another service on that port, or another version of the API; an answer without a status lets nobody in."""
    async with scripted({path: Reply(body=body)}) as (api, _):
        if call == "register" and not body:
            assert await CALLS[call](api) is None
        else:
            with pytest.raises(ApiUnavailable, match="answer has no"):
                await CALLS[call](api)


@pytest.mark.parametrize(
    ("reply", "acted", "times_out"),
    [
        (Reply(status=500), True, False),
        (Reply(drop=True), True, False),
        (Reply(hang=True), True, True),
        (None, False, False),
    ],
    ids=["500", "dropped", "no answer", "refused"],
)
async def test_failure_says_whether_the_api_may_have_acted(
    monkeypatch: pytest.MonkeyPatch, reply: Reply | None, acted: bool, times_out: bool
) -> None:
    monkeypatch.setattr(rollout_api, "_TIMEOUT_S", 0.2)
    async with scripted({}, reply) as (api, _):
        if reply is None:
            with refusing() as url:
                api.url = url
                with pytest.raises(ApiUnavailable) as raised:
                    await api.send([wire.dumps(GROUP)], 0)
        else:
            with pytest.raises(ApiUnavailable) as raised:
                await api.send([wire.dumps(GROUP)], 0)
    assert (raised.value.may_have_acted, raised.value.timed_out) == (acted, times_out)


@pytest.mark.parametrize("failure", [Reply(status=502), Reply(body="no JSON")])
async def test_call_that_fails_at_times_is_made_again(
    monkeypatch: pytest.MonkeyPatch, failure: Reply
) -> None:
    monkeypatch.setattr(rollout_api, "_PAUSE_S", 0)
    asked = 0

    def script(request: Recorded, number: int) -> Reply:
        nonlocal asked
        asked += 1
        return failure if asked < 5 else Reply(body={"batch_size": 8, "max_token_len": -1})

    async with ScriptedServer(script) as server, aiohttp.ClientSession() as session:
        assert await call_with_retries(RolloutApi(server.url, session).trainer) == Wanted(8, -1)
    assert asked == 5


async def test_api_that_is_not_there_is_not_insisted_on() -> None:
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        raise ApiUnavailable("refused", may_have_acted=False)

    with pytest.raises(ApiUnavailable):
        await call_with_retries(ask)
    assert asked == 1


@pytest.mark.parametrize(
    ("length", "is_far", "encoding"),
    [(10, True, None), (20_000, True, "gzip"), (20_000, False, None)],
)
async def test_long_groups_are_compressed_unless_the_api_is_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, length: int, is_far: bool, encoding: str | None
) -> None:
    if is_far:
        monkeypatch.setattr(rollout_api, "is_loopback", lambda url: False)
    group = {**GROUP, "tokens": [[1] * length]}
    async with scripted({"/info": Reply(body={"batch_size": 8, "max_token_len": -1})}) as (
        api,
        server,
    ):
        await api.send([wire.dumps(group)], 3)
    (posted,) = server.asked("/scored_data")
    assert posted.headers.get("Content-Encoding") == encoding
    assert posted.json == {**group, "env_id": 3}


@pytest.mark.parametrize("length", [10, 20_000])
async def test_a_group_comes_out_of_the_real_api_as_it_went_in(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(rollout_api, "is_loopback", lambda url: False)  # compressed
    async with aiohttp.ClientSession() as session, training(4) as trainer:
        api = RolloutApi(trainer.url, session)
        assert await api.trainer() == Wanted(4, -1)
        assert await api.wandb_place() == ("the-group", "the-project")
        joined = await join(api)
        assert (joined.env_id, joined.name, joined.num_steps) == (0, "env_0", 1000)
        group: Json = {
            **GROUP,
            "tokens": [[*range(length)], *GROUP["tokens"][1:]],
            "overrides": [{}, {"x": True}, {}, {}],
        }
        await api.send([wire.dumps(group)], joined.env_id)
        assert await api.status(joined.env_id) == ApiStatus(
            step=0, queue=1, own_queue=1, weight=1.0, unallocated=1.0
        )
        ((received,),) = await trainer.take()
        assert {name: received[name] for name in group} == group
        assert received["env_id"] == joined.env_id
        assert (await api.status(joined.env_id)).step == 1
        second = await join(api)
        assert (await api.status(second.env_id)).weight == 0.5
        await api.leave(joined.env_id)
        assert (await api.status(second.env_id)).weight == 1.0
        with pytest.raises(ApiUnavailable):
            await api.status(7)


async def test_the_real_api_queues_all_groups_of_a_list_in_their_order_or_none() -> None:
    """What `delivery` relies on, where the answer to a post is lost."""
    async with aiohttp.ClientSession() as session, training(4) as trainer:
        api = RolloutApi(trainer.url, session)
        joined = await join(api)
        groups = [{**GROUP, "tokens": [[number], *GROUP["tokens"][1:]]} for number in range(3)]
        await api.send([wire.dumps(group) for group in groups], joined.env_id)
        assert (await api.status(joined.env_id)).own_queue == 3
        latest = await api.latest_group()
        assert (latest["tokens"], latest["env_id"]) == (groups[-1]["tokens"], joined.env_id)
        with pytest.raises(ApiRefusal, match="422"):
            await api.send(
                [wire.dumps(group) for group in (groups[0], {**GROUP, "scores": "none"})],
                joined.env_id,
            )
        assert (await api.status(joined.env_id)).own_queue == 3
        taken = [group for (group,) in await trainer.take(3)]
        assert sorted(group["tokens"][0] for group in taken) == [[0], [1], [2]]
