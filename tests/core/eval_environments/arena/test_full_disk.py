"""An evaluation whose disk is full: it waits, and if that does not help it ends so that it can be resumed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from judgegym.engine.runs import disk as disks
from tests.arena import Arena
from tests.core.engine.runs.full_disk import RefusingDisk


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena(tmp_path).rows(12)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "_RETRY_S", 0.01)


@pytest.mark.slow
def test_disk_that_has_room_again_costs_no_row_and_no_call(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = arena.evaluate(run="whole")
    disk = RefusingDisk(room=2500, most=100)
    with monkeypatch.context() as patch:
        disk.everywhere(patch)
        room = threading.Thread(target=lambda: (_full(disk), setattr(disk, "room", 1 << 40)))
        room.start()
        run = arena.evaluate()
        room.join()
    assert run.code == 0, run.said
    assert run.files.without_run() == whole.files.without_run()
    assert (len(run.judge.requests), len(run.policy.requests)) == (24, 12)
    assert run.said.count(": No space left on device") == 1
    assert "written to again" in run.said


def _full(disk: RefusingDisk) -> None:
    """Wait until the disk is full, and a little longer."""
    while disk.room > 0:
        time.sleep(0.01)
    time.sleep(0.1)


def test_calls_that_wait_for_a_slot_when_the_disk_gets_full_are_not_sent(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RefusingDisk(room=1)
    with monkeypatch.context() as patch:
        disk.everywhere(patch, deadline_s=0.3)
        stopped = arena.evaluate("--openai.num_requests_for_eval=1")
    assert stopped.code == 2, stopped.said
    assert len(stopped.policy.requests) == 1, "the one that was in flight"
