"""The page of a training run as one file, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.__main__ import main
from judgegym.reports.training.page import training_page, write_training_report
from judgegym.reports.training.run import TrainingRun
from tests.chromium import needs_chromium, watched
from tests.core.reports.run_page.hostile import ATTACK
from tests.core.reports.training.made import MadeTraining

pytestmark = needs_chromium


def written(path: Path, **options: Any) -> Path:
    training = MadeTraining(path, **options)
    for _ in range(6):
        training.step()
    training.alarm(group=3, rollout=2)
    training.monitor.note("end", {})
    training.live(is_over=True, failures={"unparsable": 3}, reasons={"unparsable": "no verdict"})
    assert main([str(path)]) == 0
    return path / "report.html"


def test_the_finished_page_shows_curves_alarms_failures_and_groups(
    browser: Any, tmp_path: Path
) -> None:
    with watched(browser, written(tmp_path / "run")) as seen:
        page = seen.page
        assert page.inner_text("#standing") == "ended"
        assert page.locator("#charts .chart").count() > 10
        assert page.locator("#charts .limit").count() >= 2
        assert "3" in page.inner_text("#failures") and "no verdict" in page.inner_text("#failures")
        page.get_by_role("button", name="rollout 3 of group 3").click()
        page.wait_for_selector(".rollout-column.named")
        assert page.evaluate("document.activeElement.dataset.rollout") == "2"
        assert page.locator("#groups .rollout-column").count() == 4, "side by side"
        assert "Completion 2 of group 3." in page.inner_text(".rollout-column.named")
        page.get_by_role("button", name="Widest gap").click()
        assert page.locator("#groups > li").count() > 1
        seen.assert_clean()


def test_a_chart_is_walked_with_keys(browser: Any, tmp_path: Path) -> None:
    with watched(browser, written(tmp_path / "run")) as seen:
        chart = seen.page.locator("#charts svg").first
        chart.focus()
        chart.press("Home")
        chart.press("ArrowRight")
        read = seen.page.locator("#charts output").first
        assert read.inner_text() == "step 2: training judge 0.5, gold judge 0.4"
        assert "step 6" in str(chart.get_attribute("aria-label"))
        chart.press("Escape")
        assert read.inner_text() == ""


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"width": 390}])
def test_it_fits_a_phone_and_is_dark_where_the_system_is(
    browser: Any, tmp_path: Path, options: dict[str, Any]
) -> None:
    path = written(tmp_path / "run", text=lambda group, number: "long " * 400 + "x" * 500)
    with watched(browser, path, **options) as seen:
        page = seen.page
        page.locator("#groups summary").first.press("Enter")
        page.wait_for_selector(".rollout-column")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        dark = (
            page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        )
        assert dark == (options.get("color_scheme") == "dark")
        seen.assert_clean()


def test_hostile_texts_in_every_field_run_nothing_and_are_shown(
    browser: Any, tmp_path: Path
) -> None:
    training = MadeTraining(
        tmp_path / "run", text=lambda group, number: f"completion;{ATTACK}", judge=f"mount;{ATTACK}"
    )
    training.step()
    names = ("monitor", "seen", "advice", "uid")
    training.alarm(**{name: f"{name};{ATTACK}" for name in names})
    hostile = {f"cause;{ATTACK}": 1}
    training.live(
        failures=hostile,
        dropped=hostile,
        reasons={f"cause;{ATTACK}": ATTACK},
        waits_for=f"waits;{ATTACK}",
    )
    line = training.path / "monitor.jsonl"
    line.write_bytes(
        line.read_bytes().replace(
            b"reward_mean", b"reward</script><img src=x onerror=window.ran=true>"
        )
    )
    path = write_training_report(training.path)
    with watched(browser, path) as seen:
        page = seen.page
        page.locator("#groups summary").first.click()
        page.wait_for_selector(".rollout-column")
        page.evaluate(
            "document.querySelectorAll('[aria-pressed=false]').forEach(button => button.click())"
        )
        shown = page.evaluate("document.body.textContent")
        for field in (*names, "completion", "cause", "waits", "mount"):
            assert f"{field};</script>" in shown, field
        assert "onerror=window.ran=true" in page.inner_text("#charts")
        assert page.evaluate("window.ran") is None
        assert page.locator("img, iframe, style ~ style ~ style ~ style, script[src]").count() == 0
        seen.assert_clean()


def test_a_run_that_has_only_begun_is_shown(browser: Any, tmp_path: Path) -> None:
    training = MadeTraining(tmp_path / "run")
    with watched(browser, write_training_report(training.path)) as seen:
        assert "No group is there yet." in seen.page.inner_text("#groups ~ *, #group-count")
        seen.assert_clean()


def test_the_size_of_the_page_does_not_depend_on_the_steps(tmp_path: Path) -> None:
    """That of texts is bounded by the groups that are kept."""
    sizes = []
    training = MadeTraining(tmp_path / "run")
    for steps in (300, 600):
        while training.steps < steps:
            training.step(groups=1, size=2)
        training.live()
        run = TrainingRun(training.path)
        run.poll()
        sizes.append(sum(map(len, training_page(run.state()))))
    assert sizes[1] < 1.25 * sizes[0]
