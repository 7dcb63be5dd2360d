"""The page of an audit in a real browser: it shows what the audit says, and no text of the data is markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym_trials.audit.command import main
from tests.chromium import needs_chromium, watched
from tests.trials.audit.made import pairs, written

HOSTILE = (
    "</td></table><script>alert(1)</script><img src=x onerror=alert(2)> {{ 7 * 7 }} \u202e \" '"
)


@needs_chromium
def test_the_page_shows_the_audit(
    browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pairs(200, first=0.6)
    for number, row in enumerate(rows):
        row |= {
            "category": HOSTILE if number % 2 else "code",
            "probability": 0.1 + 0.8 * (row["label"] == 1),
        }
    data, page = written(tmp_path / "rows.jsonl", rows), tmp_path / "audit.html"
    assert main([str(data), f"--html={page}", f"--judge={HOSTILE}"]) == 4
    capsys.readouterr()
    with watched(browser, page) as seen:
        text = " ".join(seen.page.inner_text("main").split())
        for said in (
            "200 labelled rows, checks:",
            "first-place advantage",
            "{{ 7 * 7 }}",
            "Calibration",
            "(Holm)",
        ):
            assert said in text, said
        assert seen.page.locator("td.fails").count() >= 1
        lines = seen.page.locator("svg.line").count()
        assert lines == seen.page.locator("table").first.locator("tbody tr").count()
    with watched(browser, page, width=390, height=800) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
