"""The names of plugins that configurations hold: each is there, none is missing, and the earlier ones are gone."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.forking import ROOT

NEW = (
    "judgegym_trainers.art",
    "judgegym_trainers.inspect_ai",
    "python -m judgegym_trainers.nemo_gym",
    "judgegym_trainers.nemo_gym.resources_server",
    "python -m judgegym_trainers.openenv",
    "judgegym_trainers.openenv.app:app",
    "judgegym_trainers.openenv.client",
    "judgegym_trainers.openenv.rubric",
    "judgegym_trainers.openrlhf",
    "judgegym_trainers/openrlhf.py",
    "judgegym_trainers.ray_serve:app",
    "judgegym_trainers.rllm",
    "judgegym_trainers.skyrl_gym",
    "judgegym_trainers.skyrl_gym.generator",
    "judgegym_trainers.slime.reward",
    "judgegym_trainers.tinker.datasets:EnvironmentDatasetBuilder",
    "judgegym_trainers.tinker.datasets:PromptDatasetBuilder",
    "judgegym_trainers.trl",
    "pkg://judgegym_trainers.verl",
    "judgegym_trainers/verl/function.py",
    "pkg://judgegym_trainers.verl.manager",
    "judgegym_trainers.verl.loop.JudgeAgentLoop",
    "python -m judgegym_trainers.verl",
    "judgegym_trainers.verl.dataset",
)
"""What `docs/trainers/new_names.md` calls the new names."""

_NAME = re.compile(
    r"\bjudgegym_trainers(?:\.[A-Za-z_]\w*)+(?::\w+)?|\bjudgegym_trainers(?:/\w+)+\.py"
)
_FOLDERS = ("docs", "examples", "deploy", "benchmarks")
_READ = {".md", ".py", ".toml", ".yaml", ".yml", ".json", ".ipynb", ".sh", ""}


def _shown() -> list[Path]:
    """Files that a reader copies names from: not the tools that write the pages."""
    found = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    skipped = {"__pycache__", "tools"}
    return [
        ROOT / "README.md",
        *(path for path in found if path.suffix in _READ and not skipped & {*path.parts}),
    ]


@cache
def _bound(module: Path) -> frozenset[str]:
    """The names at the top of a module, those that it imports late included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_bytes())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return frozenset(names)


def _module(dotted: str) -> Path | None:
    place = ROOT.joinpath(*dotted.split("."))
    return next(
        (path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None
    )


def _is_there(name: str) -> bool:
    """Whether a name is a module, a name in one, a command of `python -m`, or a file; no trainer is needed to tell."""
    if "/" in name.removeprefix("pkg://"):
        return (ROOT / name).is_file()
    dotted = name.removeprefix("pkg://").removeprefix("python -m ").replace(":", ".")
    module = _module(dotted)
    if name.startswith("python -m "):
        return module is not None and (
            module.name != "__init__.py" or (module.parent / "__main__.py").is_file()
        )
    if module is not None:
        return True
    within, _, last = dotted.rpartition(".")
    module = _module(within)
    return module is not None and last in _bound(module)


@pytest.mark.parametrize("new", NEW)
def test_a_new_name_is_there_and_the_earlier_one_is_gone(new: str) -> None:
    earlier = "judgegym/integrations" if "judgegym_trainers/" in new else "judgegym.integrations"
    assert _is_there(new)
    assert not _is_there(new.replace("judgegym_trainers", earlier))


def test_what_the_handbook_and_the_examples_name_is_there_and_a_new_name() -> None:
    listed = {_dotted(new) for new in NEW}
    for path in _shown():
        text = path.read_bytes()
        for name in _NAME.findall(text.decode()) if b"judgegym_trainers" in text else ():
            assert _is_there(name), f"{path}: {name}"
            assert _dotted(name) in listed, f"{path}: {name}"


def _dotted(name: str) -> str:
    """The module that a name is of."""
    return re.sub(r"^pkg://|^python -m |\.py$|:\w+$", "", name).replace("/", ".")
