"""An evaluation whose disk is full: it waits, and if that does not help it ends so that it can be resumed."""

from __future__ import annotations

import random
import re
import shlex
import signal
import threading
import time
from pathlib import Path

import pytest

from judgegym.engine.runs import disk as disks
from tests.arena import Arena, answering, for_model, judge
from tests.command import SCRIPT, Started, in_process, serving
from tests.core.engine.runs.full_disk import RefusingDisk
from tests.forking import ROOT

LIMITED = """
import os, resource, runpy, sys
from judgegym.engine.runs import disk
disk.DEADLINE_S = float(os.environ.get("DEADLINE_S", disk.DEADLINE_S))
limit = int(os.environ["FILE_LIMIT"])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
sys.argv[0] = os.environ["SCRIPT"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena(tmp_path).rows(12)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "_RETRY_S", 0.01)


@pytest.mark.slow
def test_disk_that_has_room_again_costs_no_row_and_no_call(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert run.said.count("cannot be written to: No space left on device") == 1
    assert "can be written to again" in run.said


def _full(disk: RefusingDisk) -> None:
    """Wait until the disk is full, and a little longer."""
    while disk.room > 0:
        time.sleep(0.01)
    time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, *random.Random(13).sample(range(1, 6000), 5)])
def test_disk_that_stays_full_ends_the_run_with_one_message_and_the_resumed_run_is_as_if_nothing_was(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    whole = arena.evaluate(run="whole")
    disk = RefusingDisk(room=1, most=37)
    with monkeypatch.context() as patch:
        disk.everywhere(patch, deadline_s=0.1)
        disk.room = room + 1  # config.yaml needs a byte
        stopped = arena.evaluate()
    assert stopped.code == 2, stopped.said
    assert "Traceback" not in stopped.said
    assert re.search(r"^the run was stopped: .*No space left on device", stopped.ended.err, re.MULTILINE)
    command = shlex.split(stopped.ended.err.splitlines()[-1])
    assert command[-1] == "--resume"
    for path in stopped.files.path.glob("*.jsonl"):
        data = path.read_bytes()
        assert data.endswith(b"\n") or not data, f"{path.name} is torn"
    resumed = arena.evaluate("--resume")
    assert resumed.code == 0, resumed.said
    assert resumed.files.without_run() == whole.files.without_run()
    assert stopped.files.metrics["win_rate"] == whole.files.metrics["win_rate"]


@pytest.mark.slow
def test_limit_of_the_operating_system_ends_the_run_as_a_full_disk_does(arena: Arena, tmp_path: Path) -> None:
    """Real short writes and a real EFBIG, in appended and in replaced files."""
    whole = arena.evaluate(run="whole")
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    with serving(judge(for_model)) as judging, serving(answering) as policy:
        argv = arena.argv(judging.base_url, policy.base_url)
        limit = len((whole.files.path / "config.yaml").read_bytes()) + 1000
        limits = {"FILE_LIMIT": str(limit), "SCRIPT": str(SCRIPT), "DEADLINE_S": "0.2"}
        with Started(str(script), *argv, cwd=ROOT, env=limits) as started:
            ended = started.ended()
        assert ended.code == 2, ended.said
        assert "File too large" in ended.err
        assert "Traceback" not in ended.said
        resumed = in_process(*argv, "--resume")
    assert resumed.code == 0, resumed.said
    assert arena.files().without_run() == whole.files.without_run()
    assert arena.files().metrics["win_rate"] == whole.files.metrics["win_rate"]


@pytest.mark.slow
def test_no_call_begins_while_the_disk_is_full(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy has been asked for all rows before the first answer is refused; then the judge is not asked."""
    disk = RefusingDisk(room=1)
    with monkeypatch.context() as patch:
        disk.everywhere(patch, deadline_s=0.3)
        stopped = arena.evaluate()
    assert stopped.code == 2, stopped.said
    assert 1 <= len(stopped.policy.requests) <= 12
    assert stopped.judge.requests == []
    assert re.search(r"calls\.jsonl: \d+ lines could not be written and are lost", stopped.said)
    resumed = arena.evaluate("--resume")
    assert (resumed.code, len(resumed.files.samples)) == (0, 12), resumed.said


def is_at_rest(path: Path, seconds: float = 1.5) -> bool:
    """Whether a file has lines and does not grow; how near the limit its last line ends depends on their order."""
    before = path.stat().st_size if path.exists() else 0
    time.sleep(seconds)
    return 0 < before == path.stat().st_size


@pytest.mark.slow
def test_interruption_while_the_disk_is_full_says_what_is_lost_and_how_to_resume(arena: Arena, tmp_path: Path) -> None:
    whole = arena.evaluate(run="whole")
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    with serving(judge(for_model)) as judging, serving(answering) as policy:
        argv = arena.argv(judging.base_url, policy.base_url)
        limit = len((whole.files.path / "config.yaml").read_bytes()) + 1000
        environment = {"FILE_LIMIT": str(limit), "SCRIPT": str(SCRIPT)}
        with Started(str(script), *argv, cwd=ROOT, env=environment) as started:
            path = arena.files().path / "calls.jsonl"
            started.until(lambda: is_at_rest(path), "the limit is reached")
            started.process.send_signal(signal.SIGINT)
            ended = started.ended()
        assert ended.code == 130, ended.said
        assert "Traceback" not in ended.said
        assert "could not be written and are lost" in ended.err
        assert ended.err.rstrip().endswith("--resume")
        assert in_process(*argv, "--resume").code == 0
    assert arena.files().without_run() == whole.files.without_run()


def test_calls_that_wait_for_a_slot_when_the_disk_gets_full_are_not_sent(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RefusingDisk(room=1)
    with monkeypatch.context() as patch:
        disk.everywhere(patch, deadline_s=0.3)
        stopped = arena.evaluate("--openai.num_requests_for_eval=1")
    assert stopped.code == 2, stopped.said
    assert len(stopped.policy.requests) == 1, "the one that was in flight"
