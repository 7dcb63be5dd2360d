"""Links of the documents lead to files and headings that exist, also outside the site, which mkdocs checks itself."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, name_of

_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


@cache
def headings(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for name, heading in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), name
        if heading:
            assert heading in headings(path), f"{name}#{heading}"
