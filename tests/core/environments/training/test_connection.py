"""An environment's place at the rollout API: waited for, lost, and found again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from judgegym.engine.settings import EnvConfig
from judgegym.environments.training import connection, rollout_api
from judgegym.environments.training.connection import TrainerConnection
from judgegym.environments.training.rollout_api import RolloutApi
from judgegym.llm.errors import SettingsError
from tests.scripted import Recorded, Reply
from tests.trainer import ScriptedServer, until


class Api:
    """A rollout API whose state the test sets.

    Attributes:
        down: it cannot be reached behind its proxy; `status_down`: for questions of the status
            alone.
        batch_size: the trainer's; −1 for none.
        started: the trainer has asked for its first batch.
        step: the trainer's.
        envs: the weights of the environments that have registered.
        gone: the numbers of those that have left.
    """

    def __init__(self) -> None:
        self.down = False
        self.status_down = False
        self.batch_size = 8
        self.started = True
        self.step = 0
        self.envs: list[float] = []
        self.gone: set[int] = set()

    @property
    def connected(self) -> list[int]:
        return [number for number in range(len(self.envs)) if number not in self.gone]

    def __call__(self, request: Recorded, _: int) -> Reply:
        if self.down:
            return Reply(status=503)
        if request.path == "/info":
            return Reply(body={"batch_size": self.batch_size, "max_token_len": -1})
        if request.path == "/register-env":
            return self._register(request.json["weight"])
        if request.path == "/disconnect-env":
            self.gone.add(request.json["env_id"])
            return Reply(body={"status": "success"})
        assert request.path == "/status-env"
        if self.status_down:
            return Reply(status=503)
        if request.json["env_id"] >= len(self.envs):
            return Reply(status=500)
        weight = self.envs[request.json["env_id"]] / sum(
            self.envs[number] for number in self.connected
        )
        return Reply(
            body={
                "current_step": self.step,
                "queue_size": 2,
                "self_queue_size": 1,
                "env_weight": weight,
            }
        )

    def _register(self, weight: float) -> Reply:
        if not self.started:
            return Reply(body={"status": "wait for trainer to start"})
        self.envs.append(weight)
        number = len(self.envs) - 1
        answer = {"status": "success", "env_id": number, "wandb_name": f"env_{number}"}
        more = {
            "starting_step": self.step,
            "checkpoint_dir": "",
            "checkpoint_interval": -1,
            "num_steps": 10,
        }
        return Reply(body={**answer, **more})

    def forget(self) -> None:
        """Be another run of the API, whose trainer is already there."""
        self.envs, self.gone, self.step = [], set(), 0


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_POLL_S", 0.01)
    monkeypatch.setattr(rollout_api, "_PAUSE_S", 0.001)
    monkeypatch.setattr(rollout_api, "_TRIES", 3)


@pytest.fixture
def api() -> Api:
    return Api()


@asynccontextmanager
async def member(
    api: Api, **config: object
) -> AsyncIterator[tuple[TrainerConnection, ScriptedServer]]:
    async with ScriptedServer(api) as server, aiohttp.ClientSession() as session:
        settings = EnvConfig(**{"group_size": 4, "inference_weight": 0.5, **config})
        yield TrainerConnection(RolloutApi(server.url, session), settings, "arena_hard"), server


@asynccontextmanager
async def watched(api: Api) -> AsyncIterator[tuple[TrainerConnection, ScriptedServer]]:
    """A member that has joined and watches its place."""
    async with member(api) as (joined, server):
        await joined.join()
        watching = asyncio.create_task(joined.watch())
        try:
            yield joined, server
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


async def test_joining_waits_for_the_api_its_trainer_and_the_first_batch(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    api.down, api.batch_size, api.started = True, -1, False
    async with member(api, max_token_length=512, min_batch_allocation=0.25) as (joining, server):
        task = asyncio.create_task(joining.join())
        await server.arrived(3)
        api.down = False
        await server.arrived(6)
        assert not server.asked("/register-env"), "nobody to register with yet"
        api.batch_size = 8
        await until(lambda: len(server.asked("/register-env")) >= 3, "registering is tried")
        assert not joining.joined.is_set()
        api.started = True
        await task
        assert joining.joined.is_set()
    assert server.asked("/register-env")[-1].json == {
        "desired_name": "arena_hard",
        "weight": pytest.approx(0.5, rel=1e-5),
        "group_size": 4,
        "max_token_length": 512,
        "min_batch_allocation": 0.25,
    }
    assert (joining.registration.name, joining.trainer.batch_size, joining.status.queue) == (
        "env_0",
        8,
        2,
    )
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said)) == 4, "each wait is told once"


async def test_an_api_that_is_another_one_before_joining_is_done(api: Api) -> None:
    """It was killed between our registration and its first status: the number we have is nobody's."""
    api.status_down = True
    async with member(api) as (joining, server):
        task = asyncio.create_task(joining.join())
        await until(
            lambda: len(server.asked("/status-env")) > 3, "the status is asked for again and again"
        )
        api.forget()
        api.status_down = False
        await task
        assert joining.registration.env_id == 0
    assert len(server.asked("/register-env")) == 2


@pytest.mark.parametrize(("group_size", "batch_size"), [(4, 6), (3, 8), (16, 8)])
async def test_a_group_size_that_does_not_fit_ends_the_wait(
    api: Api, group_size: int, batch_size: int
) -> None:
    api.batch_size = batch_size
    async with member(api, group_size=group_size) as (joining, server):
        with pytest.raises(SettingsError, match=rf"{group_size} does not divide .* {batch_size}"):
            await joining.join()
    assert not server.asked("/register-env")


@pytest.mark.parametrize("all_of_it", [True, False])
async def test_an_api_that_was_only_away_keeps_our_place_and_no_other(
    api: Api, all_of_it: bool
) -> None:
    async with watched(api) as (joined, server):
        api.step, api.down, api.status_down = 1, all_of_it, True
        await until(lambda: not joined.joined.is_set(), "the loss is noticed")
        await server.arrived(len(server.requests) + 6)
        api.down = api.status_down = False
        await until(joined.joined.is_set, "the way back is found")
        assert (joined.status.step, joined.membership.epoch) == (1, 0)
        assert (joined.registration.env_id, api.connected) == (0, [0])


async def test_groups_that_are_sent_while_the_status_is_asked_for_stay_counted() -> None:
    """The status may be older than they are, and their places would be given away twice."""
    api = Api()
    joined: list[TrainerConnection] = []

    def script(request: Recorded, number: int) -> Reply:
        if joined and request.path == "/status-env":
            joined[0].sent_since += 3
            joined.clear()
        return api(request, number)

    async with ScriptedServer(script) as server, aiohttp.ClientSession() as session:
        made = TrainerConnection(RolloutApi(server.url, session), EnvConfig(group_size=4), "env")
        await made.join()
        made.sent_since = 5
        joined.append(made)
        watching = asyncio.create_task(made.watch())
        await until(
            lambda: not joined and made.sent_since == 3,
            "those before are in the queue, those since are not",
        )
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
