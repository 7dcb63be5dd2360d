"""Images on the page of a run, in a real browser: drawn from data on the page, and from nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judgegym.engine.runs.recorded_calls import RecordedCall
from judgegym.llm.types import ChatResponse
from judgegym.llm.wire import Choice, Image, Message
from judgegym.reports.run_page.items import image_views
from tests.chromium import needs_chromium, watched
from tests.core.reports.run_page.made import HEAD, detail, replace, summary, written
from tests.pictures import data_url, png

REMOTE, LOCAL = "http://127.0.0.1:9/a.png", data_url(png(40, 30))


def call_with(*urls: str) -> RecordedCall:
    images = [Image(url, mark=f"[image {number}]") for number, url in enumerate(urls, start=1)]
    message = Message(role="user", content="Q", images=images)
    return RecordedCall(
        "row-1", None, "score", 0, "m", (message,), {}, ChatResponse((Choice("A"),)), True
    )


def test_a_file_of_the_run_is_data_and_anything_else_an_address(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(png(40, 30))
    (tmp_path / "images" / "a.svg").write_text("<svg/>")
    (tmp_path / "secret.png").write_bytes(png())
    others = (
        "images/../secret.png",
        "images/b.png",
        "images/a.svg",
        "secret.png",
        REMOTE,
        str(tmp_path / "secret.png"),
    )
    views = image_views(tmp_path, [call_with("images/a.png", *others), call_with("images/a.png")])
    assert [view["data"] for view in views] == [LOCAL, *[""] * len(others)]
    assert [view["url"] for view in views] == ["images/a.png", *others]


@needs_chromium
def test_images_are_drawn_from_data_alone(browser: Any, tmp_path: Path) -> None:
    images = [
        {"title": "[image 1]", "url": "images/a.png", "data": LOCAL},
        {"title": "[image 2]", "url": REMOTE, "data": ""},
        {"title": "[image 3]", "url": "x", "data": REMOTE},
        {
            "title": '<img src="x">',
            "url": 'javascript:"x"',
            "data": "data:image/svg+xml;base64,PHN2Zy8+",
        },
    ]
    item = (summary("row-1"), detail("row-1", images=images))
    path = written(tmp_path / "page.html", [item], replace(HEAD, total=1))
    with watched(browser, f"{path.as_uri()}#row-1") as seen:
        seen.page.wait_for_selector("#detail .image")
        seen.until("document.querySelector('#detail .image img').naturalWidth === 40")
        shown = seen.page.locator("#detail .image")
        assert [shown.nth(number).locator("img").count() for number in range(4)] == [1, 0, 0, 0]
        assert REMOTE in str(shown.nth(1).text_content())
        assert '<img src="x">' in str(shown.nth(3).text_content())
        assert (seen.errors, seen.refusals) == ([], [])
        assert [each for each in seen.requests if not each.startswith(("file:", "data:"))] == []
