"""How a `serve` ends: by its trainer's steps, or because it is told to."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.arena import Arena
from tests.command import SCRIPT, Started
from tests.scripted import Reply
from tests.serving import serve
from tests.trainer import ScriptedServer, training


@pytest.mark.parametrize(("total_steps", "taken"), [("-1", 3), ("2", 2)])
async def test_it_ends_when_the_trainer_has_had_its_steps(
    arena: Arena, total_steps: str, taken: int
) -> None:
    """As many as it is told, or as the trainer said when it registered; counted from where the trainer began."""
    async with (
        training(8, num_steps=8, starting_step=0 if total_steps == "2" else 5) as trainer,
        serve(
            arena, trainer.url, f"--env.total_steps={total_steps}", "--env.max_batches_offpolicy=1"
        ) as served,
    ):
        await trainer.take(taken - 1)
        assert not served.run.done()
        await trainer.take()
        await served.ended()


@pytest.mark.slow
async def test_a_signal_while_it_waits_for_a_trainer(arena: Arena) -> None:
    async with ScriptedServer(
        lambda request, number: Reply(body={"batch_size": -1, "max_token_len": -1})
    ) as api:
        argv = "serve", "--offline", f"--env.rollout_server_url={api.url}"
        with Started(str(SCRIPT), *argv, cwd=arena.path) as started:
            await api.arrived(2)
            started.send(signal.SIGTERM)
            ended = await asyncio.to_thread(started.ended)
    assert ended.code == 143
    assert f"register at {api.url}" in ended.err
    assert "stopped: no trainer" in ended.err and "nothing was sent" in ended.err
    assert "Traceback" not in ended.said
    assert {request.path for request in api.requests} == {"/info"}
