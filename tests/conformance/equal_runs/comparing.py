"""Compares two folders of runs, file by file and line by line.

A line of JSON is compared as its text, so the order of fields and the form of numbers count, once
the fields that two runs do not have in common are out of it. Of `calls.jsonl.gz` each call counts
with its row, key, messages, parameters
and answer, in any order: calls are recorded as their responses arrive. So do groups of a training
come, whose order the numbers of `IN_ORDER_OF_ARRIVAL` depend on in their last digits.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.conformance.equal_runs.making import MADE, ROWS

OF_ONE_RUN = re.compile(
    r"(?:.*/)?(?:run|date|judgegym_version|at|.*(?:latency|seconds|per_second).*)"
)
"""Fields whose values two equal runs need not have in common: what a run took, when, and with which version."""

REMOVED: dict[str, str] = {}
"""Fields that a change has removed on purpose, with the reason: they are left out of both sides."""

_CALL = (
    "row",
    "group",
    "key",
    "part",
    "component",
    "vote",
    "model",
    "messages",
    "parameters",
    "has_verdict",
)
_FILES = {".json", ".jsonl", ".csv", ".md", ".yaml"}
_SETTINGS = {"config.yaml"}
"""Compared by tests of their own: a setting that goes is no result."""
IN_ORDER_OF_ARRIVAL = {"train_metrics.json", "monitor.jsonl"}
_DIGITS = 12
_LIVE = {"live.jsonl"}
"""What a page of a training showed second by second."""
_SHORTEST = 160


@dataclass(frozen=True)
class Difference:
    """Two values, and where they stand."""

    run: str
    file: str
    line: int
    field: str
    values: tuple[str, str]

    def __str__(self) -> str:
        """One line for people."""
        place = f"{self.run}/{self.file}:{self.line}" if self.line else f"{self.run}/{self.file}"
        before, after = (shortened(value) for value in self.values)
        return f"{place}: {self.field or 'the whole'}: {before} → {after}"


@dataclass(frozen=True)
class Comparison:
    """What two folders have in common, and what not."""

    runs: int
    files: int
    differences: Sequence[Difference]


ABSENT = "(absent)"


def compare(before: Path, after: Path, without: Collection[str] = ()) -> Comparison:
    """Compare the runs of two folders; a run that only one of them has is a difference."""
    sides = (_Side(before, frozenset(without)), _Side(after, frozenset(without)))
    names = [
        {run.name for run in side.folder.iterdir() if run.is_dir() and run.name != ROWS}
        for side in sides
    ]
    differences: list[Difference] = []
    files = 0
    for run in sorted(names[0] | names[1]):
        if run not in names[0] & names[1]:
            present = tuple("the run" if run in found else ABSENT for found in names)
            differences.append(Difference(run, "", 0, "", (present[0], present[1])))
            continue
        of_run = sorted({path for side in sides for path in side.files(run)})
        files += len(of_run)
        for file in of_run:
            differences += _compare_file(run, file, sides)
    return Comparison(len(names[0] & names[1]), files, differences)


@dataclass(frozen=True)
class _Side:
    """One of the two folders."""

    folder: Path
    without: frozenset[str]

    def files(self, run: str) -> Iterator[str]:
        """The files of a run that are compared."""
        for path in (self.folder / run).rglob("*"):
            if path.name == "calls.jsonl.gz" or (
                path.suffix in _FILES and path.name not in _SETTINGS | _LIVE
            ):
                yield path.relative_to(self.folder / run).as_posix()

    def lines(self, run: str, file: str) -> list[str] | None:
        """The comparable lines of a file; `None` without the file."""
        path = self.folder / run / file
        if not path.exists():
            return None
        if path.name == "calls.jsonl.gz":
            return self._calls(path)
        text = self._without_paths(path.read_text(encoding="utf-8"))
        if path.name in IN_ORDER_OF_ARRIVAL:
            values = (
                [json.loads(text)] if path.suffix == ".json" else map(json.loads, text.splitlines())
            )
            return [
                json.dumps(_rounded(self._kept(value)), ensure_ascii=False, sort_keys=True)
                for value in values
            ]
        if path.suffix == ".json":
            return [json.dumps(self._kept(json.loads(text)), ensure_ascii=False)]
        if path.suffix == ".jsonl":
            return [self._line(line) for line in text.splitlines()]
        return text.splitlines()

    def _line(self, line: str) -> str:
        """A line as it stands, or without what is one run's own."""
        whole = json.loads(line)
        kept = self._kept(whole)
        return line if kept == whole else json.dumps(kept, ensure_ascii=False)

    def _kept(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: self._kept(inner)
                for name, inner in value.items()
                if not OF_ONE_RUN.fullmatch(name)
                and name not in self.without
                and name not in REMOVED
            }
        if isinstance(value, list):
            return [self._kept(inner) for inner in value if not _is_of_one_run(inner)]
        return value

    def _calls(self, path: Path) -> list[str]:
        found, texts = [], dict[str, str]()
        for line in self._without_paths(gzip.decompress(path.read_bytes()).decode()).splitlines():
            call = json.loads(line).get("call")
            if call is not None:
                for message in call.get("messages") or ():
                    name = message.get("text")  # a long text stands where it is used first
                    message["content"] = (
                        texts.setdefault(name, message.get("content"))
                        if name
                        else message["content"]
                    )
                answer = call.get("answer") or {}
                kept = {name: call.get(name) for name in _CALL if name not in self.without}
                found.append(
                    json.dumps({**kept, "choices": answer.get("choices")}, ensure_ascii=False)
                )
        return sorted(found)

    def _without_paths(self, text: str) -> str:
        about = json.loads((self.folder / MADE).read_text(encoding="utf-8"))
        return text.replace(about["checkout"], "CHECKOUT").replace(about["folder"], "FOLDER")


def _is_of_one_run(value: Any) -> bool:
    """Whether it is the check of an audit that has measured time."""
    return isinstance(value, dict) and value.get("name") == "seconds_per_call"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, _DIGITS) + 0.0 if isinstance(value, float) else value


def _compare_file(run: str, file: str, sides: tuple[_Side, _Side]) -> Iterator[Difference]:
    before, after = (side.lines(run, file) for side in sides)
    if before is None or after is None:
        values = tuple(
            ABSENT if lines is None else f"{len(lines)} lines" for lines in (before, after)
        )
        yield Difference(run, file, 0, "", (values[0], values[1]))
        return
    for number, (left, right) in enumerate(zip_longest(before, after), 1):
        if left == right:
            continue
        for field, values in _compare_lines(
            left, right, is_json=Path(file).suffix not in {".csv", ".md", ".yaml"}
        ):
            yield Difference(run, file, number, field, values)


def _compare_lines(
    left: str | None, right: str | None, *, is_json: bool
) -> Iterator[tuple[str, tuple[str, str]]]:
    if left is None or right is None or not is_json:
        yield "", (left or ABSENT, right or ABSENT)
        return
    found = list(compare_values(json.loads(left), json.loads(right), ""))
    yield from found or [("the order of fields, or how a value is written", (left, right))]


def compare_values(left: Any, right: Any, field: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each difference of two values of JSON: its path, which begins with `field`, and both sides as JSON."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in {**left, **right}:
            inner = f"{field}.{name}" if field else name
            if name in left and name in right:
                yield from compare_values(left[name], right[name], inner)
            else:
                yield inner, (_written(left, name), _written(right, name))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from compare_values(one, other, f"{field}[{number}]")
    elif left != right or type(left) is not type(right):
        yield field, (json.dumps(left, ensure_ascii=False), json.dumps(right, ensure_ascii=False))


def _written(value: dict[str, Any], name: str) -> str:
    return json.dumps(value[name], ensure_ascii=False) if name in value else ABSENT


def shortened(text: str) -> str:
    """A text of at most a line or two."""
    return text if len(text) <= _SHORTEST else f"{text[:_SHORTEST]}… ({len(text)} characters)"
