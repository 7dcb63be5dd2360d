"""The tables of an environment on the page of its run."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from judgegym.llm.wire import JSON
from judgegym.reports.results.run import SavedRun
from judgegym.reports.run_page.head import render_tables
from judgegym.reports.run_page.page import render_page
from tests.contest import better, contest
from tests.core.reports.run_page.made import HEAD, replace


def run_with(tables: JSON) -> SavedRun:
    return SavedRun(Path("run"), {}, {"tables": tables}, {}, datetime.now(timezone.utc))


@pytest.mark.slow
def test_page_of_candidates_has_their_ratings_and_win_rates(tmp_path: Path) -> None:
    run = contest(tmp_path, 3).compare(
        "--env.write_report=True",
        candidates=["ann", "bob"],
        verdict=better("ann", "baseline", "bob"),
    )
    assert run.code == 0, run.said
    ratings, win_rates = render_tables(SavedRun.open(run.files.path))
    assert (
        [row[0] for row in ratings["rows"]]
        == [row[0] for row in win_rates["rows"]]
        == ["1. ann", "2. baseline", "3. bob"]
    )
    html = (run.files.path / "report.html").read_text(encoding="utf-8")
    assert "1. ann</th>" in html and ">1.000</td>" in html


def test_cells_reach_the_page_as_text() -> None:
    table = {
        "title": "<i>Title",
        "header": ["name", "<b>"],
        "rows": [["<script>alert(1)</script>", "&amp;"]],
    }
    written = b"".join(render_page(replace(HEAD, tables=[table]), [])).decode()
    assert "<script>alert(1)" not in written and "<i>Title" not in written and "<b>" not in written
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in written and "&amp;amp;" in written


@pytest.mark.parametrize(
    "tables",
    [
        None, 7, {}, "x", [None], [{}], [{"title": 7, "header": ["a"], "rows": []}], [{"title": "t", "rows": []}],
        [{"title": "t", "header": "ab", "rows": []}], [{"title": "t", "header": ["a", 7], "rows": []}],
        [{"title": "t", "header": [], "rows": []}], [{"title": "t", "header": ["a"], "rows": {}}],
    ],
)  # fmt: skip
def test_what_is_no_table_is_left_out(tables: JSON) -> None:
    assert render_tables(run_with(tables)) == []


def test_rows_of_another_length_or_without_text_are_left_out_and_long_tables_are_cut() -> None:
    rows: JSON = [["a", "1"], ["b"], ["c", 2], 7, ["d", "4"], *([["e", "5"]] * 1000)]
    (table,) = render_tables(run_with([{"title": "t", "header": ["name", "number"], "rows": rows}]))
    assert table["rows"][:2] == [["a", "1"], ["d", "4"]]
    assert len(table["rows"]) < 250
