"""The examples of the pages in `docs/trainers/`, which the tests run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.blocks import blocks
from tests.trainers.loops.trainers import ROOT

PAGES = ROOT / "docs" / "trainers"
INDEX = PAGES / "index.md"


def page(target: str) -> Path:
    """The page of a target, by its title."""
    path = PAGES / f"{re.sub(r'[ -]', '_', target.lower())}.md"
    assert path.read_text(encoding="utf-8").startswith(f"# {target}\n"), f"the title of {path} is not {target!r}"
    return path


def example(target: str, language: str = "python", number: int = 0) -> str:
    """A block of code of the page of a target.

    Args:
        target: the page's title.
        language: the block's language.
        number: which of the page's blocks of that language, from 0.
    """
    return [block.text for block in blocks(page(target)) if block.language == language][number]


def swap(text: str, *pairs: tuple[str, str]) -> str:
    """The text with each first member replaced by the second; each must occur."""
    for old, new in pairs:
        assert old in text, f"the example has no {old!r}"
        text = text.replace(old, new)
    return text
