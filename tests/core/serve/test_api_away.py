"""A rollout API that is not there yet, or is killed and started again; one that fails: `test_api_flaps.py`."""

from __future__ import annotations

import aiohttp
import pytest

from tests.arena import Arena
from tests.scripted import Recorded, Reply
from tests.serving import serve, which
from tests.trainer import POSTS, Batch, RunApi, ScriptedServer, Trainer, passing_on, until

FLAGS = "--env.max_batches_offpolicy=1", "--env.include_messages=True"


def numbers(batch: Batch) -> list[int]:
    """Which of the policy's requests the groups of a batch come from."""
    return sorted(which(group["messages"][0][-1]["content"])[1] for group in batch)


@pytest.mark.parametrize("started", [None, False])
async def test_nothing_is_asked_or_posted_before_there_is_a_trainer(
    arena: Arena, started: bool | None
) -> None:
    """No trainer, and one that has not yet asked for its first batch."""

    def script(request: Recorded, _: int) -> Reply:
        if request.path == "/info":
            return Reply(body={"batch_size": -1 if started is None else 8, "max_token_len": -1})
        assert request.path == "/register-env"
        return Reply(body={"status": "wait for trainer to start"})

    async with ScriptedServer(script) as api, serve(arena, api.url) as served:
        await api.arrived(20)
        assert not served.run.done()
        assert not served.policy.requests
    assert (
        {request.path for request in api.requests} == {"/info"}
        if started is None
        else {"/info", "/register-env"}
    )


@pytest.mark.slow
async def test_an_api_that_is_killed_and_started_again(arena: Arena) -> None:
    """Serve registers with the new one once its trainer has, and goes on; nothing is posted before that."""
    async with (
        RunApi() as real,
        aiohttp.ClientSession() as session,
        ScriptedServer(passing_on(real.url, session)) as api,
        serve(arena, api.url, *FLAGS) as served,
    ):
        trainer = Trainer(real.url, session)
        await trainer.register(8)
        (first,) = await trainer.take()
        real.kill()
        await until(lambda: not served.connection.joined.is_set(), "the loss is noticed")
        posted = len(api.asked(*POSTS))
        joined = len(api.asked("/register-env"))
        begun = len(served.policy.requests)
        await real.start()
        await api.arrived(len(api.requests) + 20)
        assert len(api.asked(*POSTS)) == posted, "there is an API, and no trainer yet"
        assert len(served.policy.requests) == begun
        await trainer.register(8)
        (second,) = await trainer.take()
        (third,) = await trainer.take()
        assert len(api.asked("/register-env")) > joined
        assert served.connection.registration.env_id == 0
        assert not served.run.done()
    found = numbers(first) + numbers(second) + numbers(third)
    assert len(found) == len(set(found)) == 6
    assert max(numbers(third)) > begun, "it goes on with new rows"
    assert all(len(group["tokens"]) == 4 for batch in trainer.batches for group in batch)
