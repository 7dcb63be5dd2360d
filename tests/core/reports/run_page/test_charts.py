"""The charts of a run: well-formed images of bounded size, equal for equal data, whatever the categories are called."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from judgegym.judges.core.group import Look
from judgegym.reports.run_page.charts import ChartLabels, draw_charts, plot_by_position
from judgegym.reports.run_page.drawing import ACCENT, BAR, MUTED, TEXT, Chart
from judgegym.reports.run_page.figures import RunFigures
from tests.core.reports.run_page.test_figures import row
from tests.forking import ROOT

WORDS = ChartLabels("win rate")
EVIL = (
    "</text><script>alert(1)</script>",
    "$\\frac{",
    "a\x00b\x1b[0m",
    "\u202egnp.exe",
    "日本語 😀",
    "",
    "x" * 500,
)


def of_rows(count: int, *, categories: tuple[str, ...] = ("math", "code")) -> RunFigures:
    figures = RunFigures()
    for n in range(count):
        score = (n * 7 % 5) / 4
        orders = {"model_is_a": score, "model_is_b": float(n % 2)}
        figures.add(
            **row(category=categories[n % len(categories)], score=score, total=score, weight=1.0,
                length=100 + n * 37 % 900, judge_cost=0.001 * (1 + n % 7), orders=orders)
        )  # fmt: skip
        figures.judge_seconds.append(0.1 + n % 13 / 10)
        figures.policy_seconds.append(0.1 + n % 13 / 10)
    return figures


def drawn(figures: RunFigures) -> dict[str, Chart]:
    return {
        chart["title"]: chart for chart in draw_charts(figures, WORDS, overall=figures.headline())
    }


@pytest.mark.slow
def test_a_run_has_all_charts_each_for_light_and_dark() -> None:
    found = drawn(of_rows(60))
    subjects = ("category", "Distribution", "length", "the order", "Latency", "cost")
    assert len(found) == len(subjects)
    assert all(subject in title for subject, title in zip(subjects, found, strict=True))
    for chart in found.values():
        for image in (chart["light"], chart["dark"]):
            assert ElementTree.fromstring(image).tag == "{http://www.w3.org/2000/svg}svg"
        assert TEXT.encode() in chart["light"]
        assert not any(color.encode() in chart["dark"] for color in (TEXT, BAR, MUTED))
        assert chart["description"].startswith(chart["title"])
    assert drawn(of_rows(60)) == found, "equal numbers give equal bytes"


@pytest.mark.slow
def test_images_do_not_grow_with_the_rows() -> None:
    few, many = drawn(of_rows(2_000)), drawn(of_rows(40_000))
    assert {
        title: len(chart["light"]) < 1.5 * len(few[title]["light"]) for title, chart in many.items()
    } == dict.fromkeys(few, True)


@pytest.mark.slow
def test_names_of_categories_are_text_in_one_short_line() -> None:
    chart = drawn(of_rows(70, categories=EVIL))["Win rate by category"]
    texts = [
        "".join(each.itertext())
        for each in ElementTree.fromstring(chart["light"]).iter()
        if each.tag.endswith("text")
    ]
    assert "$\\frac{ (10)" in texts, "no formula"
    assert "a b [0m (10)" in texts
    assert "gnp.exe (10)" in texts, "without the override of the direction"
    assert "日本語 😀 (10)" in texts
    assert b"<script" not in chart["light"]
    assert max(map(len, texts)) < 50


@pytest.mark.slow
def test_many_categories_are_cut_to_the_largest_and_that_is_said() -> None:
    figures = of_rows(31, categories=tuple(f"category {n}" for n in range(30)))
    chart = drawn(figures)["Win rate by category"]
    assert "6 smaller categories" in chart["description"]
    assert "category 0 (2)" in chart["light"].decode(), "the largest one is drawn"


@pytest.mark.slow
def test_position_bias_is_said_with_the_rows_whose_orders_disagree() -> None:
    figures = RunFigures()
    for a, b in ((1.0, 1.0), (1.0, 0.0), (0.0, 0.0), (1.0, 0.5)):
        figures.add(**row(score=a, orders={"model_is_a": a, "model_is_b": b}))
    (said,) = (
        chart["description"] for title, chart in drawn(figures).items() if "the order" in title
    )
    assert "model is a: 0.750 of 4; model is b: 0.375 of 4" in said
    assert "disagree for 2 of 4 rows (50.0 %)" in said


def test_charts_without_anything_to_draw_are_left_out() -> None:
    figures = RunFigures()
    assert drawn(figures) == {}
    figures.add(**row(status="judge_failed"))
    assert drawn(figures) == {}


@pytest.mark.slow
@pytest.mark.parametrize("home", ["missing/home", "/proc"])
def test_nothing_reaches_the_terminal_also_where_home_cannot_be_written_to(
    home: str, tmp_path: Path
) -> None:
    code = (
        "from tests.core.reports.run_page.test_charts import EVIL, drawn, of_rows\n"
        "import warnings; warnings.simplefilter('always')\n"
        "print(len(drawn(of_rows(70, categories=EVIL))))"
    )
    variables = {**os.environ, "HOME": home, "PYTHONPATH": str(ROOT)}
    for name in ("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        variables.pop(name, None)
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, timeout=100
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"6\n", b"")


@pytest.mark.slow
def test_matplotlib_is_imported_when_a_chart_is_drawn() -> None:
    """It takes most of a second, which commands without a page need not wait for."""
    code = (
        "import sys, judgegym.environments.command_line.commands\n"
        "import judgegym.reports.__main__, judgegym.reports.run_page.page\n"
        "print('matplotlib' in sys.modules)\n"
        "from tests.core.reports.run_page.test_charts import drawn, of_rows\n"
        "drawn(of_rows(5)); print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=100)
    assert (ended.stdout, ended.stderr) == (b"False\nTrue False\n", b"")


@pytest.mark.slow
def test_few_values_that_lie_close_are_drawn_in_bins_and_a_host_keeps_its_own_settings_of_matplotlib() -> (
    None
):
    import matplotlib

    apart, close = RunFigures(), RunFigures()
    for score in (1.0, 2.0, 5.0):
        apart.add(**row(score=score))
    for score in (53.8, 54.5, 67.2, 67.3):
        close.add(**row(score=score))
    with matplotlib.rc_context({"font.size": 23}):
        drawn(apart)
        assert matplotlib.rcParams["font.size"] == 23
    assert "scores: 1: 1; 2: 1; 5: 1." in drawn(apart)["Distribution of scores"]["description"]
    assert "scores: from 53.8 to 67.3" in drawn(close)["Distribution of scores"]["description"]


def said_of_places(*groups: Sequence[float]) -> str:
    """The chart in words, of groups of which each answer was shown once, in this order."""
    figures = RunFigures()
    for points in groups:
        for place, point in enumerate(points, start=1):
            look = Look(place, len(points), point)
            figures.add(status="ok", score=point, length=1, looks=[look])
    chart = plot_by_position(figures)
    assert chart is not None
    return chart["description"]


def test_places_have_bars_of_the_mean_points_of_each_place() -> None:
    assert "place 1: 0.700 of 2; place 2: 0.300 of 2; place 3: 0.100 of 2." in said_of_places(
        (0.8, 0.4, 0.1), (0.6, 0.2, 0.1)
    )


def test_level_of_large_groups_is_no_preference_for_late_places() -> None:
    """Places 3 and 4 are those of the large group alone, whose answers are worse."""
    bars = said_of_places((0.9, 0.9), (0.3, 0.3, 0.3, 0.3))
    assert (
        "place 1: 0.500 of 2; place 2: 0.500 of 2; place 3: 0.500 of 1; place 4: 0.500 of 1."
        in bars
    )
    assert "showed as many" in bars


@pytest.mark.slow
def test_line_of_means_is_drawn_where_each_is_of_enough_rows() -> None:
    few, many = (drawn(of_rows(count))["Score against length"] for count in (29, 30))
    assert "3 equally large parts" in many["description"]
    assert "line" not in few["description"]
    assert ACCENT.encode() in many["light"] and ACCENT.encode() not in few["light"]


@pytest.mark.slow
def test_categories_whose_names_are_cut_to_one_label_have_a_bar_each() -> None:
    chart = drawn(of_rows(9, categories=("x" * 50, "x" * 60, "all")))["Win rate by category"]
    assert chart["description"].count("all: ") == 2 and chart["description"].count("x…: ") == 2
