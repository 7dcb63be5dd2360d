"""The page in a real browser: a judgment is made and shown. Needs playwright and the system's Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import needs_chromium
from tests.core.server.served import as_process

pytestmark = needs_chromium

QUESTION = "Why is the sky blue in the daytime?"
ANSWER = "Because the air scatters the blue part of daylight far more than the red part of it."


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1000, "height": 1000})
    yield page
    page.close()


def fill(page: Any, prompt: str, response: str) -> None:
    page.fill("#prompt", prompt)
    page.fill(".response", response)
    page.click("#go")


def test_a_judgment_is_made_and_shown(page: Any, tmp_path: Path) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    with as_process("--judge=rubric", "--offline") as url:
        page.goto(url)
        fill(page, QUESTION, ANSWER)
        page.wait_for_selector("#result.ok")
        shown = page.inner_text("#result")
        assert shown.startswith("Score ")
        assert "with the instruction" in shown
        row = page.inner_text("#recent tbody tr:first-child")
        assert QUESTION in row
        assert ANSWER in row
        fill(page, QUESTION, "<b>No</b> <script>document.title = 'broken'</script>")
        page.wait_for_selector("#recent tbody tr:nth-child(2)")
        assert "<b>No</b>" in page.inner_text("#recent tbody tr:first-child")
        assert page.title() == "JudgeGym reward server"
        page.screenshot(path=tmp_path / "page.png")
    assert errors == []
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_a_token_is_asked_for_and_a_refusal_shown(page: Any) -> None:
    with as_process("--judge=rubric", "--offline", '--tokens={"person": "open-sesame"}') as url:
        page.goto(url)
        fill(page, QUESTION, ANSWER)
        page.wait_for_selector("#result.failed")
        assert "token" in page.inner_text("#result")
        page.fill("#token", "open-sesame")
        page.click("#go")
        page.wait_for_selector("#result.ok")


def test_several_responses_are_compared_and_long_texts_can_be_read_to_their_end(page: Any) -> None:
    last_words = "and these are its last words."
    with as_process("--judge=choice", "--offline") as url:
        page.goto(url)
        page.fill("#prompt", QUESTION)
        page.fill(".response", ANSWER)
        page.click("#another")
        page.fill("label:nth-child(2) .response", f"{'No idea. ' * 100}{last_words}")
        page.click("#go")
        page.wait_for_selector("#result.ok")
        shown = page.inner_text("#result")
        assert "Response 1 (responses[0]): Score " in shown
        assert "Response 2 (responses[1]): Score " in shown
        page.wait_for_selector("#recent tbody tr:nth-child(2)")
        assert last_words not in page.inner_text("#recent")
        page.click("#recent summary >> nth=0")
        assert last_words in page.inner_text("#recent")


def test_page_says_what_a_single_response_waits_for_where_groups_are_gathered(page: Any) -> None:
    with as_process("--judge=listwise", "--group_size=8", "--group_wait=1", "--offline") as url:
        page.goto(url)
        fill(page, QUESTION, ANSWER)
        page.wait_for_selector("text=waits for other responses to this prompt")
        page.wait_for_selector("#result.failed")
        assert "1 of 8 members came" in page.inner_text("#result")
        page.click("#another")
        page.locator(".response").nth(1).fill("It is not blue at night.")
        page.click("#go")
        page.wait_for_selector("#result.ok")
        assert "Response 2 (responses[1]): Score 0." in page.inner_text("#result")
