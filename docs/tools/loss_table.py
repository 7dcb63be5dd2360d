"""Make the table of what a failed judge adds to the loss, from the comments of the tests that show it.

A comment `# Losses: TRAINER | ESTIMATOR | FORM | WORD`, or several, stands right above such a test;
a line that begins with `#   ` continues one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "tests"
FOLDERS = ("trainers", "core/server", "core/serve")
HEADER = ("trainer", "estimator", "form", "a failed judgment", "shown by")
READ = (
    ("AReaL (no plugin)", "any", "workflow that returns `None`", "safe", "read"),
    ("AReaL (no plugin)", "any", "`AsyncRewardWrapper`", "score", "read"),
    ("ROLL (no plugin)", "any", "its LLM judge's worker (0 or 0.5)", "score", "read"),
)
"""Trainers whose source was read and not run."""

_SHOWN = re.compile(
    r"^(?P<rows>(?:# Losses: .+\n(?:#   .+\n)*)+)"
    r"(?:(?!async def |def ).*\n)*?"
    r"(?:async )?def (?P<name>\w+)",
    re.MULTILINE,
)
_ROW = re.compile(r"^# Losses: (.+(?:\n#   .+)*)$", re.MULTILINE)


def losses() -> Iterator[tuple[str, ...]]:
    """Yield the table's header and its rows, by trainer and form."""
    yield from (HEADER, ("---",) * len(HEADER))
    rows = [*READ, *_shown_rows()]
    yield from sorted(rows, key=lambda row: (row[0].casefold(), row[2].casefold(), row[1]))


def _shown_rows() -> Iterator[tuple[str, ...]]:
    for folder in FOLDERS:
        for path in sorted((TESTS / folder).rglob("test_*.py")):
            for test in _SHOWN.finditer(path.read_text(encoding="utf-8")):
                place = f"`{path.relative_to(TESTS).as_posix()}::{test['name']}`"
                for row in _ROW.findall(test["rows"]):
                    cells = row.replace("\n#   ", " ").split(" | ")
                    yield (*(cell.strip() for cell in cells), place)
