"""A disk that refuses the file of groups while a trainer is served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgegym.engine.runs import disk as disks
from judgegym.engine.runs.disk import DiskFull
from tests.arena import Arena
from tests.core.engine.runs.full_disk import RefusingDisk
from tests.core.serve.test_api_away import numbers
from tests.serving import serve
from tests.trainer import training, until


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> RefusingDisk:
    monkeypatch.setattr(disks, "_RETRY_S", 0.01)
    refusing = RefusingDisk()
    refusing.everywhere(monkeypatch)
    return refusing


def flags(path: Path) -> tuple[str, ...]:
    return (
        f"--env.data_path_to_save_groups={path}",
        "--env.include_messages=True",
        "--env.max_batches_offpolicy=1",
    )


@pytest.mark.slow
async def test_disk_that_has_room_again_has_every_group_and_the_trainer_too(
    arena: Arena, disk: RefusingDisk
) -> None:
    path = arena.path / "groups.jsonl"
    async with training(8) as trainer, serve(arena, trainer.url, *flags(path)) as served:
        await trainer.take(1)
        disk.room = 2000

        async def is_full() -> bool:
            await trainer.poll()
            return served.serving._disk.waiting is not None and served.judge.in_flight == 0

        await until(is_full, "it is full")
        asked = len(served.policy.requests)
        await until(lambda: served.policy.in_flight == 0, "what is in progress finishes")
        assert len(served.policy.requests) == asked, "no group begins"
        disk.room = 1 << 40
        await trainer.take(2)
    held = [json.loads(line) for line in path.read_bytes().splitlines()]
    sent = [number for batch in trainer.batches for number in numbers(batch)]
    assert set(sent) <= set(numbers(held))


async def test_disk_that_stays_full_ends_the_run_and_the_registration(
    arena: Arena, disk: RefusingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "DEADLINE_S", 0.1)
    path = arena.path / "groups.jsonl"
    disk.room = 2000
    async with training(8) as trainer:
        other = (await trainer.call("POST", "/register-env", OTHER))["env_id"]
        with pytest.raises(DiskFull, match=r"\.jsonl .*writable for"):
            async with serve(arena, trainer.url, *flags(path)) as served:
                await served.ended()
        share = (await trainer.call("GET", "/status-env", {"env_id": other}))["env_weight"]
        assert share == 1.0, "it has left"
    data = path.read_bytes()
    assert data.endswith(b"\n") or not data


OTHER = {"desired_name": "other", "weight": 1.0, "group_size": 4, "max_token_length": 2048}
