"""Every public class has an example, and each example does what it shows."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest

import judgegym
from examples.worst_rows import show_worst
from tests.command import RunFiles, in_process
from tests.house.counting import PACKAGES

ROOT = Path(judgegym.__file__).resolve().parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_run(module: str) -> None:
    results = doctest.testmod(
        importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert results.attempted > 0 and results.failed == 0


def test_every_public_class_but_errors_and_states_has_an_example() -> None:
    public = [getattr(judgegym, name) for name in judgegym.__all__]
    classes = [
        item for item in public if isinstance(item, type) and not issubclass(item, Exception | Enum)
    ]
    assert [
        public_class.__name__ for public_class in classes if ">>> " not in public_class.__doc__
    ] == []


def test_worst_rows_of_a_run_are_shown_with_what_the_judge_was_asked_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    ended = in_process("evaluate", "--offline", "--limit=4", f"--env.data_dir_to_save_evals={run}")
    assert ended.code == 0, ended.said
    capsys.readouterr()
    show_worst(run, 2)
    shown = capsys.readouterr().out
    assert shown.startswith("arena_hard: offline-policy, judged by offline-judge: win rate 0.")
    worst = sorted(
        RunFiles(run).samples, key=lambda sample: (sample["headline"]["total"], sample["uid"])
    )[:2]
    assert re.findall(r"^# (\S+): ", shown, re.MULTILINE) == [sample["uid"] for sample in worst]
    for sample in worst:
        for text in (sample["question"], sample["model_answer"], sample["texts"]["baseline"]):
            assert text in shown
        for game in sample["detail"]["games"]:
            assert f"[[⟦{game['label']}⟧]]" in shown or f"⟦[[{game['label']}]]⟧" in shown
    assert shown.count("answered in") == 6, "the policy and two games for each row"
    assert "Assistant A's Answer" in shown


def test_worst_rows_of_no_run_are_refused_in_one_line(tmp_path: Path) -> None:
    script = ROOT / "examples" / "worst_rows.py"
    for words, said in (([str(tmp_path)], "no run directory"), ([], "usage:")):
        ended = subprocess.run(
            [sys.executable, script, *words], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 1
        assert said in ended.stderr and "Traceback" not in ended.stderr
