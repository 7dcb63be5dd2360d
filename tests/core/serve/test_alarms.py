"""Alarms of a `serve` into the real rollout API: log, pause, exit; and a gold judge that is out of order.

The alarm is that of a limit which every completion exceeds: it comes at the first step.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from judgegym.environments.training import serve as serving
from judgegym.environments.training.serve import ServeRun
from judgegym.judges.config.exit_code import exit_code
from judgegym.monitoring import monitor, pause
from judgegym.monitoring.alarms import AlarmStop
from judgegym.monitoring.gold import GoldJudge
from judgegym.monitoring.pause import request_resume
from tests.arena import Arena
from tests.scripted import Json, Reply, ScriptedEndpoint
from tests.serving import Served, sampling, serve, which
from tests.trainer import (
    POSTS,
    Batch,
    ScriptedServer,
    Trainer,
    free_port,
    passing_on,
    posted,
    training,
    until,
)

GROUP = 2
SOON = (
    f"--env.group_size={GROUP}",
    '--env.monitor_limits={"length_mean": 1, "alarm": true}',
    "--env.max_batches_offpolicy=4",
    "--env.include_messages=True",
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "_STEPS_BEFORE_ALARM", 1)
    monkeypatch.setattr(pause, "_POLL_S", 0.005)


def lines(path: Path, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (path / "monitor.jsonl").read_bytes().splitlines()]
    return [line[kind] for line in found if kind in line]


def requests_of(batches: list[Batch]) -> list[int]:
    """Which request of the policy each group is of."""
    return [which(group["messages"][0][-1]["content"])[1] for batch in batches for group in batch]


def posts(api: ScriptedServer) -> list[int]:
    """The groups that were sent."""
    return requests_of([posted(request) for request in api.asked(*POSTS)])


def held(run: ServeRun) -> bool:
    """Whether all groups in progress have come to an end, and wait."""
    return run._pause.is_paused and 0 < run._outbox.waiting == len(run._workers)


async def taking_until(trainer: Trainer, happened: Callable[[], bool]) -> None:
    async def step() -> bool:
        await trainer.poll()
        return happened()

    await until(step, "what the trainer waits for")


def by_signal(run: Path) -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


@asynccontextmanager
async def paused(
    arena: Arena, trainer: Trainer, *flags: str
) -> AsyncIterator[tuple[Served, ScriptedServer]]:
    """A `serve` that its alarm has paused while groups were in progress, and what lies between it and the trainer.

    Groups 1 to 4 are sent before the alarm; the policy answers for 5 to 8, which have begun, once
    it is paused.
    """
    alarmed = asyncio.Event()

    async def policy(request: Json, number: int) -> Reply:
        if number > 4:
            await alarmed.wait()
        return sampling()(request, number)

    async with (
        aiohttp.ClientSession() as session,
        ScriptedServer(passing_on(trainer.url, session)) as api,
        serve(arena, api.url, *SOON, "--env.on_alarm=pause", *flags, policy=policy) as served,
    ):
        await until(lambda: sorted(posts(api)) == [1, 2, 3, 4], "four groups are sent")
        await served.policy.arrived(8)
        await trainer.take()
        await until(lambda: bool(served.serving.monitor.alarms), "the alarm")
        alarmed.set()
        yield served, api


@pytest.mark.parametrize(
    ("by", "go_on"), [("signal", by_signal), ("page", request_resume), ("time", None)]
)
async def test_a_pause_sends_no_group_and_loses_none(
    arena: Arena, by: str, go_on: Callable[[Path], None] | None
) -> None:
    path = arena.path / "run"
    flags = [
        f"--env.data_dir_to_save_evals={path}",
        "--env.on_alarm=pause" + ("" if go_on else ":0.5"),
    ]
    async with training(2 * GROUP) as trainer, paused(arena, trainer, *flags) as (served, api):
        if go_on is not None:
            await until(
                lambda: held(served.serving), "the groups in progress are finished and wait"
            )
            asked = len(served.policy.requests)
            await trainer.take()
            assert await trainer.poll() is None, "the trainer waits"
            assert sorted(posts(api)) == [1, 2, 3, 4], "no group is sent"
            assert len(served.policy.requests) == asked, "no group begins"
            go_on(path)
        await trainer.take(2)
        await until(lambda: len(posts(api)) >= 8, "the held groups are sent")
        assert sorted(posts(api)[:8]) == [*range(1, 9)], "none is lost, and none is sent twice"
    assert [(line["state"], line["by"]) for line in lines(path, "pause")] == [
        ("paused", "alarm"),
        ("resumed", by),
    ]
    assert len(lines(path, "alarm")) == 1
    assert not (path / "resume").exists()


async def test_an_exit_ends_as_a_signal_does_with_a_code_of_its_own(arena: Arena) -> None:
    path = arena.path / "run"
    flags = (*SOON, "--env.on_alarm=exit", f"--env.data_dir_to_save_evals={path}")
    async with training(2 * GROUP) as trainer:
        with pytest.raises(AlarmStop, match=r"\(env\.on_alarm=exit\): ALARM length") as stop:
            async with serve(arena, trainer.url, *flags) as served:
                await taking_until(trainer, served.run.done)

        def command() -> int:
            raise stop.value

        assert exit_code(command) == 3
        assert lines(path, "end") == [{}]
        async with serve(arena, trainer.url, *flags, "--resume") as served:
            await trainer.take(4)
            assert not served.run.done(), "it is raised once a run"


def rewards(batches: list[Batch]) -> list[bytes]:
    """The scores and texts of each group, without when it came."""
    found = [
        json.dumps([group["scores"], [turns[-1] for turns in group["messages"]]])
        for batch in batches
        for group in batch
    ]
    return sorted(each.encode() for each in found)


def scored(request: Json, number: int) -> Reply | str:
    return "[FEEDBACK] Good. [SCORE] 3"


GOLD: dict[str, Callable[[Json, int], Reply | str]] = {
    "fine": scored,
    "hangs": lambda request, number: Reply(hang=True),
    "refuses": lambda request, number: Reply(status=400),
}


async def trained(
    arena: Arena, name: str, gold: str | None, steps: int = 4
) -> tuple[list[Batch], Json]:
    """The batches of a run with a gold judge at a URL, and what that has counted."""
    path = arena.path / name
    flags = [
        f"--env.group_size={GROUP}",
        "--env.include_messages=True",
        "--env.max_batches_offpolicy=1",
    ]
    flags += [
        f"--env.data_dir_to_save_evals={path}",
        f"--env.total_steps={steps}",
        "--env.max_num_workers=1",
    ]
    if gold is not None:
        settings = {"judge": "rubric", "judge_base_url": gold, "judge_max_retries": 0}
        flags += [f"--env.gold_judge={json.dumps(settings)}", "--env.gold_share=1"]
    async with training(2 * GROUP) as trainer, serve(arena, trainer.url, *flags) as served:
        batches = await trainer.take(steps)
        await served.ended()
    return batches, lines(path, "end")[0].get("gold", {})


@pytest.mark.slow("refuses", "breaks")
@pytest.mark.parametrize("kind", [*GOLD, "away"])
async def test_rewards_are_those_of_a_run_without_a_gold_judge(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Byte for byte; and nothing waits for it, since the run ends while it still hangs."""
    monkeypatch.setattr(GoldJudge, "longest_queue", 3)
    monkeypatch.setattr(
        serving, "_GOODBYE_S", 0.05 if kind in ("hangs", "limited", "away") else 5.0
    )
    without, _ = await trained(arena, "without", None)
    async with ScriptedEndpoint(GOLD.get(kind, scored)) as gold:
        url = gold.base_url if kind != "away" else f"http://127.0.0.1:{free_port()}/v1"
        beside, counts = await trained(arena, "beside", url)
    assert rewards(beside) == rewards(without)
    assert (
        counts[
            "scored"
            if kind == "fine"
            else "failed"
            if kind in ("refuses", "breaks")
            else "left_out"
        ]
        > 0
    )
    assert (counts["scored"] == 0) == (kind != "fine")
