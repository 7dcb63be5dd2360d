"""The page of a scored data set in a real browser; it is written before the browser starts, whose loop runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.run_page.page import write_report
from tests.chromium import needs_chromium, watched
from tests.command import serving, write_lines
from tests.core.datasets.scoring import rated, score

pytestmark = needs_chromium

HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scored")
    rows = [
        {"prompt": f"Question <b> {n}", "responses": [f"{n % 5 + 1} points", HOSTILE]}
        for n in range(12)
    ]
    with serving(rated(lambda text: 3 if text[0] == "<" else int(text.split()[0]))) as judge:
        data, out = write_lines(folder / "data.jsonl", rows), folder / "scored.jsonl"
        assert score(data, "--out", out, f"--judge_base_url={judge.base_url}").code == 0
    return write_report(out)


def test_responses_are_listed_the_worst_first_and_open_with_the_reasons_of_the_judge(
    page: Path, browser: Any
) -> None:
    with watched(browser, page) as seen:
        seen.until("document.querySelectorAll('#list .row').length > 0")
        assert seen.page.inner_text("#count").startswith("24 responses")
        assert "answer" not in seen.page.inner_text("#overview").lower(), "no policy was asked"
        seen.page.click("#list .row:first-child a")
        seen.until("document.getElementById('detail-parts').innerText.includes('explanation of')")
        detail = seen.page.inner_text("#detail-parts")
        assert "score 0" in detail and "Because." in detail and "Question <b> 0" in detail
        seen.page.evaluate("location.hash = 'row-1%2F2'")
        seen.until("document.getElementById('detail-title').innerText === 'row-1/2'")
        assert HOSTILE in seen.page.inner_text("#detail-parts")
        seen.assert_clean()
