"""Tables on terminals that are too narrow for them."""

from __future__ import annotations

import pytest

from judgegym.engine.terminal.output import Table, show_table
from tests.engine.terminal.screen import screen

NAME = "a-name-that-is-longer-than-the-terminal-is-wide-" * 2


@pytest.mark.parametrize("one_line", [True, False])
def test_long_name_is_cut_or_folded(monkeypatch: pytest.MonkeyPatch, one_line: bool) -> None:
    out = screen(monkeypatch, "stdout", width=60)
    show_table(Table("Title", ("name", "number"), ((NAME, "123456.789"),), one_line=one_line))
    drawn = [line for line in out.getvalue().splitlines() if "│" in line]
    assert (len(drawn) == 1) is one_line
    assert "123456.789" in drawn[0], "numbers are whole"
    assert ("…" in drawn[0]) is one_line
