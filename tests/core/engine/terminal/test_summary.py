"""The short table: whole lines where a program reads it, no line too wide where a person does."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.terminal.summary import (
    Section,
    Summary,
    SummaryLine,
    headline_line,
    show_summary,
)
from tests.core.engine.terminal.odd import ODD
from tests.core.engine.terminal.screen import screen

LONG = "a category with a rather long name " * 5
SUMMARY = Summary(
    title="arena_hard: a policy, judged by a judge",
    headline=SummaryLine(
        "win rate", "0.4583", "95 %: 0.2083 to 0.7083, 12 rows, eval/overall_winrate"
    ),
    sections=(
        Section("outcomes", [SummaryLine("rows", "", "won 41.7 %, tied 8.3 %, lost 50.0 %")]),
        Section(
            "categories",
            [SummaryLine(ODD, "0.5000", "n = 2"), SummaryLine(LONG.strip(), "0.2500", "n = 10")],
        ),
        Section("went wrong", [], is_alarm=True),
        Section(
            "time",
            [SummaryLine("", "2.3 s", "a call: judge 0.05 s (p95 0.20), policy 0.10 s (p95 0.30)")],
        ),
    ),
    notices=(f"A notice {ODD} " + "of some length " * 20,),
)


def test_lines_of_a_pipe_are_whole_and_can_be_taken_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_summary(SUMMARY)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == SUMMARY.title
    assert lines[-1] == SUMMARY.notices[0].rstrip() or lines[-1] == SUMMARY.notices[0]
    assert [re.split(r"\s{2,}", line.strip()) for line in lines[1:-1]] == [
        ["win rate", "0.4583", "95 %: 0.2083 to 0.7083, 12 rows, eval/overall_winrate"],
        ["outcomes"],
        ["rows", "won 41.7 %, tied 8.3 %, lost 50.0 %"],
        ["categories"],
        [ODD, "0.5000", "n = 2"],
        [LONG.strip(), "0.2500", "n = 10"],
        ["time", "2.3 s", "a call: judge 0.05 s (p95 0.20), policy 0.10 s (p95 0.30)"],
    ], "a section without lines is not shown"
    assert not any(line != line.rstrip() for line in lines[:-1])


@pytest.mark.parametrize("width", [60, 80, 100, 40])
def test_no_line_of_a_terminal_is_wider_than_it(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    out = screen(monkeypatch, "stdout", width=width)
    show_summary(SUMMARY)
    lines = out.shown.splitlines()[1:-1]  # the terminal breaks the title and sentences itself
    assert max(map(cell_len, lines)) <= width
    assert any("12 rows," in line for line in lines), "a remark is broken between its parts"
    words = " ".join(" ".join(line.split()) for line in lines)
    assert "0.2083 to 0.7083, 12" in words and "eval/overall_winrate" in words, (
        "what does not fit goes on below"
    )
    assert any(line.startswith("  a cat") and "…" in line for line in lines)


@pytest.mark.parametrize(("variable", "term"), [("NO_COLOR", "xterm-256color"), ("", "dumb")])
def test_no_colour_where_none_is_wanted(
    monkeypatch: pytest.MonkeyPatch, variable: str, term: str
) -> None:
    out = screen(monkeypatch, "stdout", width=80, term=term)
    if variable:
        monkeypatch.setenv(variable, "1")
    alarm = Summary(
        "title",
        SummaryLine("a", "1"),
        [Section("went wrong", [SummaryLine("b", "2")], is_alarm=True)],
    )
    show_summary(alarm)
    assert not re.search(r"\x1b\[[0-9;]*[34]\d", out.getvalue())
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = screen(monkeypatch, "stdout", width=80)
    show_summary(alarm)
    assert "\x1b[31mwent wrong" in coloured.getvalue()


def test_text_of_a_data_set_moves_no_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    out = screen(monkeypatch, "stdout", width=80)
    hostile = "\x1b[2J\x1b]0;title\x07\r\n\u202e"
    categories = Section("categories", [SummaryLine(f"b{hostile}c", "2", hostile)])
    show_summary(Summary(f"title {hostile}", SummaryLine("a", "1", hostile), [categories]))
    assert not re.search(r"\x1b\[2J|\x1b\]0;|\x07|\u202e", out.getvalue())
    assert len(out.getvalue().splitlines()) == 4


@pytest.mark.parametrize(("prompts", "said"), [(1, "one observation, "), (3, "95 %: 0.")])
def test_one_observation_has_no_interval(prompts: int, said: str) -> None:
    metrics = MetricAggregator("eval")
    for number in range(prompts):
        metrics.ratio("score", number / prompts, 1.0, interval=True)
    line = headline_line(metrics.result(), "eval/score", "score", basis="3 rows", counted=3)
    assert line.remark.startswith(said) and ", 3 rows" in line.remark
