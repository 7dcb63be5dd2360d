"""`judgegym completion`: a real bash completes commands, environments, settings and their values."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from judgegym.cli.commands import COMMANDS
from judgegym.cli.environments import built_in_modules
from judgegym.judges.config.extras import install_command
from tests.command import PATIENCE_S, ROOT, clean_environment
from tests.core.cli.command import judgegym
from tests.core.cli.distributions import install_hello

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

ASK = """
complete_line() {
    COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMPREPLY=()
    _python_argcomplete judgegym
    printf '%s\\n' "${COMPREPLY[@]}"
}
"""
OWN = shlex.quote(str(ROOT / "examples" / "own_environment" / "constitution_environment.py"))


@pytest.fixture(scope="module")
def on_path(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the shell finds `judgegym`."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "judgegym"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nfrom judgegym.cli.entry import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    variables = clean_environment()
    return {**variables, "PATH": f"{folder}{os.pathsep}{variables['PATH']}"}


def completions(line: str, env: dict[str, str], cwd: Path) -> list[str]:
    """What bash would offer for a line."""
    code = f"source <(judgegym completion bash)\n{ASK}\ncomplete_line {shlex.quote(line)}"
    ended = subprocess.run(
        ["bash", "-c", code], env=env, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.stderr == ""
    return [word.rstrip() for word in ended.stdout.splitlines() if word]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("judgegym ", [*COMMANDS, *metadata.entry_points(group="judgegym.commands").names]),
        ("judgegym eval", ["evaluate"]),
        ("judgegym evaluate ", list(built_in_modules())),
        ("judgegym process rub", ["rubric_absolute", "rubric_checklist"]),
        ("judgegym list ar", ["arena_hard"]),
        ("judgegym evaluate min", ["mine.py"]),
        ("judgegym evaluate arena-hard --env.judge_tem", ["--env.judge_temperature"]),
        ("judgegym evaluate arena_hard --resume --env.style_control=", ["true", "false"]),
        ("judgegym evaluate arena_hard --env.style_control tr", ["true"]),
        ("judgegym serve arena_hard --openai.server_type ", ["openai", "trl", "sglang", "vllm"]),
        ("judgegym evaluate arena_hard --openai.server_ty", []),
        ("judgegym serve arena_hard --config arena", ["arena_hard_evaluate", "arena_hard_train"]),
        ("judgegym serve arena_hard --config=mi", ["mine.yaml"]),
        ("judgegym evaluate arena_hard --env.train_prompt_dataset=mine.j", ["mine.jsonl"]),
        ("judgegym evaluate arena_hard --env.judge_temperature ", []),
        (f"judgegym evaluate {OWN} --env.princ", ["--env.principles"]),
        ("judgegym evaluate nonsense --env", []),
        ("judgegym judge-server --judge arena", ["arena_hard"]),
        ("judgegym score --judge mi", ["mine.jsonl", "mine.py", "mine.yaml"]),
        ("judgegym evaluate prompts --env.judge ju", ["jury"]),
        ("judgegym score --judge=rubric --stric", ["--strictness"]),
        ("judgegym score --judge cascade --cascade_th", ["--cascade_threshold"]),
        ("judgegym offline-server --prom", ["--prompt"]),
        (
            "judgegym compare runs --across",
            ["--across_data", "--across_judges", "--across_protocols"],
        ),
        ("judgegym report runs --order wo", ["worst"]),
        ("judgegym view --po", ["--port"]),
        ("judgegym completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_bash_completes(
    line: str, expected: list[str], on_path: dict[str, str], tmp_path: Path
) -> None:
    for name in ("mine.py", "mine.yaml", "mine.jsonl"):
        (tmp_path / name).touch()
    assert sorted(completions(line, on_path, tmp_path)) == sorted(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("judgegym hel", ["hello"]),
        ("judgegym hello ", ["ann", "bob"]),
        ("judgegym shout ", []),
        ("judgegym evaluate own", ["own_haiku"]),
        ("judgegym list own", ["own_haiku"]),
        ("judgegym broken ", []),
    ],
)
def test_bash_completes_names_of_distributions(
    line: str, expected: list[str], on_path: dict[str, str], tmp_path: Path
) -> None:
    install_hello(tmp_path)
    variables = {**on_path, "PYTHONPATH": f"{on_path['PYTHONPATH']}{os.pathsep}{tmp_path}"}
    assert sorted(completions(line, variables, tmp_path)) == expected


@pytest.mark.slow
def test_tab_in_an_interactive_bash_completes_the_line(
    on_path: dict[str, str], tmp_path: Path
) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execvpe(
            "bash",
            ["bash", "--norc", "--noprofile", "-i"],
            {**on_path, "PS1": "$ ", "TERM": "dumb"},
        )
    try:
        os.write(terminal, b"source <(judgegym completion bash)\n")
        os.write(terminal, b"judgegym evaluate arena_h\t--env.judge_tem\t")
        shown, deadline = b"", time.monotonic() + PATIENCE_S
        while b"judgegym evaluate arena_hard --env.judge_temperature" not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 4096)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_code_for_each_shell_names_the_command(shell: str, tmp_path: Path) -> None:
    ended = judgegym("completion", shell, cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "judgegym" in ended.out and "_ARGCOMPLETE" in ended.out


def test_unknown_shell_is_said_with_exit_code_2(tmp_path: Path) -> None:
    ended = judgegym("completion", "csh", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "invalid choice: 'csh'" in ended.err


@pytest.mark.slow
def test_missing_argcomplete_is_said_with_the_extra(tmp_path: Path) -> None:
    code = "import sys; sys.modules['argcomplete'] = None; from judgegym.cli.commands import main"
    code += "; sys.exit(main(['completion', 'bash']))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"argcomplete is not installed: {install_command('completion')}\n"
