"""Ctrl-C and SIGTERM: what is finished is kept, the command that resumes is printed, nothing stays behind."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.arena import Arena, answering, for_model, judge, uid_of
from tests.command import SCRIPT, Ended, Started, eventually, serving
from tests.scripted import Json, Reply

KEY = "sk-very-secret-0123456789"


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
def test_ctrl_c_prints_the_command_that_finishes_the_run(arena: Arena) -> None:
    finishing = {"row-0", "row-3"}
    sound = judge(for_model)
    stopped = False

    def script(request: Json, number: int) -> Reply | str:
        hangs = not stopped and uid_of(request) not in finishing
        return Reply(hang=True) if hangs else sound(request, number)  # type: ignore[return-value]

    files = arena.files()
    with serving(script) as judging, serving(answering) as policy:
        flags = [f"--env.judge_api_key={KEY}", "--openai.api_key", KEY, '--env.custom_system_prompt=It\'s `me` & "you"']
        argv = arena.argv(judging.base_url, policy.base_url, *flags)
        with Started(str(SCRIPT), *argv, cwd=arena.path) as started:
            samples = files.path / "samples.jsonl"
            started.until(lambda: samples.exists() and len(files.samples) == 2, "two rows on disk")
            started.until(lambda: judging.in_flight == 8, "the other rows under way")
            started.send(signal.SIGINT)
            first = started.ended()
        assert first.code == 130
        assert "Traceback" not in first.said
        assert "winrate" not in first.said
        assert not (files.path / "metrics.json").exists()
        kept = {sample["uid"]: sample for sample in files.samples}
        assert set(kept) == finishing

        stopped = True
        asked_before = len(judging.requests)
        with Started(*resume_command(first), cwd=arena.path) as again:
            second = again.ended()
        assert second.code == 0, second.said
        assert {uid_of(request.json) for request in judging.requests[asked_before:]}.isdisjoint(finishing)
        assert all("you" in request.json["messages"][0]["content"] for request in policy.requests)
    for said in (first.said, second.said, *files.texts()):
        assert KEY not in said
    undisturbed = arena.evaluate('--env.custom_system_prompt=It\'s `me` & "you"', run="undisturbed").files
    assert files.without_run() == undisturbed.without_run()
    assert {sample["uid"]: sample for sample in files.samples if sample["uid"] in finishing} == kept


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_no_stand_in_outlives_the_command(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with Started(str(SCRIPT), "evaluate", "--offline", '--faults={"latency_ms": 600000}', cwd=tmp_path) as started:
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
    eventually(lambda: not any(is_running(child) for child in stand_ins), "the end of the stand-ins")
