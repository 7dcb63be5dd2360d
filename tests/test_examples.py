"""Every public class has an example, and each example does what it shows."""

from __future__ import annotations

import doctest
import importlib
import re
from enum import Enum
from pathlib import Path

import pytest

import judgegym

ROOT = Path(judgegym.__file__).resolve().parents[1]
PACKAGES = ("judgegym", "judges", "environments", "eval_environments")
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_run(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0 and results.failed == 0


def test_every_public_class_but_errors_and_states_has_an_example() -> None:
    public = [getattr(judgegym, name) for name in judgegym.__all__]
    classes = [public_class for public_class in public if not issubclass(public_class, Exception | Enum)]
    assert [public_class.__name__ for public_class in classes if ">>> " not in public_class.__doc__] == []


def test_the_readme_s_python_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "judge \\ candidate" in capsys.readouterr().out
