"""Environments of one's own: a file or a module's class, and what is said of one that cannot be used."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.command import ROOT, RunFiles
from tests.core.cli.command import PROGRAM, judgegym

CONSTITUTION = ROOT / "examples" / "own_environment" / "constitution_environment.py"
OWN = CONSTITUTION.read_text(encoding="utf-8")
SECOND = (
    "\n\nclass StricterEnv(ConstitutionEnv):\n    spec = replace(ConstitutionEnv.spec, "
    "name='stricter')\n"
)
WITHOUT_SPEC = OWN.replace("    spec = EnvSpec(", "    _ = EnvSpec(")
PASSIVE = "from examples.own_environment.constitution_environment import ConstitutionEnv\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a package of one's own."""
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text(OWN, encoding="utf-8")
    (package / "two.py").write_text(OWN + SECOND, encoding="utf-8")
    shutil.copy(CONSTITUTION.with_name("questions.jsonl"), package)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("mine/one.py", "constitution"),
        ("./mine/one.py", "constitution"),
        ("mine/two.py:StricterEnv", "stricter"),
        ("mine.one", "constitution"),
        ("mine.two:ConstitutionEnv", "constitution"),
        ("judgegym.eval_environments.arena_hard_environment:ArenaHardEnv", "arena_hard"),
        (str(ROOT / "environments" / "rubric_absolute_environment.py"), "rubric_absolute"),
    ],
)
def test_environment_of_a_file_or_a_class_is_evaluated(word: str, name: str, here: Path) -> None:
    ended = judgegym("evaluate", word, "--offline", "--limit=1", cwd=here)
    assert ended.code == 0, ended.err
    (run,) = (here / "runs").iterdir()
    assert run.name.startswith(f"{name}--")
    assert len(RunFiles(run).samples) == 1


@pytest.mark.slow
def test_file_imports_what_lies_beside_it(here: Path) -> None:
    (here / "mine" / "beside.py").write_text(
        "from one import ConstitutionEnv\n\n\nclass Env(ConstitutionEnv): ...\n"
    )
    ended = judgegym("evaluate", "mine/beside.py", "--help", cwd=here)
    assert ended.code == 0, ended.err
    assert f"{PROGRAM} evaluate mine/beside.py" in ended.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("", ("bad.py: no environment", "MyEnv(JudgedEnv[…])")),
        ("def broken(:", ("bad.py: ", "SyntaxError: ")),
        (
            "\nimport nothing_like_it",
            ("bad.py, line 2: ModuleNotFoundError: No module named 'nothing_like_it'",),
        ),
        ("\n\nraise ValueError('one\\n  two')", ("bad.py, line 3: ValueError: one two",)),
        ("import sys; sys.exit(3)", ("bad.py", "ends the process", "`if __name__")),
        (
            WITHOUT_SPEC,
            ("TypeError: the environment ConstitutionEnv: ", "`spec` is missing", "spec = Env"),
        ),
        (OWN + SECOND, ("2 environments", "bad.py:ConstitutionEnv or bad.py:StricterEnv")),
        (
            OWN.replace("def tasks(", "def task("),
            ("ConstitutionEnv is no environment", "the method tasks (it has task)"),
        ),
        (
            OWN.replace("[ConstitutionConfig, Question, Breaches]", ""),
            ("type parameters", "class MyEnv("),
        ),
        (PASSIVE, ("bad.py: no environment", "MyEnv(JudgedEnv[…])")),
        ("import datasets_that_are_not\n", ("ModuleNotFoundError",)),
    ],
)
def test_file_without_one_environment_is_told_in_a_line(
    content: str, facts: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(content, encoding="utf-8")
    ended = judgegym("evaluate", "bad.py", "--offline", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert all(fact in ended.err for fact in facts), ended.err
    assert "Traceback" not in ended.err and ended.err.count("\n") == 1


@pytest.mark.slow
def test_judge_that_returns_no_judgment_ends_the_command_in_a_line(here: Path) -> None:
    code = OWN.replace("return await self.answer_judge.judge(", "return bool(")
    (here / "mine" / "one.py").write_text(code, encoding="utf-8")
    ended = judgegym("evaluate", "mine/one.py", "--offline", "--limit=2", cwd=here)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith("ConstitutionEnv.judge ")
    assert "type bool" in ended.err and "expected a Judgment" in ended.err


@pytest.mark.slow
def test_headline_that_nothing_adds_to_is_told(here: Path) -> None:
    code = OWN.replace('metrics.mean("mean_reward"', 'metrics.mean("mean_rewrad"')
    (here / "mine" / "one.py").write_text(code, encoding="utf-8")
    ended = judgegym("evaluate", "mine/one.py", "--offline", "--limit=2", cwd=here)
    assert re.search(
        r"eval/mean_reward is left out: .*\brecord_metrics\b", " ".join(ended.out.split())
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("absent.py", "absent.py: no such file; .*path/to/file.py, "),
        ("mine", "no environment 'mine'"),
        ("./mine", "./mine: a folder; expected"),
        ("mine/notes.txt", "mine/notes.txt: .*Python file"),
        ("mine.one:Constitution", "no environment Constitution, did you mean ConstitutionEnv"),
        ("mine.one:Zzz", "environments in it: ConstitutionEnv"),
        ("mine.absent:Env", "mine.absent:Env: cannot be imported: "),
        ("mine/one.py:Zzz", "mine/one.py:Zzz: no environment Zzz"),
        ("one", "no environment 'one'"),
    ],
)
def test_word_that_names_no_environment_is_told(word: str, said: str, here: Path) -> None:
    (here / "mine" / "notes.txt").touch()
    ended = judgegym("process", word, "--offline", cwd=here)
    assert (ended.code, ended.out) == (2, "")
    assert re.search(said, ended.err) and "Traceback" not in ended.err


@pytest.mark.slow
def test_name_of_a_file_without_its_ending_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "one.py").touch()
    assert "is here: one.py)" in judgegym("evaluate", "one", cwd=tmp_path).err


@pytest.mark.parametrize(("command", "code"), [("evaluate", -signal.SIGINT), ("list", 130)])
def test_ctrl_c_while_a_file_is_imported_ends_without_a_traceback(
    command: str, code: int, tmp_path: Path
) -> None:
    slow = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    (tmp_path / "slow.py").write_text(slow)
    ended = judgegym(command, "slow.py", cwd=tmp_path)
    assert (ended.code, ended.out, ended.err) == (code, "", "")
