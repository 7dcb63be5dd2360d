"""Groups whose post has no answer: what the API's counters say of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from judgegym.engine.settings import EnvConfig
from judgegym.environments.training import connection, rollout_api
from judgegym.environments.training.connection import TrainerConnection
from judgegym.environments.training.delivery import Arrival, Outbox, compare_counters
from judgegym.environments.training.rollout_api import ApiStatus, RolloutApi
from judgegym.llm import wire
from tests.scripted import Recorded, Reply
from tests.trainer import ScriptedServer

GROUP = {"tokens": [[1], [2]], "masks": [[1], [2]], "scores": [1.0, 0.0]}
OTHER = {"tokens": [[3], [4]], "masks": [[3], [4]], "scores": [1.0, 0.0]}
THIRD = {"tokens": [[5], [6]], "masks": [[5], [6]], "scores": [1.0, 0.0]}
LOST = Reply(status=500)


def status(step: int, own: int, queue: int | None = None, weight: float = 1.0) -> ApiStatus:
    return ApiStatus(step, own if queue is None else queue, own, weight, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (status(0, 3), status(0, 4), "arrived"),
        (status(0, 3), status(0, 3), "missing"),
        (status(0, 3, 9, 0.5), status(0, 4, 20, 0.2), "arrived"),
        (status(0, 5), status(1, 4), "arrived"),
        (status(0, 5), status(1, 3), "missing"),
        (status(0, 5), status(2, 1), "missing"),
        (status(0, 5, 7), status(1, 4), "unknown"),
        (status(0, 5), status(1, 4, 6), "unknown"),
        (status(0, 5, weight=0.5), status(1, 4), "unknown"),
        (status(0, 3), status(0, 1), "unknown"),
    ],
)
def test_counters_tell_whether_a_group_arrived(
    before: ApiStatus, after: ApiStatus, expected: Arrival
) -> None:
    """Batches of four sequences, groups of two."""
    assert compare_counters(before, after, posted=1, group_size=2, batch_size=4) == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (status(0, 3), "missing"),
        (status(0, 6), "arrived"),
        (status(0, 4), "unknown"),
        (status(1, 4), "arrived"),
        (status(1, 1), "missing"),
        (status(1, 3), "unknown"),
        (status(1, 4, 6), "unknown"),
    ],
)
def test_counters_tell_of_a_list_only_that_all_of_it_arrived_or_nothing(
    after: ApiStatus, expected: Arrival
) -> None:
    """Three groups of two, batches of four sequences."""
    assert compare_counters(status(0, 3), after, posted=3, group_size=2, batch_size=4) == expected


@dataclass
class Api:
    """A rollout API with a queue.

    Attributes:
        posts: what becomes of each post, in turn; those after it are kept and answered.
        step: the trainer's.
        share: of our environment.
        queue: the groups in it.
        latest: the group that came last.
    """

    posts: list[Post] = field(default_factory=list)
    step: int = 0
    share: float = 1.0
    queue: list[Any] = field(default_factory=list)
    latest: Any = None

    def __call__(self, request: Recorded, _: int) -> Reply:
        if request.path == "/info":
            return Reply(body={"batch_size": 4, "max_token_len": -1})
        if request.path == "/register-env":
            return Reply(
                body={"status": "success", "env_id": 0, "checkpoint_interval": -1, "num_steps": 9}
            )
        if request.path == "/status-env":
            queue = {
                "queue_size": len(self.queue),
                "self_queue_size": len(self.queue),
                "env_weight": self.share,
            }
            return Reply(body={"current_step": self.step, **queue})
        if request.path == "/latest_example":
            return Reply(body=self.latest or {"tokens": []})
        assert request.path == (
            "/scored_data_list" if isinstance(request.json, list) else "/scored_data"
        )
        groups = request.json if isinstance(request.json, list) else [request.json]
        return self.posts.pop(0)(self, groups) if self.posts else kept(self, groups)


Post = Callable[[Api, list[Any]], Reply]


def kept(api: Api, groups: list[Any]) -> Reply:
    api.queue += groups
    api.latest = groups[-1]
    return Reply(body={"status": "received"})


def lost_on_the_way_there(api: Api, groups: list[Any]) -> Reply:
    return LOST


def lost_on_the_way_back(api: Api, groups: list[Any]) -> Reply:
    kept(api, groups)
    return LOST


def with_a_step(before: Post) -> Post:
    """The trainer takes a batch, and somebody else is there who may have been in it."""

    def post(api: Api, groups: list[Any]) -> Reply:
        reply = before(api, groups)
        api.step, api.queue, api.share = api.step + 1, api.queue[:-2], 0.5
        return reply

    return post


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_POLL_S", 0.01)
    monkeypatch.setattr(rollout_api, "_PAUSE_S", 0.001)


def packed(*groups: Any) -> list[bytes]:
    return [wire.dumps(group) for group in groups]


async def delivered(api: Api, *posts: list[Any]) -> Outbox:
    """Deliver the groups of each post, one post after the other."""
    async with ScriptedServer(api) as server, aiohttp.ClientSession() as session:
        joined = TrainerConnection(RolloutApi(server.url, session), EnvConfig(group_size=2), "env")
        await joined.join()
        delivery = Outbox(joined)
        for groups in posts:
            assert await asyncio.wait_for(delivery.post(packed(*groups)), 60) is None
        assert joined.sent_since == sum(map(len, posts))
    return delivery


def tokens(api: Api) -> list[Any]:
    return [group["tokens"] for group in api.queue]


@pytest.mark.parametrize("lost", [lost_on_the_way_there, lost_on_the_way_back])
async def test_list_whose_answer_was_lost_is_queued_once(lost: Post) -> None:
    api = Api([lost, lost_on_the_way_there, lost])
    delivery = await delivered(api, [GROUP, OTHER, THIRD], [OTHER, GROUP])
    assert tokens(api) == [group["tokens"] for group in (GROUP, OTHER, THIRD, OTHER, GROUP)]
    assert (delivery.maybe_double, delivery.undecided) == (0, 0)


async def test_list_whose_last_group_is_the_latest_at_the_api_has_arrived() -> None:
    api = Api([kept, with_a_step(lost_on_the_way_back)])
    delivery = await delivered(api, [THIRD], [GROUP, OTHER])
    assert (tokens(api), delivery.maybe_double) == ([THIRD["tokens"]], 0), "they were in the batch"


async def test_list_of_which_nothing_is_known_is_posted_again_and_each_of_its_groups_counted() -> (
    None
):
    api = Api([with_a_step(lost_on_the_way_there)])
    delivery = await delivered(api, [GROUP, OTHER, THIRD])
    assert (len(api.queue), delivery.maybe_double) == (3, 3)
