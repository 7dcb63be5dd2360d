"""The house has a budget: what is in `budget.toml` is the most there may be.

A change that needs more raises the number in the same commit, and says why there; one that needs less lowers it.
"""

from __future__ import annotations

import pytest

from tests.command import ROOT
from tests.gate import BUDGET, whole_gate
from tests.house.counting import code_lines, entries, python_files

PACKAGE = ROOT / "judgegym"


@pytest.fixture(scope="module")
def lines_of_the_package() -> int:
    """A second of CPU, which is no test's own."""
    return sum(code_lines(path.read_text(encoding="utf-8")) for path in python_files(PACKAGE))


def test_code_of_the_package(lines_of_the_package: int) -> None:
    assert BUDGET["code_lines"] - BUDGET["slack"] <= lines_of_the_package <= BUDGET["code_lines"]


def test_tests_of_the_gate(request: pytest.FixtureRequest) -> None:
    if not whole_gate(request.config):
        pytest.skip("counts when the whole gate runs")
    assert len(request.session.items) <= BUDGET["collected_tests"]


def test_lines_of_the_tests() -> None:
    assert sum(path.read_bytes().count(b"\n") for path in python_files(ROOT / "tests")) <= BUDGET["test_lines"]


def test_files_of_the_package() -> None:
    assert len(python_files(PACKAGE)) <= BUDGET["files"]


def test_entries_of_each_room() -> None:
    most = BUDGET["entries_of_a_room"]
    assert {room: count for room, count in entries(PACKAGE).items() if count > most} == {}


def test_words_of_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.split()) <= BUDGET["words_of_architecture"]
    assert max(map(len, text.splitlines())) <= BUDGET["longest_line_of_architecture"]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ("# a comment\n\nx = 1  # with one\n", 1),
        ('"""A docstring."""\n\nx = 1\n"""Of an attribute,\nlonger."""\n', 1),
        ('def f():\n    """Say."""\n    return """a\n\nb"""\n', 4),
        ("x = (\n    1,\n    # one\n    2,\n)\n", 4),
    ],
)
def test_count_leaves_out_blanks_comments_and_docstrings(source: str, lines: int) -> None:
    assert code_lines(source) == lines
