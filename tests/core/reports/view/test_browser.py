"""The list in a real browser: sorted, filtered, opened, compared; hostile names and settings run nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import needs_chromium, watched
from tests.core.engine.samples_of import sample
from tests.core.reports.results.test_run import written
from tests.core.reports.view.made import run_of, viewed, with_metrics

pytestmark = needs_chromium
HOSTILE = (
    "</script></title><img src=x onerror=alert(1)><svg onload=alert(2)>{{ 7 * 7 "
    "}}${7*7}\u202egpj.\u2066 \"'&amp;"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    with_metrics(run_of(folder / "run 2", (1.0, 0.0, 0.0, 0.0)), **{"eval/judge_cost_usd": 0.5})
    later = {"date": "2026-11-02T10:00:00+00:00"}
    with_metrics(
        run_of(folder / "nested" / "run 10", (1.0, 1.0, 1.0, 0.0), **later),
        **{"eval/judge_cost_usd": 20.0},
    )
    run_of(folder / "other judge", date="2026-11-03T10:00:00+00:00", judge_model_name="b-judge")
    written(folder / "unfinished", [sample()])
    (run_of(folder / "damaged") / "metrics.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def url(runs: Path) -> Iterator[str]:
    with viewed(runs) as (address, _):
        yield address


def names(page: Any) -> list[str]:
    return [
        each.strip().splitlines()[0]
        for each in page.locator("#runs th.name:visible").all_inner_texts()
    ]


def tick(page: Any, *runs: str) -> None:
    for name in runs:
        page.get_by_label(f"Compare {name}", exact=True).check()


def test_runs_are_listed_sorted_and_filtered_and_stay_so_when_the_page_is_loaded_again(
    browser: Any, url: str
) -> None:
    with watched(browser, url) as seen:
        page = seen.page
        finished = ["other judge", "nested/run 10", "run 2"]
        assert [name for name in names(page) if name in finished] == finished, "the newest first"
        assert page.get_by_text("not finished").is_visible()
        assert page.get_by_text("cannot be read").is_visible()
        sorter = page.get_by_role("button", name="result")
        sorter.click()
        assert names(page)[:3] == ["nested/run 10", "other judge", "run 2"]
        assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
        sorter.click()
        assert names(page)[:3] == ["run 2", "other judge", "nested/run 10"], (
            "those without a result stay last"
        )
        page.get_by_role("button", name="run", exact=True).click()
        assert names(page) == ["damaged", "nested/run 10", "other judge", "run 2", "unfinished"]
        page.get_by_role("button", name="cost").click()
        assert names(page)[:2] == ["nested/run 10", "run 2"]
        page.get_by_role("searchbox").fill("A-JUDGE run")
        assert names(page) == ["nested/run 10", "run 2"]
        page.reload()
        assert names(page) == ["nested/run 10", "run 2"]
        assert "2 of 5 runs" in page.inner_text("#said")
        page.get_by_role("searchbox").press("Enter")
        assert page.url.startswith(url) and "compare" not in page.url
        seen.assert_clean()


def test_a_run_opens_its_report(browser: Any, url: str) -> None:
    with watched(browser, url) as seen:
        seen.page.get_by_role("link", name="nested/run 10").click()
        seen.page.get_by_text("row-3").first.click()
        seen.page.get_by_text("answer to row-3").first.wait_for()
        assert (seen.console, seen.errors, seen.dialogs, seen.refusals) == ([], [], [], [])


def test_two_ticked_runs_are_compared_and_their_rows_open(browser: Any, url: str) -> None:
    with watched(browser, url) as seen:
        page = seen.page
        assert page.get_by_role("button", name="Compare the ticked runs").is_disabled()
        assert page.get_by_label("Compare unfinished", exact=True).is_disabled()
        assert page.get_by_label("Compare damaged", exact=True).is_disabled()
        tick(page, "nested/run 10", "run 2")
        page.get_by_role("searchbox").fill("zzz")
        assert names(page) == ["nested/run 10", "run 2"], "what is ticked stays in sight"
        page.get_by_role("button", name="Compare the ticked runs").click()
        page.get_by_text("B against A").wait_for()
        assert page.locator("tbody tr").first.inner_text().count("run 2") == 1, (
            "the oldest is the reference"
        )
        page.locator("table.changed a").first.click()
        page.get_by_text("answer to row-1").first.wait_for()
        assert (seen.console, seen.errors, seen.dialogs, seen.refusals) == ([], [], [], [])


def test_a_refused_comparison_is_made_across_judges_if_asked_for(browser: Any, url: str) -> None:
    with watched(browser, url) as seen:
        page = seen.page
        tick(page, "other judge", "run 2")
        page.get_by_role("button", name="Compare the ticked runs").click()
        page.get_by_text("differ in judge").wait_for()
        page.get_by_role("button", name="Compare across judges").click()
        page.get_by_text("B against A").wait_for()
        assert "The judge differs" in page.inner_text("main")
        assert (seen.errors, seen.dialogs, seen.refusals) == ([], [], [])
        assert [line for line in seen.console if "409" not in line] == []


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"width": 360}])
def test_the_list_fits_a_phone_and_is_dark_where_the_system_is(
    browser: Any, url: str, options: dict[str, Any]
) -> None:
    with watched(browser, url, **options) as seen:
        page = seen.page
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        dark = (
            page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        )
        assert dark == (options.get("color_scheme") == "dark")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "filter"
        seen.assert_clean()


def test_without_scripts_the_list_is_there_and_compares(browser: Any, url: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(url)
    tick(page, "nested/run 10", "run 2")
    page.get_by_role("button", name="Compare the ticked runs").click()
    assert "B against A" in page.inner_text("main")
    context.close()


def test_hostile_names_and_settings_run_nothing_and_break_nothing(
    browser: Any, tmp_path: Path
) -> None:
    texts = {
        "model_name": HOSTILE,
        "judge_model_name": HOSTILE,
        "environment": HOSTILE,
        "headline_words": HOSTILE,
    }
    data = [{"name": HOSTILE, "split": HOSTILE, "rows": 4, "digest": HOSTILE}]
    names_ = [HOSTILE.replace("/", "|"), "\u202e}} run", "a\nb\tc", "%2e%2e", "?run=#&<b>"]
    for place, name in enumerate(names_):
        date = f"2026-11-0{place + 1}T10:00:00+00:00"
        run_of(
            tmp_path / name,
            (1.0, place % 2, 0.5, 1.0),
            question=HOSTILE,
            date=date,
            datasets=data,
            **texts,
        )
    (run_of(tmp_path / "broken") / "metrics.json").write_text(HOSTILE)
    (run_of(tmp_path / "broken too") / "config.yaml").write_text(f"env: [{HOSTILE}")
    with viewed(tmp_path) as (url, _), watched(browser, url) as seen:
        page = seen.page
        assert page.title() == "Runs"
        assert page.locator("#runs tr").count() == len(names_) + 2
        assert page.locator("img, svg, iframe, object, script[src]").count() == 0
        assert HOSTILE in page.locator("#runs").inner_text()
        for name in ("result", "run", "judge"):
            page.get_by_role("button", name=name, exact=True).click()
        seen.assert_clean()
        for link in page.locator("#runs a").all():
            with page.context.expect_page() as opened:
                link.click(modifiers=["ControlOrMeta"])
            report = opened.value
            report.get_by_text("row-0").first.wait_for()
            assert report.url.startswith(f"{url}run/")
            report.close()
        for box in page.locator("#runs input:enabled").all():
            box.check()
        page.get_by_role("button", name="Compare the ticked runs").click()
        page.get_by_text("B against A").wait_for()
        assert (seen.console, seen.errors, seen.dialogs, seen.refusals) == ([], [], [], [])
