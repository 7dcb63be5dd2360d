"""A run that takes up where an earlier one was, by the trainer's step."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from judgegym.data.task_list import epoch_order
from tests.arena import Arena, uid_of
from tests.core.environments.training.test_sampler import rows
from tests.scripted import Json, Reply
from tests.serving import judging, serve
from tests.trainer import Batch, training, until

FLAGS = "--env.include_messages=True", "--env.max_batches_offpolicy=1"


def uids(batches: list[Batch]) -> list[str]:
    return [uid_of({"messages": [group["messages"][0][0]]}) for batch in batches for group in batch]


def order(first: int, last: int) -> list[str]:
    """Rows of the first epoch by their places."""
    return [row.uid for row in epoch_order(rows(8), seed=0, epoch=0)][first:last]


def saved(directory: Path) -> dict[str, list[str]]:
    """Unfinished rows of each checkpoint."""
    folder = directory / "env_checkpoints" / "arena_hard_0"
    return {path.stem: json.loads(path.read_bytes())["unfinished"] for path in folder.iterdir()}


@pytest.mark.slow
async def test_rows_under_way_come_first_after_a_restart(arena: Arena, tmp_path: Path) -> None:
    """The judge never answers for the first row in the first run; the second run begins with it."""
    keeping = {"checkpoint_dir": str(tmp_path / "kept"), "save_checkpoint_interval": 1}
    (stuck,) = order(0, 1)

    async def never_for_one(request: Json, number: int) -> Reply | str:
        if uid_of(request) == stuck:
            await asyncio.Event().wait()
        return judging()(request, number)

    room_beside_it = "--env.max_batches_offpolicy=2"
    async with (
        training(8, **keeping) as trainer,
        serve(arena, trainer.url, *FLAGS, room_beside_it, judge=never_for_one) as served,
    ):
        first = await trainer.take()
        await until(lambda: served.connection.status.step == 1, "the step is known")
    unfinished = saved(tmp_path / "kept")["step-1"]
    sent = {uid_of(body) for body in served.policy.bodies} - set(unfinished)
    assert stuck in unfinished
    assert set(uids(first)) <= sent

    one_by_one = "--env.max_num_workers=1"
    async with (
        training(8, **keeping, starting_step=1) as trainer,
        serve(arena, trainer.url, *FLAGS, one_by_one) as served,
    ):
        second = await trainer.take(4)
        asked = [uid_of(body) for body in served.policy.bodies]
    assert asked[0] == stuck
    missing = 8 - len(sent)
    assert {*uids(second)[:missing], *sent} == set(order(0, 8)), (
        "none is sent twice, and none is left out"
    )


@pytest.mark.slow
async def test_a_checkpoint_at_each_interval_and_at_the_end(arena: Arena, tmp_path: Path) -> None:
    """What another run left there of the same name is not looked at in a run that begins at step 0."""
    folder = tmp_path / "env_checkpoints" / "arena_hard_0"
    folder.mkdir(parents=True)
    (folder / "step-0.json").write_text('{"epoch": 7, "position": 3, "unfinished": []}')
    keeping = {"checkpoint_dir": str(tmp_path), "save_checkpoint_interval": 2}
    async with (
        training(8, **keeping) as trainer,
        serve(arena, trainer.url, *FLAGS, "--env.total_steps=3") as served,
    ):
        batches = await trainer.take(3)
        await served.ended()
    assert sorted(saved(tmp_path)) == ["step-0", "step-2", "step-3"]
    assert sorted(uids(batches[:2])) == sorted(order(0, 4))


async def test_a_checkpoint_that_cannot_be_used(
    arena: Arena, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "env_checkpoints" / "arena_hard_0"
    folder.mkdir(parents=True)
    (folder / "step-5.json").write_text('{"epoch": "first"}')
    async with (
        training(8, checkpoint_dir=str(tmp_path), starting_step=5) as trainer,
        serve(arena, trainer.url, *FLAGS),
    ):
        (batch,) = await trainer.take()
    assert sorted(uids([batch])) == sorted(order(0, 2))
    assert re.search("checkpoint .*not used: .*row order", caplog.text)
