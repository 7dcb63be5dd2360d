"""The handbook as it is built: strictly, and asking for nothing from elsewhere."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import browser, needs_chromium, watched
from tests.forking import ROOT

__all__ = ["browser"]
mkdocs = pytest.importorskip("mkdocs.commands.build")
_ONE_BLOCK = re.compile(r"\.(?:py|txt|yaml|jsonl)\.html$")
_FETCHED = re.compile(
    r'<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, and not one warning."""
    from mkdocs.config import load_config

    folder: Path = tmp_path_factory.mktemp("site")
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setLevel(logging.WARNING)
    logging.getLogger("mkdocs").addHandler(handler)
    try:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
            patch.setenv("NO_MKDOCS_2_WARNING", "1")
            mkdocs.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    finally:
        logging.getLogger("mkdocs").removeHandler(handler)
    assert said.getvalue() == ""
    return folder


def pages(site: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(site.rglob("*.html")):
        yield str(path.relative_to(site)), path.read_text(encoding="utf-8")


def test_pages_fetch_nothing_and_show_tables_of_settings(site: Path) -> None:
    tables = 0
    for name, text in pages(site):
        assert _FETCHED.findall(text) == [], name
        tables += len(re.findall(r'<div class="settings">\s*<table>', text))
    assert tables > 20


def test_links_of_pages_lead_to_pages_and_pictures(site: Path) -> None:
    """Also where a document links to code, to a prompt or to a folder outside `docs/`."""
    links = [
        (name, target, site / name / ".." / target)
        for name, text in pages(site)
        if name != "404.html"  # its addresses are those of a server
        for target in re.findall(r'<(?:a|img)\b[^>]*\b(?:href|src)="(?![a-z]+:|#|")([^"#]+)', text)
    ]
    assert any(target.endswith(".py.html") for _, target, _ in links)
    assert [
        (name, target) for name, target, path in links if path.suffix not in (".html", ".png")
    ] == []
    assert [(name, target) for name, target, path in links if not path.resolve().is_file()] == []


@needs_chromium
def test_pages_open_from_the_disk_and_fit_a_desktop_and_a_phone(site: Path, browser: Any) -> None:
    widths = [375, 1280]
    with watched(browser, site / "index.html") as seen:
        for name, _ in pages(site):
            if name == "404.html" or _ONE_BLOCK.search(
                name
            ):  # addresses of a server; a block as on other pages
                continue
            seen.page.goto((site / name).as_uri())
            for width in widths:
                seen.page.set_viewport_size({"width": width, "height": 800})
                # The search moves for a moment when the width changes.
                seen.page.wait_for_function(
                    "width => document.documentElement.scrollWidth <= width", arg=width
                )
            widths.reverse()  # the next page is opened at the last width: half as many changes
        assert [url for url in seen.requests if not url.startswith("file:")] == []
        assert seen.errors == [] and seen.console == []


@needs_chromium
def test_the_search_works_from_the_disk(site: Path, browser: Any) -> None:
    with watched(browser, site / "settings" / "index.html") as seen:
        seen.page.focus("input[name=query]")
        seen.until(
            "document.querySelector('.md-search-result__meta').textContent.includes('Type to "
            "start')"
        )
        seen.page.keyboard.type("judge_temperature")
        seen.until("document.querySelector('.md-search-result__link') !== null")
        assert seen.errors == [] and seen.console == []
