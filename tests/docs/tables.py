"""The tables and blocks of fields of the handbook's pages, as tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from tests.command import ROOT

DOCS = ROOT / "docs"
_ROWS = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_CELLS = re.compile(r"(?<!\\)\|")
_NAMES = re.compile(r"`([^`]+)`")
_METRICS = re.compile(r"`(?P<name>[^`]+)`(?P<interval> ±)?")
_TOGETHER = re.compile(r"left out as `(eval/[^`]+)`")
_RANGE = re.compile(r"(?P<low>−?[\d.]+)…(?P<high>−?[\d.]+)|≥ (?P<least>\d+)|(?P<any>any|the scale)")

Table = Sequence[Sequence[str]]


def tables(path: Path, *, header: str) -> list[Table]:
    """The rows of the page's tables whose first column has this header."""
    return [table[2:] for table in _tables(path) if table[0][0] == header]


def _tables(path: Path) -> list[Table]:
    """The page's tables, with their headers."""
    text = path.read_text(encoding="utf-8")
    return [[_cells(line) for line in block.splitlines()] for block in _ROWS.findall(text)]


def _cells(line: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in _CELLS.split(line)[1:-1]]


def names_in(cell: str) -> list[str]:
    """The names in a cell; one that begins with `…` goes on from the last one that does not."""
    names: list[str] = []
    whole = ""
    for name in _NAMES.findall(cell):
        if not name.startswith("…"):
            whole = name
        names.append(name.replace("…", whole) if name.startswith("…") else name)
    return names


@dataclass(frozen=True)
class Documented:
    """A metric in a table: its name with placeholders, and the range that its values keep to."""

    name: str
    low: float
    high: float

    def expanded(self, placeholders: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """The names that it stands for."""
        used = re.findall(r"{(\w+)}", self.name)
        for values in product(*(placeholders[name] for name in used)):
            yield self.name.format(**dict(zip(used, values, strict=True)))


def metrics_of(page: str) -> list[Documented]:
    """The metrics of a page's tables; a row has one range, or one for each of its names."""
    metrics = []
    for row in _metric_rows(page):
        families = _families(row["metric"])
        ranges = [_bounds(part) for part in row["range"].split("; ")]
        if len(ranges) == 1:
            ranges *= len(families)
        for names, (low, high) in zip(families, ranges, strict=True):
            metrics += [Documented(name, low, high) for name in names]
    return metrics


def left_out_together(page: str) -> set[str]:
    """The names under which families of metrics are left out as a whole."""
    names = set()
    for row in _metric_rows(page):
        names.update(_TOGETHER.findall(row["formula"]))
        names.update(name for name in names_in(row.get("left out", "")) if name.startswith("eval/"))
    return names


def _metric_rows(page: str) -> Iterator[Mapping[str, str]]:
    """The rows of a page's tables of metrics: cells by the header of their column."""
    for header, _, *rows in _tables(DOCS / page):
        if header[0] == "metric":
            yield from (dict(zip(header, row, strict=True)) for row in rows)


def _families(cell: str) -> list[list[str]]:
    """The names of a cell, in a list for each that is written there.

    `*/` stands for `eval/` and `train/`, and ± adds the ends of the interval, which evaluations have.
    A name that begins with `…` goes on from the last one that does not.
    """
    families: list[list[str]] = []
    whole = ""
    for match in _METRICS.finditer(cell):
        name = match["name"]
        if name.startswith("…"):
            families.append([whole + name[1:]])
            continue
        whole = name
        names = [name.replace("*/", prefix, 1) for prefix in ("eval/", "train/")]
        if not name.startswith("*/"):
            names = [name]
        if match["interval"]:
            assert names[0].startswith("eval/"), f"only evaluations have intervals: {name}"
            names += [f"{names[0]}_ci_low", f"{names[0]}_ci_high"]
        families.append(names)
    return families


def _bounds(cell: str) -> tuple[float, float]:
    found = _RANGE.match(cell)
    assert found is not None, f"no range: {cell!r}"
    if found["any"]:
        return float("-inf"), float("inf")
    if found["least"] is not None:
        return float(found["least"]), float("inf")
    return float(found["low"].replace("−", "-")), float(found["high"].replace("−", "-"))


@dataclass(frozen=True)
class Field:
    """A field of a block: the words for its type, and whether it may be absent."""

    kind: str
    may_be_absent: bool

    @property
    def is_open(self) -> bool:
        """Whether the names, or the elements, within it are data."""
        return self.kind.startswith(("object of", "list of"))

    def holds(self, value: Any) -> bool:
        """Whether a value is of the type."""
        return _holds(self.kind, value)


def _holds(kind: str, value: Any) -> bool:
    if kind.endswith(" or null"):
        return value is None or _holds(kind.removesuffix(" or null"), value)
    container, of, elements = kind.partition(" of ")
    if of:
        element = (
            elements.replace("truths", "true or false")
            .replace("s or nulls", " or null")
            .removesuffix("s")
        )
        values = value.values() if isinstance(value, dict) else value
        return isinstance(value, _TYPES[container]) and all(
            _holds(element, each) for each in values
        )
    return isinstance(value, _TYPES[kind]) and (
        kind == "value" or isinstance(value, bool) == (kind == "true or false")
    )


def generated_fields(page: Path, name: str) -> dict[str, Field]:
    """Return the fields of a generated block of `fields` or `lines`, by their paths."""
    text = page.read_text(encoding="utf-8")
    marker = re.compile(rf"<!-- generated: (?:fields|lines) {re.escape(name)} -->\n\n```yaml\n")
    match = marker.search(text)
    assert match, f"{page}: no generated fields {name!r}"
    return read_fields(text[match.end() :].partition("```")[0])


def read_fields(block: str) -> dict[str, Field]:
    """Return the fields of a block by path: `a.b` is a field of an object, `a[].b` one of the objects of a list."""
    return dict(_fields_in(yaml.load(block, yaml.BaseLoader), ""))


def _fields_in(content: Mapping[str, Any], within: str) -> Iterator[tuple[str, Field]]:
    for key, inner in content.items():
        path = within + key.removesuffix("|null").removesuffix("?")
        kind = inner if isinstance(inner, str) else type(inner).__name__.replace("dict", "object")
        yield path, Field(kind + " or null" * key.endswith("|null"), "?" in key)
        while isinstance(inner, list):
            (inner,), path = inner, f"{path}[]"
        if isinstance(inner, dict):
            yield from _fields_in(inner, f"{path}.")


_TYPES: Mapping[str, Any] = {
    "text": str,
    "number": int | float,
    "whole number": int,
    "true or false": bool,
    "text or number": str | int | float,
    "list": list,
    "object": dict,
    "value": object,
}


class Check:
    """Holds the objects of files against the fields of blocks, and remembers which fields were there."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        """Check `fields`."""
        self._fields = fields
        self._seen: set[str] = set()

    def add(self, value: Mapping[str, Any]) -> None:
        """Check an object: its fields are in a block, of the type there, and all are there that are never absent."""
        self._object(value, "")

    @property
    def never_seen(self) -> list[str]:
        """The fields that no object had."""
        return [name for name in self._fields if name not in self._seen]

    def _object(self, value: Mapping[str, Any], path: str) -> None:
        for name, inner in value.items():
            self._value(inner, f"{path}{name}")
        needed = [
            name
            for name, field in self._fields.items()
            if name.startswith(path)
            and not field.may_be_absent
            and not {".", "["} & {*name[len(path) :]}
        ]
        assert [name for name in needed if name[len(path) :] not in value] == [], (
            "fields that are never absent"
        )

    def _value(self, value: Any, path: str) -> None:
        field = self._fields.get(path)
        assert field is not None, f"a field that no page explains: {path}"
        self._seen.add(path)
        assert field.holds(value), f"{path}: expected {field.kind}, found {value!r}"
        if not field.is_open:
            self._inner(value, path)

    def _inner(self, value: Any, path: str) -> None:
        if isinstance(value, dict):
            self._object(value, f"{path}.")
        elif isinstance(value, list):
            for element in value:
                self._inner(element, f"{path}[]")
