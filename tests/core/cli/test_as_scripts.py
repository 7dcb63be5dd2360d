"""`judgegym VERB ENV …` writes what the environment's script writes, and what it prints can be pasted."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from judgegym.cli.commands import find_program
from judgegym.cli.environments import built_in_modules
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.environments.command_line.program import Program
from tests.command import ROOT, RunFiles, Started, as_process
from tests.core.cli.command import judgegym

OF_TIME = ("date", "total_evaluation_time_seconds")


def script_of(name: str) -> str:
    return str(ROOT / f"{built_in_modules()[name].replace('.', '/')}.py")


def metrics_of(run: RunFiles) -> dict[str, Any]:
    """What metrics.json holds, without dates and durations."""
    report = run.report
    general = {
        name: value for name, value in report["config_general"].items() if name not in OF_TIME
    }
    known = {name: value for name, value in run.metrics.items() if "latency" not in name}
    return {"general": general, "metrics": known}


def calls_of(folder: Path) -> list[tuple[Any, ...]]:
    """What was asked and answered, in an order that no race decides."""
    found = []
    for call in read_calls(folder):
        texts = [choice.text for choice in call.answer.choices]
        found.append((call.row, call.component, call.vote, str(call.messages), texts))
    assert found
    return sorted(found)


@pytest.mark.slow
def test_evaluate_writes_the_files_of_the_script(tmp_path: Path) -> None:
    flags = ["evaluate", "--offline", "--limit=3", "--env.data_dir_to_save_evals=run"]
    folders = tmp_path / "script", tmp_path / "command"
    for folder in folders:
        folder.mkdir()
    assert as_process(*flags, script=script_of("arena_hard"), cwd=folders[0]).code == 0
    ended = judgegym("evaluate", "arena-hard", *flags[1:], cwd=folders[1])
    assert ended.code == 0, ended.err
    script, command = (RunFiles(folder / "run") for folder in folders)
    assert sorted(path.name for path in script.path.iterdir()) == sorted(
        path.name for path in command.path.iterdir()
    )
    assert script.without_run() == command.without_run()
    for exact in ("config.yaml", "failures.jsonl"):
        assert (script.path / exact).read_bytes() == (command.path / exact).read_bytes()
    assert metrics_of(script) == metrics_of(command)
    assert calls_of(script.path) == calls_of(command.path)


@pytest.mark.slow
def test_resume_command_of_a_stopped_run_can_be_pasted(tmp_path: Path) -> None:
    words = ["evaluate", "arena-hard", "--offline", "--limit=2", '--faults={"latency_ms": 600000}']
    with Started("-m", "judgegym", *words, cwd=tmp_path) as started:
        started.until(lambda: bool(list(tmp_path.glob("runs/*/config.yaml"))), "a run directory")
        started.send(signal.SIGINT)
        ended = started.ended()
    assert (ended.code, "Traceback" in ended.err) == (130, False)
    (run,) = (tmp_path / "runs").iterdir()
    *_, last = ended.err.splitlines()
    pasted = shlex.split(last)
    assert pasted[:5] == [sys.executable, "-m", "judgegym", "evaluate", "arena-hard"]
    assert pasted[-2:] == [f"--env.data_dir_to_save_evals=runs/{run.name}", "--resume"]
    pasted.remove('--faults={"latency_ms": 600000}')
    with Started(*pasted[1:], cwd=tmp_path) as again:
        assert again.ended().code == 0
    assert len(RunFiles(run).samples) == 2


@pytest.mark.parametrize(
    ("typed", "on_path", "expected"),
    [
        ("bin/judgegym", True, ("judgegym",)),
        ("bin/judgegym", False, ("bin/judgegym",)),
        ("other/judgegym", True, ("other/judgegym",)),
    ],
)
def test_program_is_called_as_the_shell_finds_it(
    typed: str,
    on_path: bool,
    expected: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("bin", "other"):
        Path(folder).mkdir()
        shutil.copy("/bin/true", Path(folder) / "judgegym")
    monkeypatch.setenv("PATH", str(tmp_path / "bin") if on_path else "/nowhere")
    monkeypatch.setattr(sys, "argv", [typed, "list"])
    assert find_program() == Program(expected, expected)


def test_program_run_as_a_module_is_called_by_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/anywhere/judgegym/__main__.py", "list"])
    assert find_program() == Program(
        ("python", "-m", "judgegym"), (sys.executable, "-m", "judgegym")
    )
