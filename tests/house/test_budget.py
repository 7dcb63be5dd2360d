"""The house has a budget: what is in `budget.toml` is the most there may be.

A change that needs more raises the number in the same commit, and says why there; one that needs
less lowers it.
"""

from __future__ import annotations

import pytest

from tests.command import ROOT
from tests.gate import BUDGET, whole_gate
from tests.house.counting import (
    PACKAGES,
    Size,
    count_code_lines,
    count_entries,
    count_nodes,
    count_words,
    measure,
)


@pytest.fixture(scope="module")
def sizes() -> dict[str, Size]:
    """The packages and the tests: seconds of CPU, which are no test's own."""
    return {name: measure(ROOT / name, with_lines=name != "tests") for name in (*PACKAGES, "tests")}


def test_sizes(sizes: dict[str, Size]) -> None:
    """One test for all, so that one worker counts."""
    nodes = {name: size.nodes for name, size in sizes.items()}
    most = BUDGET["nodes"]
    assert {name: (count, most[name]) for name, count in nodes.items() if count > most[name]} == {}
    assert {
        name: count for name, count in nodes.items() if count < most[name] - BUDGET["slack"]
    } == {}, "lower it"
    files = {name: sizes[name].files for name in PACKAGES}
    assert {name: count for name, count in files.items() if count > BUDGET["files"][name]} == {}
    density = {name: round(sizes[name].nodes_a_line, 1) for name in PACKAGES}
    assert {
        name: number for name, number in density.items() if number > BUDGET["nodes_a_line"][name]
    } == {}


def test_tests_of_the_gate(request: pytest.FixtureRequest) -> None:
    if not whole_gate(request.config):
        pytest.skip("counts when the whole gate runs")
    assert len(request.session.items) <= BUDGET["collected_tests"]


@pytest.mark.parametrize("name", PACKAGES)
def test_entries_of_each_room(name: str) -> None:
    most = BUDGET["entries_of_a_room"]
    assert {room: count for room, count in count_entries(ROOT / name).items() if count > most} == {}


def test_words_of_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.split()) <= BUDGET["words_of_architecture"]
    assert max(map(len, text.splitlines())) <= BUDGET["longest_line_of_architecture"]


def test_words_of_the_handbook() -> None:
    assert sum(count_words(ROOT / "docs").values()) <= BUDGET["words_of_handbook"]


@pytest.mark.parametrize(
    ("source", "lines", "nodes"),
    [
        ("", 0, 1),
        ("# a comment\n\nx = 1  # with one\n", 1, 5),
        ('"""A docstring."""\n\nx = 1\n"""Of an attribute,\nlonger."""\n', 1, 9),
        ('def f():\n    """Say."""\n    return """a\n\nb"""\n', 4, 7),
        ("x = (\n    1,\n    # one\n    2,\n)\n", 4, 8),
        ("x = (1, 2)\n", 1, 8),
    ],
)
def test_lines_are_counted_without_blanks_comments_and_docstrings(
    source: str, lines: int, nodes: int
) -> None:
    """Nodes are the same however the lines are broken."""
    assert (count_code_lines(source), count_nodes(source)) == (lines, nodes)
