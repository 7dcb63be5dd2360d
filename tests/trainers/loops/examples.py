"""The examples of `docs/trainers/index.md`, which the tests run as they stand there."""

from __future__ import annotations

import re

from tests.docs.blocks import Block, blocks
from tests.trainers.loops.trainers import ROOT

PAGES = ROOT / "docs" / "trainers"
INDEX = PAGES / "index.md"
LOSSES = PAGES / "losses.md"


def section(target: str) -> tuple[int, str]:
    """The section of a target: the number of its first line on the page, and its text with the heading."""
    text = INDEX.read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(target)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"{INDEX} has no section {target!r}"
    return text.count("\n", 0, match.start()) + 1, match[0]


def examples(target: str) -> list[Block]:
    """The blocks of code of the section of a target, in order."""
    first, text = section(target)
    return [block for block in blocks(INDEX) if first <= block.line < first + text.count("\n")]


def example(target: str, language: str = "python", number: int = 0) -> str:
    """A block of code of the section of a target.

    Args:
        target: the section's title.
        language: the block's language.
        number: which of the section's blocks of that language, from 0.
    """
    return [block.text for block in examples(target) if block.language == language][number]


def swap(text: str, *pairs: tuple[str, str]) -> str:
    """The text with each first member replaced by the second; each must occur."""
    for old, new in pairs:
        assert old in text, f"the example has no {old!r}"
        text = text.replace(old, new)
    return text
