"""The page in a real browser, over the real command: two labellers by keyboard, a killed server, blindness, texts."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.__main__ import main as report
from judgegym.reports.labels.correction import correct_run
from judgegym.reports.labels.file import Label, read_labels
from judgegym.reports.results.run import SavedRun
from tests.chromium import Watched, needs_chromium, watched
from tests.command import PATIENCE_S
from tests.core.reports.view.test_browser import HOSTILE
from tests.trials.labelling.made import SECRETS, run_of, served

pytestmark = needs_chromium
VALUES = [(0.0, 0.5, 1.0, 1.0)[number % 4] for number in range(120)]
SCALE = {"config": {"scale_min": 1, "scale_max": 5}, "environment": "rubric_absolute"}


def sign_in(seen: Watched, name: str) -> None:
    """Type a name, which the start page has the focus for."""
    seen.page.keyboard.type(name)
    press(seen, "Enter")


def press(seen: Watched, *keys: str) -> None:
    """Press keys, each when the page of the one before is seen."""
    for key in keys:
        with seen.page.expect_navigation():
            seen.page.keyboard.press(key)
        seen.until_painted()


def progress(seen: Watched) -> str:
    seen.until("document.getElementById('progress').textContent !== ''")
    return str(seen.page.inner_text("#progress")).replace("\u00a0", " ")


def assert_unharmed(seen: Watched) -> None:
    assert (seen.console, seen.errors, seen.dialogs, seen.refusals) == ([], [], [], [])


def watch_texts(seen: Watched) -> list[str]:
    """Collect everything that the server sends."""
    sent: list[str] = []

    def keep(response: Any) -> None:
        sent.append(f"{response.url} {response.headers}")
        if response.status == 200:
            sent.append(response.text())

    seen.page.on("response", keep)
    return sent


def test_two_label_forty_rows_by_keyboard_through_a_kill_and_nothing_is_lost_or_told(
    browser: Any, tmp_path: Path
) -> None:
    run = run_of(tmp_path / "zeta-policy--omega-judge", VALUES)
    words = ("--rows=40", "--overlap=8")
    with (
        served(run, *words) as (url, process),
        watched(browser, url) as ann,
        watched(browser, url) as ben,
    ):
        sent = [watch_texts(ann), watch_texts(ben)]
        sign_in(ann, "ann")
        sign_in(ben, "ben")
        for _ in range(6):
            press(ann, "a", "b", "t")
            press(ben, "b", "x")
        before = read_labels(run / "labels.jsonl").by_row_and_labeller
        assert len(before) == 30, "each key has saved a label"
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        texts = [*map("".join, sent)]
        assert all("Question" in each for each in texts)
    with (
        served(run, *words) as (url, process),
        watched(browser, url) as ann,
        watched(browser, url) as ben,
    ):
        sent = [watch_texts(ann), watch_texts(ben)]
        sign_in(ann, "ann")
        sign_in(ben, "ben")
        assert read_labels(run / "labels.jsonl").by_row_and_labeller == before
        assert ann.page.inner_text("h1") == "Row 19"
        press(ann, "u", "t")
        for seen in (ben, ann):
            while seen.page.inner_text("h1").startswith("Row"):
                press(seen, "b")
        texts += map("".join, sent)
        shown = progress(ann)
        assert_unharmed(ann)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130 and err == ""
    labels = read_labels(run / "labels.jsonl")
    assert (
        f"saved in {run / 'labels.jsonl'}: {len(labels.by_row_and_labeller)} labels (rows: 40, labellers: 2)"
        in out
    )
    assert f"judgegym report {run} --labels {run / 'labels.jsonl'}" in out
    assert {uid for uid, _ in labels.by_row_and_labeller} == {*labels.means()}
    assert labels.agreement().rows >= 4
    for name in (*SECRETS, "model_is", "winrate", "0.5 ", "labels.jsonl"):
        assert not any(name in each for each in texts), name
    page = tmp_path / "report.html"
    assert report([str(run), "--labels", str(run / "labels.jsonl"), "--output", str(page)]) == 0
    interval = correct_run(SavedRun.open(run), labels).whole.interval
    assert interval is not None and f"{interval.low:.4f} to {interval.high:.4f}" in page.read_text()
    half_width = (interval.high - interval.low) / 2
    assert f"40 of 40 rows labelled; 95 % interval ± {half_width:.3f}" in shown


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {"rubric": HOSTILE, "reference": HOSTILE}
    return run_of(
        tmp_path_factory.mktemp("label") / "run", VALUES, texts=texts, answer=HOSTILE, **SCALE
    )


@pytest.fixture(scope="module")
def url(scored: Path) -> Iterator[str]:
    with served(scored, "--out", str(scored.parent / "labels.jsonl")) as (address, _):
        yield address


def labels_of(scored: Path, labeller: str) -> list[Label]:
    given = read_labels(scored.parent / "labels.jsonl").by_row_and_labeller
    return [label for label in given.values() if label.labeller == labeller]


def test_hostile_texts_are_shown_as_text(browser: Any, url: str) -> None:
    with watched(browser, url) as seen:
        sign_in(seen, HOSTILE[:70])
        assert seen.page.locator("img, svg, script[src], iframe").count() == 0
        assert seen.page.inner_text("pre >> nth=3").startswith(
            HOSTILE.replace("\u202e", "\u202e")[:40]
        )
        press(seen, "3")
        assert seen.page.inner_text("h1") == "Row 2" and HOSTILE[:70] in seen.page.inner_text(
            "header"
        )
        assert_unharmed(seen)


def test_a_note_is_typed_without_pressing_keys_and_enter_sends_nothing(
    browser: Any, url: str, scored: Path
) -> None:
    with watched(browser, url) as seen:
        sign_in(seen, "noter")
        seen.page.keyboard.press("w")
        seen.page.keyboard.type("1 u x 2")
        seen.page.keyboard.press("Enter")
        press(seen, "4")
        assert seen.page.inner_text("h1") == "Row 2"
        (label,) = labels_of(scored, "noter")
        assert (label.note, label.label) == ("1 u x 2", 0.75)


def test_a_key_that_is_held_or_has_ctrl_labels_nothing(
    browser: Any, url: str, scored: Path
) -> None:
    with watched(browser, url) as seen:
        sign_in(seen, "holder")
        seen.page.keyboard.press("Control+3")
        with seen.page.expect_navigation():
            seen.page.keyboard.down("2")
        seen.until_painted()
        seen.page.keyboard.down("2")  # the system repeats it on the next page
        seen.page.keyboard.up("2")
        press(seen, "5")
        assert seen.page.inner_text("h1") == "Row 3"
        assert [label.label for label in labels_of(scored, "holder")] == [0.25, 1.0]


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"width": 390}])
def test_it_fits_a_phone_is_dark_where_the_system_is_and_shows_the_focus(
    browser: Any, url: str, options: dict[str, Any]
) -> None:
    with watched(browser, url, **options) as seen:
        page = seen.page
        sign_in(seen, f"one-{len(options)}-{options.get('width')}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        dark = (
            page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        )
        assert dark == (options.get("color_scheme") == "dark")
        assert page.get_attribute(
            "#progress", "aria-live"
        ) == "polite" and "rows labelled" in progress(seen)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.value") == "1"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        box = page.locator("footer").bounding_box()
        assert box["y"] + box["height"] <= page.viewport_size["height"] + 1, "the keys are in sight"
        press(seen, "Space")  # the button with the focus
        assert page.inner_text("h1") == "Row 2"
        assert_unharmed(seen)


def test_without_scripts_buttons_label(browser: Any, url: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(url)
    page.get_by_label("Your name").fill("plain")
    page.get_by_role("button", name="Start").click()
    page.get_by_label(re.compile("note")).fill("by hand")
    page.get_by_label(re.compile("note")).press("Enter")
    page.get_by_role("button", name="x cannot tell").click()
    assert page.inner_text("h1") == "Row 2", "Enter in the note sent nothing"
    context.close()


def test_aspects_are_asked_one_by_one_and_undo_goes_one_back(browser: Any, tmp_path: Path) -> None:
    aspects = [
        {"name": name, "definition": f"Is it {name}?"} for name in ("right", "short", "kind")
    ]
    run = run_of(
        tmp_path / "run", VALUES, {"aspects": aspects}, environment="aspect_critique", texts={}
    )
    with served(run) as (address, _), watched(browser, address) as seen:
        sign_in(seen, "ann")
        assert "1 of 3: Is it right?" in seen.page.inner_text("legend")
        seen.page.locator("#note").fill("so so")
        seen.page.keyboard.press("Escape")
        press(seen, "y", "y", "u", "n")
        assert (
            "3 of 3: Is it kind?" in seen.page.inner_text("legend")
            and seen.page.input_value("#note") == "so so"
        )
        press(seen, "y")
        assert seen.page.inner_text("h1") == "Row 2"
        (label,) = read_labels(run / "labels.jsonl").by_row_and_labeller.values()
        assert label.parts == {
            "right": 1.0,
            "short": 0.0,
            "kind": 1.0,
        } and label.label == pytest.approx(2 / 3)
        assert label.note == "so so"
