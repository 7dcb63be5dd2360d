"""`live.jsonl`: replaced as a whole, never waited for, and the last one wins."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from judgegym.engine.runs.disk import write_atomic
from judgegym.monitoring import live_file
from judgegym.monitoring.kept_groups import PageGroups
from judgegym.monitoring.live_file import LiveFile, iter_live_lines
from judgegym.monitoring.monitor import MonitorTarget, TrainingMonitor
from judgegym.monitoring.settings import MonitorSettings
from tests.core.monitoring.watched import group, rollout
from tests.trainer import until


def judged(*numbers: int) -> PageGroups:
    kept = PageGroups()
    for number in numbers:
        kept.add(group(number, rollout(f"text {number}", 1.0)))
    return kept


def read(path: Path) -> tuple[dict[str, object], list[int]]:
    status, *groups = map(json.loads, path.read_text().splitlines())
    return status["status"], [line["group"]["number"] for line in groups]


async def test_it_has_the_status_and_the_groups_and_follows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_file, "INTERVAL_S", 0.01)
    kept, path = judged(1, 2), tmp_path / "live.jsonl"
    live = LiveFile(path, {"": kept}, lambda: {"step": 7, "dropped": {"too_long": 1}}, write_atomic)
    running = asyncio.create_task(live.run())
    await until(path.exists, "the first file")
    status, numbers = read(path)
    assert (status["step"], status["groups"], status["is_over"], numbers) == (7, 2, False, [1, 2])
    kept.add(group(3, rollout("text", 1.0)))
    await until(lambda: read(path)[1] == [1, 2, 3], "the next group")
    running.cancel()
    await live.write(is_over=True)
    assert read(path)[0]["is_over"] is True


async def test_a_run_that_is_resumed_goes_on_with_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    await LiveFile(path, {"": judged(1, 2, 3)}, dict, write_atomic).write()
    monitor = TrainingMonitor(
        MonitorSettings(), MonitorTarget(0, "a-judge"), write=len, on_alarm=print
    )
    monitor.begin(tmp_path)
    assert monitor.groups == 3
    with path.open("ab") as damaged:
        damaged.write(b'\x00\xff\n[1]\n{}\n{"b":')
    assert len([*iter_live_lines(path)]) == 4
    assert [*iter_live_lines(tmp_path / "none")] == []


async def test_a_disk_that_refuses_is_said_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    live = LiveFile(tmp_path / "live.jsonl", {"": judged(1)}, dict, refuse)
    for _ in range(2):
        await live.write()
        assert caplog.text.count("cannot be written") == 1


async def test_a_write_that_comes_late_does_not_replace_the_last_one(tmp_path: Path) -> None:
    """Its waiter was cancelled while its thread waited for the disk."""
    path, is_slow, release, begun = (
        tmp_path / "live.jsonl",
        [True],
        threading.Event(),
        threading.Event(),
    )

    def slow(target: Path, content: bytes) -> None:
        if is_slow.pop() if is_slow else False:
            begun.set()
            assert release.wait(60)
        write_atomic(target, content)

    live = LiveFile(path, {"": judged(1)}, dict, slow)
    first = asyncio.create_task(live.write())
    await until(begun.is_set, "the first write")
    first.cancel()
    last = asyncio.create_task(live.write(is_over=True))
    await asyncio.sleep(0)
    release.set()
    await last
    assert read(path)[0]["is_over"] is True
