"""`serve --env.signal_groups`: the trainer gets the same groups, and a restart keeps what was judged twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.training import serve as serving
from judgegym.environments.training import signal_meter
from judgegym.monitoring.live_file import MONITOR
from tests.arena import Arena
from tests.scripted import Json, Reply
from tests.serving import Served, judging, serve
from tests.trainer import Batch, training, until

GROUP = 2
CALLS = 2 * GROUP
"""Judge calls of a group: each completion in both orders."""
TWICE = "--env.signal_groups=32"


@pytest.fixture(autouse=True)
def each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_meter, "_LEAST_SHARE", 1.0)


def flags(path: Path, steps: int, *more: str) -> list[str]:
    return [
        f"--env.group_size={GROUP}",
        "--env.include_messages=True",
        "--env.max_batches_offpolicy=1",
        "--env.max_num_workers=1",
        f"--env.data_dir_to_save_evals={path}",
        f"--env.total_steps={steps}",
        *more,
    ]


def pairs(path: Path) -> list[Mapping[str, Any]]:
    found = [json.loads(line) for line in (path / MONITOR).read_bytes().splitlines()]
    return [line["signal_pair"] for line in found if "signal_pair" in line]


def texts_and_scores(batches: list[Batch]) -> list[bytes]:
    return sorted(
        json.dumps([group["scores"], [turns[-1] for turns in group["messages"]]]).encode()
        for batch in batches
        for group in batch
    )


async def trained(arena: Arena, name: str, *more: str, judge: Any = None) -> tuple[Any, Served]:
    path = arena.path / name
    async with (
        training(2 * GROUP) as trainer,
        serve(arena, trainer.url, *flags(path, 4, *more), judge=judge) as served,
    ):
        batches = await trainer.take(4)
        await served.ended()
    return texts_and_scores(batches), served


async def test_rewards_are_those_of_a_run_without_the_meter_and_its_calls_are_counted(
    arena: Arena,
) -> None:
    once, without = await trained(arena, "once")
    twice, beside = await trained(arena, "twice", TWICE)
    assert twice == once
    values = beside.serving.metrics.signal
    assert values["signal_groups"] == len(pairs(arena.path / "twice")) >= 8
    assert values["signal_calls"] == CALLS * values["signal_groups"]
    groups = len(beside.policy.requests)
    assert len(beside.judge.requests) <= CALLS * groups + values["signal_calls"]
    assert len(without.judge.requests) <= CALLS * len(without.policy.requests)
    assert not without.serving.metrics.signal


async def test_a_meter_whose_judge_hangs_holds_up_nothing(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_GOODBYE_S", 0.05)
    looks: dict[str, int] = {}

    def second_hangs(request: Json, number: int) -> Reply | str:
        shown = json.dumps(request["messages"])
        looks[shown] = looks.get(shown, 0) + 1
        return Reply(hang=True) if looks[shown] > 1 else judging()(request, number)

    once, _ = await trained(arena, "once")
    twice, served = await trained(arena, "twice", TWICE, judge=second_hangs)
    assert twice == once
    assert not pairs(arena.path / "twice") and served.serving.metrics.signal["signal_groups"] == 0


async def test_a_restart_keeps_the_groups(arena: Arena) -> None:
    path = arena.path / "run"
    async with training(2 * GROUP) as trainer:
        async with serve(arena, trainer.url, *flags(path, 8, TWICE)) as served:
            await trainer.take(2)
            await until(lambda: len(pairs(path)) >= 2, "two groups are judged twice")
        before = len(pairs(path))
        last = pairs(path)[-1]
        unsent = {**last, "group": last["group"] + 1}  # the process ended before it was sent
        with (path / MONITOR).open("a") as file:
            file.write(json.dumps({"at": 1, "signal_pair": unsent}) + "\n")
        before += 1
        async with serve(arena, trainer.url, *flags(path, 8, TWICE), "--resume") as served:
            await trainer.take(3)
            await until(lambda: len(pairs(path)) > before, "a further group is judged twice")
            numbers = [pair["group"] for pair in pairs(path)]
            assert len(numbers) == len(set(numbers))
            assert served.serving.metrics.flush(max_token_len=-1)
            assert served.serving._meter.counts["measured"] == len(pairs(path))
            assert served.serving._meter.calls == CALLS * len(pairs(path))
