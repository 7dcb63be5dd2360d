"""Every public class has an example, and each example does what it shows."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import judgegym

MODULES = sorted(f"judgegym.{name}" for name in ("_judges", "_results", "_rl4f", "_table"))


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_run(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0 and results.failed == 0


def test_every_public_class_of_the_face_has_an_example() -> None:
    own = [getattr(judgegym, name) for name in judgegym.__all__]
    lacking = [each.__name__ for each in own if each.__module__.startswith("judgegym") and ">>>" not in each.__doc__]
    assert lacking == []


def test_the_readme_s_python_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(judgegym.__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "judge \\ candidate" in capsys.readouterr().out
