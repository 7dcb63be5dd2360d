"""The examples of `docs/trainers/index.md`, which the tests run as they stand there."""

from __future__ import annotations

import re

from tests.integrations.trainers import ROOT

README = ROOT / "docs" / "trainers" / "index.md"
_SECTION = r"^## {title}$(?P<text>.*?)(?=^## |\Z)"
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


def example(target: str, language: str = "python", number: int = 0) -> str:
    """A block of code of the section of a target.

    Args:
        target: the section's title.
        language: the block's language.
        number: which of the section's blocks of that language, from 0.
    """
    section = re.search(_SECTION.format(title=re.escape(target)), README.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None, f"no section {target!r} in {README}"
    blocks = [found["text"] for found in _BLOCK.finditer(section["text"]) if found["language"] == language]
    return blocks[number]


def swap(text: str, *pairs: tuple[str, str]) -> str:
    """The text with each first member replaced by the second; each must occur."""
    for old, new in pairs:
        assert old in text, f"the example has no {old!r}"
        text = text.replace(old, new)
    return text
