"""Write Parquet, one group of rows at a time: the columns of the input, and the added ones.

Guarantees: the bytes depend on the rows alone. The groups have a fixed number of rows, which
follows from the size of the data set, and nothing is written that differs between runs. Memory
holds one group. Every column of a table keeps its type. A column of JSON rows has one type,
inferred from all rows, and no value is lost or changed: where no Arrow type fits all values (texts
beside numbers, objects with different keys, integers of more than 64 bits, integers that a float64
would round), the column holds JSON text and is marked so in the file (`judgegym/data/arrow.py`), so
that `load_rows` restores the values. (The readers of `datasets` and pyarrow refuse such a column,
or give all objects the same keys.) Two things Parquet cannot express: a missing key becomes null,
and a lone surrogate U+FFFD, as everywhere in this project.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, cast

from judgegym.data.arrow import ArrowRows, mark_json_columns
from judgegym.data.json_file import JsonFile
from judgegym.datasets.files.columns import MOST_COLUMNS, AddedColumns, too_many_columns
from judgegym.datasets.files.row_text import parse_exact, value_texts
from judgegym.llm import wire
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow

_DEEPEST = 32
_EXACT_IN_FLOAT = 2**53
_INT64, _UINT64 = range(-(2**63), 2**63), range(2**64)
_DIGITS_AS_ZEROS = bytes.maketrans(b"0123456789\0", b"0" * 11)
_LONG_NUMBER = b"0" * 19
"""Integers above 64 bits have at least 19 digits; UTF-16 and UTF-32 put zero bytes between them."""
MOST_ROWS, MOST_BYTES = 1_000, 32 << 20
"""Limits of a group; the bytes are estimated by the mean size of a row."""


class _OutputBuffer(io.BytesIO):
    """A file for pyarrow; `take` returns the bytes written so far."""

    def close(self) -> None:
        """Keep the bytes, so that they can still be taken."""

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        data = self.getvalue()
        self.seek(0)
        self.truncate()
        return data


@dataclass(slots=True)
class Shape:
    """The common type of a column's values, or of the values nested at one place in it.

    Attributes:
        kinds: the Python types of the values, without null.
        least: the least integer, or 0.
        most: the greatest integer, or 0.
        items: the shape of the entries of lists.
        fields: the shapes of the fields of objects, all of which have these keys.
        is_mixed: no Arrow type fits all values.
    """

    kinds: set[type] = field(default_factory=set)
    least: int = 0
    most: int = 0
    items: Shape | None = None
    fields: dict[str, Shape] | None = None
    is_mixed: bool = False

    def observe(self, value: JSON, depth: int = 0) -> bool:
        """Add a value at `depth` in its column; return whether one type still fits all values."""
        if value is not None and not self.is_mixed:
            self.kinds.add(type(value))
            self.is_mixed = not self._fits(value, depth)
        return not self.is_mixed

    def _fits(self, value: JSON, depth: int) -> bool:
        if depth > _DEEPEST or (len(self.kinds) > 1 and self.kinds != {int, float}):
            return False
        if isinstance(value, dict):
            fields = self.fields = self.fields or {key: Shape() for key in value}
            is_alike = (
                bool(value) and fields.keys() == value.keys()
            )  # Parquet has no struct without fields
            return is_alike and all(
                fields[key].observe(item, depth + 1) for key, item in value.items()
            )
        if isinstance(value, list):
            items = self.items = self.items or Shape()
            return all(items.observe(item, depth + 1) for item in value)
        if type(value) is int:
            self.least, self.most = min(self.least, value), max(self.most, value)
        if float in self.kinds:
            return self.least >= -_EXACT_IN_FLOAT and self.most <= _EXACT_IN_FLOAT
        return self.least in _INT64 and (
            self.most in _INT64 or (self.least == 0 and self.most in _UINT64)
        )

    def arrow_type(self) -> pyarrow.DataType:
        """Return the Arrow type of a column; null for a column without values."""
        import pyarrow  # late: an extra

        if self.is_mixed:
            return pyarrow.string()
        if self.fields is not None:
            return pyarrow.struct(
                [(name, shape.arrow_type()) for name, shape in self.fields.items()]
            )
        if self.items is not None:
            return pyarrow.list_(self.items.arrow_type())
        if float in self.kinds:
            return pyarrow.float64()
        if int in self.kinds:
            if self.most in _INT64:
                return pyarrow.int64()
            return pyarrow.uint64()
        if str in self.kinds:
            return pyarrow.string()
        if bool in self.kinds:
            return pyarrow.bool_()
        return pyarrow.null()


def _infer_shapes(rows: JsonFile, source: str) -> Mapping[str, Shape]:
    """Infer the shapes of all columns, in the order of their first occurrence.

    Raises:
        DataError: there are more than `MOST_COLUMNS` columns.
    """
    shapes: dict[str, Shape] = {}
    for text in map(rows.text, range(len(rows))):
        digits = text.translate(_DIGITS_AS_ZEROS)
        is_long = digits.count(_LONG_NUMBER) > digits.count(
            b"." + _LONG_NUMBER
        )  # those are fractions
        row = parse_exact(text) if is_long else cast("Mapping[str, JSON]", wire.loads(text))
        for name, value in row.items():
            shapes.setdefault(name, Shape()).observe(value)
        if len(shapes) > MOST_COLUMNS:
            raise too_many_columns(source)
    return shapes


RowGroup: TypeAlias = "tuple[int, Sequence[pyarrow.Array | pyarrow.ChunkedArray]]"
"""A number of rows and an array for each column; JSON rows may have no column at all."""


class StoredColumns:
    """The columns of a table, as they are stored."""

    json_text = ()

    def __init__(self, rows: ArrowRows) -> None:
        """Read from the table of these rows."""
        self._rows = rows
        self.entries_keep_names = rows.entries_keep_names
        """Whether entries of lists keep their names; else they are `element`, as Parquet asks."""
        self.schema = _drop_fingerprint(rows.table.schema)

    def groups(self, row_range: range, rows: int) -> Iterator[RowGroup]:
        """Yield a range of rows in groups of `rows` rows."""
        return row_groups(self._rows.table.schema, self._rows.batches(row_range), rows)


def row_groups(
    schema: pyarrow.Schema, batches: Iterable[pyarrow.RecordBatch], rows: int
) -> Iterator[RowGroup]:
    """Regroup the rows of batches of any length into groups of `rows` rows."""
    import pyarrow  # late: an extra

    waiting = schema.empty_table()
    for batch in batches:
        waiting = pyarrow.concat_tables([waiting, pyarrow.Table.from_batches([batch], schema)])
        while len(waiting) >= rows:
            yield rows, waiting.slice(0, rows).columns
            waiting = waiting.slice(rows)
    if len(waiting):
        yield len(waiting), waiting.columns


class JsonColumns:
    """The keys of JSON rows as columns."""

    entries_keep_names = False

    def __init__(self, rows: JsonFile, source: str) -> None:
        """Find the types of all columns.

        Args:
            rows: the rows.
            source: the data set's name, for messages.

        Raises:
            DataError: there are more than `MOST_COLUMNS` columns.
        """
        import pyarrow  # late: an extra

        self._rows, shapes = rows, _infer_shapes(rows, source)
        self.json_text = tuple(name for name, shape in shapes.items() if shape.is_mixed)
        """Names of the columns whose values become JSON text."""
        schema = pyarrow.schema([(name, shape.arrow_type()) for name, shape in shapes.items()])
        self.schema = mark_json_columns(schema, self.json_text)

    def groups(self, row_range: range, rows: int) -> Iterator[RowGroup]:
        """See `StoredColumns.groups`."""
        import pyarrow  # late: an extra

        for first in range(row_range.start, row_range.stop, rows):
            group = [
                self._row(self._rows.text(index))
                for index in range(first, min(first + rows, row_range.stop))
            ]
            yield (
                len(group),
                [
                    pyarrow.array([row.get(column.name) for row in group], column.type)
                    for column in self.schema
                ],
            )

    def _row(self, text: bytes) -> Mapping[str, JSON]:
        """Return a row's values; integers that `loads` would change are in columns of JSON text."""
        row = cast("Mapping[str, JSON]", wire.loads(text))
        if not any(name in row for name in self.json_text):
            return row
        texts = {name: None if value == "null" else value for name, value in value_texts(text)}
        return {**row, **{name: texts.get(name) for name in self.json_text}}


def parquet_parts(
    input_columns: StoredColumns | JsonColumns,
    row_range: range,
    added: Iterable[Mapping[str, JSON]],
    columns: AddedColumns,
    rows_per_group: int,
) -> Iterator[bytes]:
    """Return the parts of a Parquet file.

    Args:
        input_columns: the columns of the input.
        row_range: the range of rows to write, from 0.
        added: the added values of each row.
        columns: the names and types of the added columns.
        rows_per_group: the number of rows of a group.

    Raises:
        DataError: the input has changed.
        ValueError: `added` has more or fewer entries than there are rows.
    """
    import pyarrow  # late: an extra

    types = columns.arrow_types()
    schema = pyarrow.schema(
        [*input_columns.schema, *map(pyarrow.field, types, types.values())],
        input_columns.schema.metadata,
    )

    def tables() -> Iterator[pyarrow.Table]:
        waiting = iter(added)
        for rows, own_arrays in input_columns.groups(row_range, rows_per_group):
            values = [columns.table_values(row_values) for row_values in islice(waiting, rows)]
            if len(values) < rows:
                raise ValueError(f"rows without added columns: {rows - len(values)}")
            arrays = [
                pyarrow.array([row[name] for row in values], kind) for name, kind in types.items()
            ]
            yield pyarrow.Table.from_arrays([*own_arrays, *arrays], schema=schema).combine_chunks()
        if next(waiting, None) is not None:
            raise ValueError("added columns without a row")

    return encode_tables(schema, tables(), entries_keep_names=input_columns.entries_keep_names)


def encode_tables(
    schema: pyarrow.Schema, tables: Iterable[pyarrow.Table], *, entries_keep_names: bool = False
) -> Iterator[bytes]:
    """Return the parts of a Parquet file in which each table is a group of rows.

    Args:
        schema: the schema of all tables.
        tables: tables of at least one row.
        entries_keep_names: the entries of lists keep their names of the schema; else they are
            `element`.
    """
    import pyarrow.parquet  # late: an extra

    parts = _OutputBuffer()
    with pyarrow.parquet.ParquetWriter(
        parts, schema, compression="zstd", use_compliant_nested_type=not entries_keep_names
    ) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=len(table))
            yield parts.take()
    yield parts.take()


def _drop_fingerprint(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Return a schema without the cache fingerprint that `datasets` stores beside the features."""
    metadata = dict(schema.metadata or {})
    if b"huggingface" in metadata:
        info = json.loads(metadata[b"huggingface"])
        metadata[b"huggingface"] = json.dumps(
            {"info": {"features": info["info"]["features"]}}
        ).encode()
    return schema.with_metadata(metadata or None)
