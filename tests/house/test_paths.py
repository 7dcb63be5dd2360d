"""The way of a row through the house has a budget: `python -m benchmarks.row_path --list` names its functions."""

from __future__ import annotations

import sys

import pytest

from benchmarks.row_path import in_process_of_its_own, size
from tests.command import ROOT
from tests.gate import BUDGET


@pytest.mark.slow
@pytest.mark.timeout(300)  # a process of its own for each
@pytest.mark.parametrize("way", BUDGET["paths"])
def test_way_of_a_row(way: str) -> None:
    """The shortest of three: a progress display that looks around while the row is on its way makes it longer."""
    most = BUDGET["paths"][way]
    found = []
    for _ in range(3):
        functions, files = size(in_process_of_its_own(sys.executable, ROOT, way))
        if functions <= most["functions"] and files <= most["files"]:
            return
        found.append((functions, files))
    pytest.fail(f"functions and files of three rows: {found}")
