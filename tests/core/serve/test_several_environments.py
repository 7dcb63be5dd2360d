"""Several environments for one trainer."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from tests.arena import Arena
from tests.command import SCRIPT, Started
from tests.serving import serve
from tests.trainer import Trainer, training, until


@pytest.mark.slow
async def test_two_processes_with_groups_of_their_own_sizes(tmp_path: Path) -> None:
    """With a share of the batch reserved for each, both are in each batch, all are whole, and both end by
    themselves."""
    steps = 3
    async with training(32) as trainer:
        with ExitStack() as stack:
            started = [
                stack.enter_context(
                    Started(
                        str(SCRIPT),
                        "serve",
                        "--offline",
                        f"--env.rollout_server_url={trainer.url}",
                        f"--env.group_size={size}",
                        f"--env.seed={size}",
                        f"--env.total_steps={steps}",
                        "--env.min_batch_allocation=0.25",
                        "--env.steps_per_eval=-1",
                        cwd=tmp_path,
                    )
                )
                for size in (4, 8)
            ]
            await both_joined(trainer)
            batches = await trainer.take(steps)
            ended = await asyncio.gather(*(asyncio.to_thread(each.ended) for each in started))
    assert [each.code for each in ended] == [0, 0], [each.said for each in ended]
    assert [sum(len(group["tokens"]) for group in batch) for batch in batches] == [32] * steps
    sizes = {group["env_id"]: len(group["tokens"]) for batch in batches for group in batch}
    assert sorted(sizes.values()) == [4, 8]
    for batch in batches:
        shares = Counter(group["env_id"] for group in batch for _ in group["tokens"])
        assert min(shares[0], shares[1]) >= 8
        assert all(len(group["tokens"]) == sizes[group["env_id"]] for group in batch)


async def both_joined(trainer: Trainer) -> None:
    """Wait until the API knows two environments: it fails at the status of one that it does not know."""
    async with aiohttp.ClientSession() as session:

        async def knows_the_second() -> bool:
            async with session.get(f"{trainer.url}/status-env", json={"env_id": 1}) as response:
                return response.status == 200

        await until(knows_the_second, "two environments join")


async def test_an_environment_that_comes_later_gets_its_share(arena: Arena) -> None:
    """Both are in the batches; each knows its share of the policy, which is all of it once the other has left."""
    async with (
        training(8) as trainer,
        serve(arena, trainer.url, "--env.inference_weight=3") as first,
    ):
        await trainer.take()
        async with serve(arena, trainer.url, "--env.inference_weight=1", "--env.seed=1") as second:
            await until(second.connection.joined.is_set, "the second joins")

            async def comes() -> bool:
                await trainer.poll()
                return any(group["env_id"] == 1 for batch in trainer.batches for group in batch)

            await until(comes, "a group of the second")
            await until(
                lambda: first.connection.status.weight == pytest.approx(0.75, rel=1e-5),
                "the first knows",
            )
            assert second.connection.status.weight == pytest.approx(0.25, rel=1e-5), (
                "the weights have marks"
            )
        await until(lambda: first.connection.status.weight == 1.0, "the second has left")
        await trainer.take(4)
