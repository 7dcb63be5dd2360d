"""An evaluation beside the rollouts; tests/core/serve/test_wandb.py has one from its beginning to its metrics."""

from __future__ import annotations

import asyncio

import pytest

from judgegym.engine.metrics import Metrics
from judgegym.llm.errors import RunDirectoryError
from tests.arena import Arena
from tests.serving import serve
from tests.trainer import training, until


@pytest.mark.slow
async def test_a_failed_evaluation_does_not_stop_the_training(
    arena: Arena, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(step: int) -> Metrics:
        raise RunDirectoryError(f"step-{step} is another run's")

    flags = "--env.steps_per_eval=1", "--env.total_steps=3", "--env.max_batches_offpolicy=1"
    async with training(8) as trainer, serve(arena, trainer.url, *flags, evaluate=fails) as served:
        await trainer.take(3)
        await served.ended()
    assert "evaluation of step 1 failed: step-1 is another run's" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("handling", ["NONE", "STOP_TRAIN"])
async def test_whether_groups_begin_meanwhile(arena: Arena, handling: str) -> None:
    """With room for one batch: the next one is begun when the trainer takes it, or when the evaluation has ended."""
    release = asyncio.Event()
    begun = asyncio.Event()

    async def held(step: int) -> Metrics:
        begun.set()
        await release.wait()
        return Metrics({}, {})

    flags = (
        "--env.steps_per_eval=1",
        "--env.max_batches_offpolicy=1",
        f"--env.eval_handling={handling}",
    )
    async with training(8) as trainer, serve(arena, trainer.url, *flags, evaluate=held) as served:
        await trainer.take()
        await begun.wait()
        if handling == "NONE":
            await served.policy.arrived(4)
        for _ in range(10):
            before = served.connection.status
            await until(
                lambda known=before: served.connection.status is not known, "news of the trainer"
            )
        assert len(served.policy.requests) == (4 if handling == "NONE" else 2)
        release.set()
        await served.policy.arrived(4)


async def test_the_last_step_is_evaluated(arena: Arena) -> None:
    evaluated: list[int] = []

    async def evaluate(step: int) -> Metrics:
        await asyncio.sleep(0.05)  # as any evaluation it takes some time
        evaluated.append(step)
        return Metrics({}, {})

    flags = "--env.steps_per_eval=2", "--env.total_steps=2", "--env.max_batches_offpolicy=1"
    async with (
        training(8) as trainer,
        serve(arena, trainer.url, *flags, evaluate=evaluate) as served,
    ):
        await trainer.take(2)
        await served.ended()
    assert evaluated == [2]
