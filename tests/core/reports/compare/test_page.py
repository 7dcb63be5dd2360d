"""The page of a comparison in a real browser: it shows what the comparison says, and no text of a run is markup."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.compare.__main__ import main
from judgegym.reports.compare.comparison import Comparison, compare_runs
from judgegym.reports.compare.page import WIDTH, forest, write_page
from judgegym.statistics.agreement import Interval
from tests.chromium import needs_chromium, watched
from tests.core.reports.compare.written import opened, row, run

HOSTILE = (
    "</td></table><script>alert(1)</script><img src=x onerror=alert(2)> {{ 7 * 7 }} \u202e &amp; "
    "\" '"
)


def compared(folder: Path, *, text: str = "a text", uid: str = "row-x") -> Comparison:
    """Two runs with `text` in every field that the page shows."""
    runs = []
    for name, value in (("a", 0.0), ("b", 1.0)):
        rows = [
            row(uid, value, question=text, category=text),
            row("row-1", 0.5, category="code"),
            row("row-2", 1.0, category="code"),
        ]
        facts: dict[str, Any] = {
            "model_name": text,
            "judge_model_name": f"{text}{name}",
            "notices": [text],
        }
        runs.append(opened(folder / name, rows, **facts, protocol={text: name}))
    return compare_runs(runs, across=("judge", "protocol"), rounds=200)


def written(path: Path, comparison: Comparison) -> Path:
    path.write_bytes(
        b"".join(
            write_page(
                comparison,
                lambda path, uid: f"{'AB'[path[-1] == 'b']}.html" + (f"#{uid}" if uid else ""),
            )
        )
    )
    return path


@needs_chromium
def test_the_page_shows_the_comparison(browser: Any, tmp_path: Path) -> None:
    comparison = compared(tmp_path)
    with watched(browser, written(tmp_path / "c.html", comparison)) as seen:
        text = " ".join(seen.page.inner_text("main").split())
        for said in (
            "arena_hard: win rate on the 3 rows",
            "B − A: win rate +0.3333",
            "higher in 1 row, lower in 0, the same in 2",
            "exact sign test: p = 1.0000, over the 1 row that differ",
            "Cohen's κ (quadratic weights)",
            "The judge differs: env.judge_model_name: A a texta; B a textb",
        ):
            assert said in text, said
        table = seen.page.locator("table.outcomes tbody tr").all_inner_texts()
        assert [each.split("\t") for each in table] == [
            ["lost in A", "0", "0", "1"],
            ["tied in A", "0", "1", "0"],
            ["won in A", "0", "0", "1"],
        ]
        links = seen.page.locator("a").evaluate_all(
            "links => links.map(link => link.getAttribute('href'))"
        )
        assert links == ["A.html", "B.html", "A.html#row-x", "B.html#row-x"]
        assert seen.page.locator("svg.line").count() == 3
        seen.assert_clean()


@needs_chromium
def test_hostile_texts_are_shown_as_text(browser: Any, tmp_path: Path) -> None:
    comparison = compared(tmp_path, text=HOSTILE, uid=HOSTILE)
    runs = [{**each, "path": HOSTILE} for each in comparison["runs"]]
    hostile = {
        **comparison,
        "words": HOSTILE,
        "environment": HOSTILE,
        "runs": runs,
        "notes": [HOSTILE],
    }
    with watched(browser, written(tmp_path / "c.html", hostile)) as seen:
        assert seen.page.locator("main script, main img").count() == 0
        assert seen.page.locator("td.start").inner_text() == HOSTILE.replace("\u202e", "�")
        assert seen.page.locator("main").count() == 1
        seen.assert_clean()


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_scrolls_tables_and_not_the_page(browser: Any, tmp_path: Path, scheme: str) -> None:
    path = written(
        tmp_path / "c.html", compared(tmp_path, text="A long question of many words", uid="f" * 32)
    )
    with watched(browser, path, width=390, height=800, color_scheme=scheme) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert seen.page.evaluate(
            "[...document.querySelectorAll('th')].every(cell => cell.clientHeight < 200)"
        )
        seen.assert_clean()


def test_scores_have_no_table_of_outcomes(tmp_path: Path) -> None:
    runs = [
        opened(
            tmp_path / name,
            [row("a", value), row("b", 4.0)],
            headline="eval/mean_reward",
            headline_words="reward",
        )
        for name, value in (("a", 1.0), ("b", 3.0))
    ]
    page = b"".join(write_page(compare_runs(runs, rounds=100))).decode()
    assert "Flips" not in page
    assert "B − A: reward +1.0000" in page
    cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", page, re.DOTALL)
    place = cells.index("all rows")
    assert cells[place + 1 : place + 4] == ["2", "2.5000", "3.5000"]


@pytest.mark.slow
def test_links_lead_to_the_reports_that_there_are(tmp_path: Path) -> None:
    rows = [row("a/1 é", 1.0), row("b", 0.0)]
    first, second = (
        run(tmp_path / "runs" / "one run", rows),
        run(tmp_path / "runs" / "b", [row("a/1 é", 0.0), rows[1]]),
    )
    (first / "report.html").write_text("")
    pages = tmp_path / "pages"
    pages.mkdir()
    assert main([str(first), str(second), f"--html={pages / 'c.html'}"]) == 0
    links = re.findall(r'href="([^"]*)"', (pages / "c.html").read_text())
    assert links == [
        "../runs/one%20run/report.html",
        "../runs/one%20run/report.html#a%2F1%20%C3%A9",
    ]


def test_differences_are_drawn_on_one_scale_that_holds_zero() -> None:
    zero, (whole, single) = forest(
        [
            {"value": 0.2, "interval": Interval(0.1, 0.4)},
            {"value": 0.3, "interval": None, "reason": "one row"},
        ]
    )
    assert 0 < zero < whole[0] < whole[1] < whole[2] < WIDTH
    assert single[0] == single[1] == single[2]
    assert (whole[2] - zero) == pytest.approx(4 * (whole[0] - zero), abs=0.5)
    zero, (alone,) = forest([{"value": 0.0, "interval": Interval(0.0, 0.0)}])
    assert alone[1] == zero
