"""The Arrow types of JSON rows that become columns of Parquet: one type for a column, found over all rows.

Guarantees: no value is lost or changed. A column of which no Arrow type says everything (texts beside numbers, objects
with different keys, integers of more than 64 bits, integers that a float64 would round) keeps each value as JSON text,
and the file says so (`judgegym/data/stored.py`), so that `load_rows` makes the same values again. What Parquet
cannot say: that a row lacks a key (null), and a lone surrogate (U+FFFD, as in everything that this project reads).

Rows of tables as JSON lines.

Guarantee: every Arrow value has one text: timestamps, dates and times in ISO 8601 with all their digits, durations in
ISO 8601, decimals as text with their own digits, binary data in base64, dictionaries by their values, maps as lists of
pairs, columns of JSON text as their values. NaN and infinite numbers, which JSON has not, are null.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, cast

import orjson

from judgegym.data.stored import StoredTable, json_text_columns
from judgegym.datasets.files.own_text import read_exactly
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow


MOST_COLUMNS = 2_000
_DEEPEST = 32
_EXACT_IN_FLOAT = 2**53
_LONG = 2.0**63
_INT64, _UINT64 = range(-(2**63), 2**63), range(2**64)


class LongNumber(Exception):
    """A number may be an integer of more than 64 bits."""


@dataclass(slots=True)
class Shape:
    """What the values of a column have in common, or those at one place in it.

    Attributes:
        kinds: the Python types of the values, without that of null.
        least: the least integer, or 0, and `most` the greatest.
        items: the shape of the entries of lists.
        fields: the shapes of the fields of objects, all of which have these keys.
        is_mixed: no Arrow type says everything.
    """

    kinds: set[type] = field(default_factory=set)
    least: int = 0
    most: int = 0
    items: Shape | None = None
    fields: dict[str, Shape] | None = None
    is_mixed: bool = False

    def see(self, value: JSON, depth: int = 0, *, is_exact: bool = True) -> bool:
        """Add a value; return whether there still is a type that says everything.

        A value that is seen twice counts once.

        Args:
            value: any JSON.
            depth: how deep in its column it is.
            is_exact: whether a float of more than 64 bits is one, and not what a reader made of an integer.

        Raises:
            LongNumber: there is such a float, and it is not known to be exact.
        """
        if value is None or self.is_mixed:
            return not self.is_mixed
        if not is_exact and isinstance(value, float) and abs(value) >= _LONG:
            raise LongNumber
        kind = type(value)
        self.kinds.add(kind)
        fits = depth <= _DEEPEST and (len(self.kinds) == 1 or self.kinds == {int, float})
        if isinstance(value, str) or kind is bool:
            pass
        elif isinstance(value, int | float):
            if kind is int:
                self.least, self.most = min(self.least, int(value)), max(self.most, int(value))
            fits = fits and self._integers_fit()
        elif isinstance(value, dict):
            fits = fits and self._sees_fields(value, depth, is_exact=is_exact)
        elif isinstance(value, list):
            self.items = items = self.items or Shape()
            fits = fits and all(items.see(item, depth + 1, is_exact=is_exact) for item in value)
        self.is_mixed = not fits
        return fits

    def _sees_fields(self, value: dict[str, JSON], depth: int, *, is_exact: bool) -> bool:
        if self.fields is None:
            self.fields = {key: Shape() for key in value}
        fields = self.fields
        return (
            bool(value)  # Parquet has no struct without fields
            and fields.keys() == value.keys()
            and all(fields[key].see(item, depth + 1, is_exact=is_exact) for key, item in value.items())
        )

    def _integers_fit(self) -> bool:
        if float in self.kinds:
            return self.least >= -_EXACT_IN_FLOAT and self.most <= _EXACT_IN_FLOAT
        return self.least in _INT64 and (self.most in _INT64 or (self.least == 0 and self.most in _UINT64))

    def arrow_type(self) -> pyarrow.DataType:
        """The type of a shape that is not mixed; without any value, the type null."""
        import pyarrow  # late: an extra

        if self.fields is not None:
            return pyarrow.struct([(name, shape.arrow_type()) for name, shape in self.fields.items()])
        if self.items is not None:
            return pyarrow.list_(self.items.arrow_type())
        if float in self.kinds:
            return pyarrow.float64()
        if int in self.kinds:
            return pyarrow.int64() if self.most in _INT64 else pyarrow.uint64()
        return pyarrow.string() if str in self.kinds else pyarrow.bool_() if bool in self.kinds else pyarrow.null()


def shapes_of(texts: Iterable[bytes], source: str) -> dict[str, Shape]:
    """The shapes of all columns, in the order in which the rows name them first.

    Args:
        texts: the objects of all rows.
        source: the data set's name, for messages.

    Raises:
        DataError: there are more columns than a table can sensibly have.
    """
    shapes: dict[str, Shape] = {}
    for text in texts:
        try:
            _see_row(shapes, cast("Mapping[str, JSON]", wire.loads(text)), is_exact=False)
        except LongNumber:
            _see_row(shapes, read_exactly(text), is_exact=True)
        if len(shapes) > MOST_COLUMNS:
            raise too_many_columns(source)
    return shapes


def _see_row(shapes: dict[str, Shape], row: Mapping[str, JSON], *, is_exact: bool) -> None:
    for name, value in row.items():
        shape = shapes.get(name)
        if shape is None:
            shape = shapes[name] = Shape()
        shape.see(value, is_exact=is_exact)


def too_many_columns(source: str) -> DataError:
    """The error for rows whose keys are no columns."""
    return DataError(
        f"{source}: the rows have more than {MOST_COLUMNS} different keys, which cannot all be columns of Parquet; "
        "give --out the ending .jsonl"
    )


def json_texts(table: StoredTable, places: range) -> Iterator[bytes]:
    """The rows of a table at places that follow each other, each as a JSON object on one line, without its end."""
    json_text = json_text_columns(table.schema)
    for batch in table.batches(places):
        columns = [_values(batch, number, json_text) for number in range(batch.num_columns)]
        names = [wire.dumps(name) for name in batch.schema.names]
        for values in zip(*columns, strict=True):
            fields = (name + b":" + value for name, value in zip(names, values, strict=True))
            yield b"{" + b",".join(fields) + b"}"


def _values(batch: pyarrow.RecordBatch, column: int, json_text: frozenset[str]) -> Iterator[bytes]:
    """The values of a column, as JSON."""
    import pyarrow  # late: an extra

    array = batch.column(column)
    is_json = batch.schema.names[column] in json_text
    if isinstance(array.type, pyarrow.BaseExtensionType):
        array = array.storage
    for value in array.to_pylist():
        if is_json and value is not None:
            yield wire.dumps(wire.loads(value))
        else:
            yield orjson.dumps(value, default=_plain)


def _plain(value: object) -> object:
    """A value that JSON has not."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):  # also the timestamps of pandas, which have nanoseconds
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def _duration(value: timedelta) -> str:
    """A duration in seconds, with all its digits; those of pandas have nanoseconds."""
    nanoseconds = value // timedelta(microseconds=1) * 1000 + int(getattr(value, "nanoseconds", 0))
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    digits = f"{seconds}.{rest:09d}".rstrip("0").rstrip(".")
    return f"{'-' if nanoseconds < 0 else ''}PT{digits}S"
