"""The page of the trainers: every target has its row and its section, and every example of it is run by a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import judgegym_trainers
from tests.trainers.loops.examples import INDEX, LOSSES, PAGES, examples, section
from tests.trainers.loops.install.targets import TARGETS, Target
from tests.trainers.loops.trainers import HERE

ROOM = Path(judgegym_trainers.__file__).parent
SHARED = {"__init__", "group_rewards", "scores", "single_turn", "verifiers_plugin"}
COLUMNS = ["target", "version tested", "environments as"]
LOSS = ["trainer", "estimator", "form", "a failed judgment", "shown by"]
VERDICTS = {"safe", "mean", "score", "refused"}
LONGEST_START = 18


@dataclass(frozen=True)
class Use:
    """An example that a test takes; `number` is `None` where the test takes several."""

    title: str
    language: str
    number: int | None


def rows() -> dict[str, list[str]]:
    """The cells of each row of the first table, by the link in its first cell."""
    lines = [
        line for line in INDEX.read_text(encoding="utf-8").splitlines() if line.startswith("|")
    ]
    assert _cells(lines[0]) == COLUMNS
    return {_cells(line)[0]: _cells(line) for line in lines[2:] if line.startswith("| [")}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" |")]


def uses() -> Iterator[Use]:
    """Every call of `example` in the tests with the trainers' own packages."""
    for path in HERE.glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "example"
            ):
                given = dict(zip(("target", "language", "number"), node.args, strict=False))
                given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
                values = {
                    name: each.value if isinstance(each, ast.Constant) else None
                    for name, each in given.items()
                }
                number = values.get("number", 0)
                assert isinstance(values["target"], str), (
                    f"{path}: the target is a constant, so that this test finds it"
                )
                language = values.get("language", "python")
                yield Use(
                    values["target"], str(language), number if isinstance(number, int) else None
                )


def named(target: Target) -> Any:
    return pytest.param(target, id=target.name)


def test_every_module_is_a_target_and_every_target_a_module_with_tests() -> None:
    modules = {
        path.stem
        for path in ROOM.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert modules - SHARED == {target.module for target in TARGETS}
    for target in TARGETS:
        assert list((HERE / target.folder).glob("test_*.py")), target.name


def test_each_target_has_a_row_and_a_section() -> None:
    links = {f"[{target.title}](#{target.title.lower().replace(' ', '-')})" for target in TARGETS}
    assert [*rows()] == sorted(links, key=str.casefold)
    assert all(section(target.title) for target in TARGETS)
    assert {*PAGES.glob("*.md")} == {INDEX, LOSSES, PAGES / "new_names.md"}


@pytest.mark.parametrize("target", [named(target) for target in TARGETS])
def test_row_is_filled_with_the_version_that_the_installer_takes(target: Target) -> None:
    (row,) = (cells for link, cells in rows().items() if link.startswith(f"[{target.title}]"))
    assert len(row) == len(COLUMNS) and all(row), row
    assert target.tested in row[1]


@pytest.mark.parametrize("target", [named(target) for target in TARGETS])
def test_a_section_begins_with_what_to_install_to_copy_and_to_look_at(target: Target) -> None:
    """The commands of the start run in `tests/docs`, but for the installation."""
    first, text = section(target.title)
    begins, found, ends = text.partition("\n**Look at** ")
    assert found and "**A failed judge**" in ends
    start = [block for block in examples(target.title) if block.line <= first + begins.count("\n")]
    assert start[0].language == "bash" and len(start) > 1
    installed = re.match(
        r"pip install (?:--no-deps )?-e '?\.(?:\[(?P<extra>[^]]+)\])?", start[0].text
    )
    assert installed is not None, start[0].text
    assert (installed["extra"] or "") in {target.extra, target.folder}
    assert sum(block.text.count("\n") for block in start) <= LONGEST_START


@pytest.mark.slow
@pytest.mark.parametrize("target", [named(target) for target in TARGETS])
def test_every_example_of_a_section_is_taken_by_a_test(target: Target) -> None:
    counts: dict[str, int] = {}
    taken = {use for use in uses() if use.title == target.title} | {
        Use(target.title, "bash", 0)
    }  # its start
    for block in examples(target.title):
        number = counts.setdefault(block.language, 0)
        counts[block.language] += 1
        assert {
            Use(target.title, block.language, number),
            Use(target.title, block.language, None),
        } & taken, block.text
    assert counts, "the section has an example"
    for use in taken:
        assert use.number is None or use.number < counts.get(use.language, 0), use


def losses() -> list[dict[str, str]]:
    """The rows of the table of what a failed judgment adds to the loss."""
    lines = [
        _cells(line)
        for line in LOSSES.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    assert lines[0] == LOSS
    return [dict(zip(LOSS, cells, strict=True)) for cells in lines[2:]]


def test_each_row_of_the_table_of_losses_is_shown_by_a_test_that_is_there() -> None:
    for row in losses():
        assert row["a failed judgment"] in VERDICTS, row
        if row["shown by"] == "read":
            continue
        path, _, name = row["shown by"].strip("`").partition("::")
        tree = ast.parse((HERE.parents[1] / path).read_text())
        functions = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions, row


def test_every_target_with_a_loss_has_rows_and_one_that_is_safe_or_the_mean() -> None:
    safe = {row["trainer"] for row in losses() if row["a failed judgment"] in ("safe", "mean")}
    for target in TARGETS:
        if target.name != "ray":  # the reward server, for any trainer
            assert any(target.title.casefold() in name.casefold() for name in safe), target.title
