"""How a `serve` ends: by its trainer's steps, or because it is told to."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.arena import Arena
from tests.command import SCRIPT, Started
from tests.scripted import Json, Reply, ScriptedEndpoint
from tests.serving import judging, sampling, serve
from tests.trainer import ScriptedServer, training


@pytest.mark.parametrize(("total_steps", "taken"), [("-1", 3), ("2", 2)])
async def test_it_ends_when_the_trainer_has_had_its_steps(arena: Arena, total_steps: str, taken: int) -> None:
    """As many as it is told, or as the trainer said when it registered; counted from where the trainer began."""
    async with (
        training(8, num_steps=8, starting_step=0 if total_steps == "2" else 5) as trainer,
        serve(arena, trainer.url, f"--env.total_steps={total_steps}", "--env.max_batches_offpolicy=1") as served,
    ):
        await trainer.take(taken - 1)
        assert not served.run.done()
        await trainer.take()
        await served.ended()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_signal_during_a_group(arena: Arena, number: signal.Signals, code: int) -> None:
    """It ends at once and says goodbye; the rollout API serves another environment, and the trainer goes on."""
    release = asyncio.Event()

    async def held(request: Json, count: int) -> Reply | str:
        await release.wait()
        return judging()(request, count)

    async with AsyncExitStack() as stack:
        trainer = await stack.enter_async_context(training(8))
        policy = await stack.enter_async_context(ScriptedEndpoint(sampling()))
        judge = await stack.enter_async_context(ScriptedEndpoint(held))
        argv = [
            *arena.flags,
            f"--env.rollout_server_url={trainer.url}",
            f"--openai.base_url={policy.base_url}",
            f"--env.judge_base_url={judge.base_url}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            "--env.steps_per_eval=-1",
        ]
        with Started(str(SCRIPT), "serve", *argv, cwd=arena.path) as started:
            await judge.arrived(8)
            started.send(number)
            ended = await asyncio.to_thread(started.ended)
        assert ended.code == code
        assert "Traceback" not in ended.said
        assert await trainer.queued() == 0, "nothing half judged is sent"
        assert "stopped: at step 0, 0 groups were sent. To resume:" in ended.err
        release.set()
        async with serve(arena, trainer.url) as served:
            await trainer.take(2)
            assert served.connection.registration.env_id == 1
            assert served.connection.status.weight == 1.0, "the first has left its share"


@pytest.mark.slow
async def test_a_signal_while_it_waits_for_a_trainer(arena: Arena) -> None:
    async with ScriptedServer(lambda request, number: Reply(body={"batch_size": -1, "max_token_len": -1})) as api:
        argv = "serve", "--offline", f"--env.rollout_server_url={api.url}"
        with Started(str(SCRIPT), *argv, cwd=arena.path) as started:
            await api.arrived(2)
            started.send(signal.SIGTERM)
            ended = await asyncio.to_thread(started.ended)
    assert ended.code == 143
    assert "waiting for a trainer to register" in ended.err
    assert "stopped: no trainer had asked for groups yet; nothing was sent" in ended.err
    assert "Traceback" not in ended.said
    assert {request.path for request in api.requests} == {"/info"}
