"""Compares resolved settings of two checkouts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from tests.conformance.equal_runs.comparing import ABSENT, compare_values, shortened
from tests.conformance.equal_settings.making import RESOLVED

WORDS = frozenset({"section", "url_setting", "price_settings", "limit_setting", "setting"})
"""Of a client's settings those that name flags, for messages; they do not count, nor how many clients are alike."""


@dataclass(frozen=True)
class Difference:
    """Two values, and where they stand."""

    case: str
    path: str
    before: str
    after: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.case}: {self.path}: {shortened(self.before)} → {shortened(self.after)}"


def compare(before: Path, after: Path, without: Collection[str] = ()) -> Iterator[Difference]:
    """Each difference of two folders.

    Args:
        before: one.
        after: the other.
        without: of `config` and `said` what does not count.
    """
    sides = [_lines(folder) for folder in (before, after)]
    for name in {**sides[0], **sides[1]}:
        if name not in sides[0] or name not in sides[1]:
            yield Difference(name, "", *("the case" if name in side else ABSENT for side in sides))
            continue
        left, right = (_counting(side[name], without) for side in sides)
        for line in unified_diff(left.pop("config"), right.pop("config"), lineterm="", n=0):
            if not line.startswith(("---", "+++", "@@")):
                yield Difference(
                    name, "config", *((line, ABSENT) if line[0] == "-" else (ABSENT, line))
                )
        for path, values in compare_values(left, right, ""):
            yield Difference(name, path, *values)


def _lines(folder: Path) -> Mapping[str, dict[str, Any]]:
    lines = map(json.loads, (folder / RESOLVED).read_text(encoding="utf-8").splitlines())
    return {line["case"]: line for line in lines}


def _counting(line: dict[str, Any], without: Collection[str]) -> dict[str, Any]:
    found = dict(line)
    if "config" in without or not found["config"]:
        found["config"] = []
    if "said" in without:
        found["said"] = []
    clients = {json.dumps(_without_words(client), sort_keys=True) for client in found["clients"]}
    found["clients"] = [json.loads(client) for client in sorted(clients)]
    return found


def _without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_words(inner) for name, inner in value.items() if name not in WORDS}
    return value
