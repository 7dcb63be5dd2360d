"""Ctrl-C, SIGTERM and a kill: the command that resumes is printed, and no stand-in stays behind."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.command import SCRIPT, Ended, Started, eventually


def resume_command(ended: Ended) -> list[str]:
    """The last command that a stopped command prints, as words; a hint about keys may follow it."""
    *_, line = (line for line in ended.err.splitlines() if line.strip().startswith(sys.executable))
    words = shlex.split(line)
    assert words[0] == sys.executable
    return words[1:]


def children(pid: int) -> set[int]:
    """The processes that a process started."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_no_stand_in_outlives_the_command(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with Started(
        str(SCRIPT), "evaluate", "--offline", '--faults={"latency_ms": 600000}', cwd=tmp_path
    ) as started:
        started.until(lambda: bool(list(tmp_path.glob("runs/*/config.yaml"))), "a run directory")
        pid = started.process.pid
        stand_ins = children(pid)
        assert len(stand_ins) == 2
        started.send(number)
        ended = started.ended()
    assert ended.code == code
    assert "Traceback" not in ended.said
    if number != signal.SIGKILL:
        (run,) = (tmp_path / "runs").iterdir()
        words = resume_command(ended)
        assert words[-2:] == [f"--env.data_dir_to_save_evals=runs/{run.name}", "--resume"]
    eventually(lambda: not any(is_running(child) for child in stand_ins), "no stand-in runs")
