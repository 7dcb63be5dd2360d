"""The tables and blocks of fields of the handbook's pages, as tests read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tests.command import ROOT

DOCS = ROOT / "docs"
_ROWS = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_CELLS = re.compile(r"(?<!\\)\|")
_FIELD = re.compile(
    r"(?P<indent> *)(?P<dashes>(?:- )*)(?P<name>[^:\s]+?)(?P<optional>\?)?(?P<null>\|null)?:"
    r"(?: (?P<kind>\w[^#]*?))?(?: +# .*)?"
)
_NAMES = re.compile(r"`([^`]+)`")
_RANGE = re.compile(r"(?P<low>−?[\d.]+)…(?P<high>−?[\d.]+)|≥ (?P<least>\d+)|(?P<any>any|the scale)")

Table = Sequence[Sequence[str]]


def tables(path: Path, *, header: str, section: str = "") -> list[Table]:
    """The rows of the tables whose first column has this header, in a section (by its heading) or on the whole page."""
    text = path.read_text(encoding="utf-8")
    if section:
        found = re.search(rf"^(#+) {re.escape(section)}\n(.*?)(?=^#{{1,2}} |\Z)", text, re.MULTILINE | re.DOTALL)
        assert found is not None, f"{path}: no section {section!r}"
        text = found[2]
    rows = [[_cells(line) for line in block.splitlines()] for block in _ROWS.findall(text)]
    return [table[2:] for table in rows if table[0][0] == header]


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
    """The metrics of a page's tables."""
    return [
        Documented(name, *_bounds(row[2]))
        for table in tables(DOCS / page, header="metric")
        for row in table
        for name in names_in(row[0])
    ]


def left_out_together(page: str) -> set[str]:
    """The names under which families of metrics are left out as a whole."""
    cells = [row[-1] for table in tables(DOCS / page, header="metric") for row in table]
    return {name for cell in cells for name in names_in(cell) if name.startswith("eval/")}


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
        kind = self.kind
        if kind.endswith(" or null"):
            if value is None:
                return True
            kind = kind.removesuffix(" or null")
        if kind.startswith("list of "):
            return isinstance(value, list) and all(_ELEMENTS[kind.removeprefix("list of ")](each) for each in value)
        if kind.startswith("object of "):
            of = _ELEMENTS[kind.removeprefix("object of ")]
            return isinstance(value, dict) and all(of(each) for each in value.values())
        return _KINDS[kind](value)


def section_fields(page: Path, section: str) -> dict[str, Field]:
    """The fields of the first written block of YAML below a heading, by their paths."""
    _, heading, text = page.read_text(encoding="utf-8").partition(f"# {section}\n")
    content = re.split(r"^#", text, maxsplit=1, flags=re.MULTILINE)[0]
    _, fence, block = content.partition("```yaml\n")
    assert heading and fence, f"{page}: no fields in a section {section!r}"
    return read_fields(block.partition("```")[0])


def generated_fields(page: Path, name: str, *, within: str = "") -> dict[str, Field]:
    """The fields of a generated block by their paths, `within` an object of another block."""
    marker = f"<!-- generated: fields {name} -->\n\n```yaml\n"
    _, found, text = page.read_text(encoding="utf-8").partition(marker)
    assert found, f"{page}: no generated fields {name!r}"
    return {within + path: field for path, field in read_fields(text.partition("```")[0]).items()}


@dataclass
class _Level:
    """An object whose fields are read: the column of its own name, its path, and how many lists are around it."""

    column: int
    path: str
    lists: int = 0

    def path_of(self, name: str) -> str:
        return f"{self.path}{'[]' * self.lists}.{name}" if self.path else name


def read_fields(block: str) -> dict[str, Field]:
    """The fields of a block by their paths: `a.b` is a field of an object, `a[].b` one of the objects of a list."""
    fields: dict[str, Field] = {}
    levels = [_Level(-1, "")]
    for line in block.splitlines():
        match = _FIELD.fullmatch(line)
        assert match is not None, f"no field: {line!r}"
        column = len(match["indent"]) + len(match["dashes"])
        while levels[-1].column >= column:
            levels.pop()
        above = levels[-1]
        if match["dashes"]:
            above.lists = len(match["dashes"]) // 2
            is_null = fields[above.path].kind.endswith(" or null")
            fields[above.path] = Field("list or null" if is_null else "list", fields[above.path].may_be_absent)
        path = above.path_of(match["name"])
        kind = match["kind"] or ("object or null" if match["null"] else "object")
        assert path not in fields, f"twice: {path}"
        fields[path] = Field(kind, bool(match["optional"]))
        levels.append(_Level(column, path))
    return fields


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": _is_number,
    "whole number": lambda value: _is_number(value) and isinstance(value, int),
    "true or false": lambda value: isinstance(value, bool),
    "text or number": lambda value: isinstance(value, str) or _is_number(value),
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_ELEMENTS: Mapping[str, Callable[[Any], bool]] = {
    "texts": _KINDS["text"],
    "numbers": _is_number,
    "truths": _KINDS["true or false"],
    "lists": _KINDS["list"],
    "objects": _KINDS["object"],
    "values": lambda value: True,
    "texts or nulls": lambda value: value is None or isinstance(value, str),
    "numbers or nulls": lambda value: value is None or _is_number(value),
}


class Check:
    """Holds the objects of files against the fields of blocks, and remembers which fields were there."""

    def __init__(self, fields: Mapping[str, Field], **placeholders: str) -> None:
        """Check `fields`; a name within a file that is the value of a placeholder is shown as the placeholder."""
        self._fields = fields
        self._placeholders = placeholders
        self._seen: set[str] = set()

    def add(self, value: Mapping[str, Any]) -> None:
        """Check an object: its fields are in a block, of the type there, and all are there that are never absent."""
        self._object(value, "")

    @property
    def never_seen(self) -> list[str]:
        """The fields that no object had."""
        return [name for name in self._fields if name not in self._seen]

    def _object(self, value: Mapping[str, Any], path: str) -> None:
        names = {self._shown(name): inner for name, inner in value.items()}
        for name, inner in names.items():
            self._value(inner, f"{path}{name}")
        depth = path.count(".")
        needed = [
            name
            for name, field in self._fields.items()
            if name.startswith(path) and name.count(".") == depth and not field.may_be_absent
            and not name.endswith("[]") and "." not in name[len(path):] and "[" not in name[len(path):]
        ]  # fmt: skip
        assert [name for name in needed if name[len(path) :] not in names] == [], "fields that are never absent"

    def _shown(self, name: str) -> str:
        for placeholder, value in self._placeholders.items():
            name = name.replace(value, f"{{{placeholder}}}") if name.startswith("atropos|") else name
        return name

    def _value(self, value: Any, path: str) -> None:
        field = self._fields.get(path)
        if field is None:
            within = any(name.startswith((f"{path}.", f"{path}[")) for name in self._fields)
            assert within, f"a field that no page explains: {path}"
        else:
            self._seen.add(path)
            assert field.holds(value), f"{path}: expected {field.kind}, found {value!r}"
        if field is not None and field.is_open:
            return
        if isinstance(value, dict):
            self._object(value, f"{path}.")
        elif isinstance(value, list):
            self._elements(value, f"{path}[]")

    def _elements(self, values: Sequence[Any], path: str) -> None:
        for value in values:
            if isinstance(value, dict):
                self._object(value, f"{path}.")
            elif isinstance(value, list):
                self._elements(value, f"{path}[]")
