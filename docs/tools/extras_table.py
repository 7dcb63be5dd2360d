"""Make the table of the optional parts of the installation, from the comments in `pyproject.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from judgegym.judges.config.extras import TRAINERS

_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_EXTRA = re.compile(r"^(?P<name>[\w-]+) = \[.*\] +# (?P<use>.+)$", re.MULTILINE)
_TABLE = "[project.optional-dependencies]\n"


def extras() -> Iterator[tuple[str, ...]]:
    """Yield the extras with what they are for; those of trainers together."""
    yield from (("extra", "for"), ("---", "---"))
    declared = _PROJECT.read_text(encoding="utf-8").partition(_TABLE)[2].partition("\n[")[0]
    for extra in _EXTRA.finditer(declared):
        yield (f"`{extra['name']}`", extra["use"])
    names = ", ".join(f"`{name}`" for name in sorted(TRAINERS))
    yield (names, "a trainer, with the trainer itself; some exclude each other")
