"""Compares the records of two checkouts, task by task."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.conformance.equal_runs.comparing import ABSENT, compare_values, shortened

_ENDING = ".jsonl.gz"
_AROUND = 60
"""So many characters before the first one that differs are shown of two requests."""


@dataclass(frozen=True)
class Difference:
    """Two values, and where they stand."""

    setting: str
    task: str
    path: str
    before: str
    after: str

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.setting} {self.task} {self.path}: {shortened(self.before)} → "
            f"{shortened(self.after)}"
        )


@dataclass
class Comparison:
    """What two folders have in common, and what not."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)


def compare(before: Path, after: Path, only: Collection[str] = ()) -> Comparison:
    """Compare two folders.

    Args:
        before: one.
        after: the other.
        only: kinds, or names of settings, which alone count; all by default.
    """
    found = Comparison()
    names = [
        {path.name.removesuffix(_ENDING) for path in side.glob(f"*{_ENDING}")}
        for side in (before, after)
    ]
    for name in sorted(names[0] | names[1]):
        if only and not {name, name.partition("-")[0]} & {*only}:
            continue
        if name not in names[0] & names[1]:
            present = ["the setting" if name in side else ABSENT for side in names]
            found.differences.append(Difference(name, "", "", *present))
            continue
        found.counts["settings"] += 1
        lines = [_lines(side / f"{name}{_ENDING}") for side in (before, after)]
        for left, right in zip_longest(*lines):
            _compare_line(name, left, right, found)
    return found


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from file


def _compare_line(setting: str, left: str | None, right: str | None, found: Comparison) -> None:
    values = [json.loads(line) if line else {} for line in (left, right)]
    task = (values[0] or values[1]).get("task")
    if task is not None:
        found.counts["tasks"] += 1
        found.counts["responses"] += len(values[0].get("samples", ()))
        found.counts["failed"] += sum(
            sample["score"] is None for sample in values[0].get("samples", ())
        )
        found.counts["calls"] += len(values[0].get("calls", ()))
        found.counts["requests"] += sum(count for _, count in values[0].get("requests", ()))
    if left != right:
        place = task or "the whole"
        here = [Difference(setting, place, *of) for of in _of_task(*values)]
        unordered = Difference(
            setting,
            place,
            "the order of fields, or how a value is written",
            left or "",
            right or "",
        )
        found.differences += here or [unordered]


def _of_task(left: Any, right: Any) -> Iterator[tuple[str, str, str]]:
    requests = [
        {json.dumps(body): count for body, count in side.get("requests", ())}
        for side in (left, right)
    ]
    yield from _of_requests(*requests)
    kept = [
        {name: value for name, value in side.items() if name != "requests"}
        for side in (left, right)
    ]
    for side in kept:
        side["calls"] = {_name_of(call): call for call in side.get("calls", ())}
        side["samples"] = {sample["uid"]: sample for sample in side.get("samples", ())}
    for path, (before, after) in compare_values(*kept, ""):
        yield path, before, after


def _name_of(call: Any) -> str:
    return f"{call['component']} vote {call['vote']} part {call['part']}"


def _of_requests(left: Any, right: Any) -> Iterator[tuple[str, str, str]]:
    gone, new = (
        [body for body in left if body not in right],
        [body for body in right if body not in left],
    )
    for before, after in zip_longest(gone, new):
        if before is None or after is None:
            yield "requests", before or ABSENT, after or ABSENT
            continue
        at = next(
            place for place, (one, other) in enumerate(zip_longest(before, after)) if one != other
        )
        start = max(0, at - _AROUND)
        yield f"requests, from character {start}", before[start:], after[start:]
    for body in left:
        if body in right and left[body] != right[body]:
            yield f"requests, how often {shortened(body)}", str(left[body]), str(right[body])
