"""Parquet, written a group of rows at a time: the columns of the input, and those that are added.

Guarantees: the bytes are a function of the rows alone: the groups have a fixed number of rows, which follows from the
size of the whole data set, and nothing is written that tells one run from another. Memory holds one group.

A file for pyarrow, whose bytes are taken as they come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, cast

from judgegym.data.json_file import JsonFile
from judgegym.data.stored import StoredTable, with_json_text
from judgegym.datasets.files.columns import AddedColumns
from judgegym.datasets.files.json_types import Shape
from judgegym.datasets.files.own_text import value_texts
from judgegym.llm import wire
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow


class OutputBuffer:
    """What a writer of pyarrow has written and nobody has taken yet."""

    closed = False

    def __init__(self) -> None:
        """Hold nothing."""
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Take a copy: pyarrow uses its buffer again."""
        self._waiting.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """What waits can still be taken."""

    def take(self) -> bytes:
        """What was written since the last call."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data


_MOST_ROWS, _MOST_BYTES = 1_000, 32 << 20
"""Of a group; the bytes are those of rows of mean size."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that become a group of rows of the file.

    Attributes:
        rows: how many.
        arrays: their values, an array for each column.
    """

    rows: int
    arrays: Sequence[pyarrow.Array | pyarrow.ChunkedArray]


class StoredColumns:
    """The columns of a table, as they are stored."""

    def __init__(self, table: StoredTable) -> None:
        """Read from this table."""
        self._table = table
        self.entries_keep_names = table.entries_keep_names
        """Whether the entries of lists are called as they were; else they are `element`, as Parquet asks."""
        self.schema = _without_fingerprint(table.schema)

    def groups(self, places: range, rows: int) -> Iterator[RowGroup]:
        """The rows at places that follow each other, in groups of so many rows."""
        waiting: list[pyarrow.RecordBatch] = []
        missing = rows
        for batch in self._table.batches(places):
            while len(batch) >= missing:
                yield self._group([*waiting, batch.slice(0, missing)])
                batch, waiting, missing = batch.slice(missing), [], rows
            if len(batch):
                waiting.append(batch)
                missing -= len(batch)
        if waiting:
            yield self._group(waiting)

    def _group(self, batches: list[pyarrow.RecordBatch]) -> RowGroup:
        import pyarrow  # late: an extra

        table = pyarrow.Table.from_batches(batches, self._table.schema)
        return RowGroup(len(table), table.columns)


class JsonColumns:
    """The keys of JSON rows as columns."""

    entries_keep_names = False

    def __init__(self, rows: JsonFile, shapes: Mapping[str, Shape]) -> None:
        """Give the rows' keys the types of their shapes."""
        import pyarrow  # late: an extra

        self._rows = rows
        self.json_text = tuple(name for name, shape in shapes.items() if shape.is_mixed)
        """The columns whose values become JSON text."""
        schema = pyarrow.schema(
            [(name, pyarrow.string() if shape.is_mixed else shape.arrow_type()) for name, shape in shapes.items()]
        )
        self.schema = with_json_text(schema, self.json_text)

    def groups(self, places: range, rows: int) -> Iterator[RowGroup]:
        """See `StoredColumns.groups`."""
        import pyarrow  # late: an extra

        for first in range(places.start, places.stop, rows):
            read = [self._row(self._rows.text(place)) for place in range(first, min(first + rows, places.stop))]
            yield RowGroup(
                len(read), [pyarrow.array([row.get(each.name) for row in read], each.type) for each in self.schema]
            )

    def _row(self, text: bytes) -> Mapping[str, JSON]:
        """A row's values; integers that `loads` would change are in columns of JSON text."""
        row = cast("Mapping[str, JSON]", wire.loads(text))
        if not any(name in row for name in self.json_text):
            return row
        found = {name: None if value == "null" else value for name, value in value_texts(text)}
        return {**row, **{name: found.get(name) for name in self.json_text}}


def rows_of_group(count: int, size: int) -> int:
    """How many rows a group of a data set has, of which all rows together have `size` bytes."""
    return max(1, min(_MOST_ROWS, _MOST_BYTES * count // max(size, 1)))


def parquet_parts(
    own: StoredColumns | JsonColumns,
    places: range,
    added: Iterable[Mapping[str, JSON]],
    columns: AddedColumns,
    rows_each: int,
) -> Iterator[bytes]:
    """The parts of a Parquet file.

    Args:
        own: the columns of the input.
        places: the rows that are written, from 0; they follow each other.
        added: the added columns of each of them.
        columns: their names and types.
        rows_each: how many rows a group has.

    Raises:
        DataError: the input has changed.
        ValueError: there are more or fewer of `added` than rows.
    """
    import pyarrow.parquet  # late: an extra

    types = columns.arrow_types()
    schema = pyarrow.schema(
        [*own.schema, *(pyarrow.field(name, kind) for name, kind in types.items())], own.schema.metadata
    )
    parts, waiting = OutputBuffer(), iter(added)
    with pyarrow.parquet.ParquetWriter(
        parts, schema, compression="zstd", use_compliant_nested_type=not own.entries_keep_names
    ) as writer:
        for group in own.groups(places, rows_each):
            values = [columns.in_order(each) for each in islice(waiting, group.rows)]
            if len(values) < group.rows:
                raise ValueError(f"rows without added columns: {group.rows - len(values)}")
            arrays = [pyarrow.array([each[name] for each in values], kind) for name, kind in types.items()]
            table = pyarrow.Table.from_arrays([*group.arrays, *arrays], schema=schema).combine_chunks()
            writer.write_table(table, row_group_size=group.rows)
            yield parts.take()
        if next(waiting, None) is not None:
            raise ValueError("added columns without a row")
    yield parts.take()


def _without_fingerprint(schema: pyarrow.Schema) -> pyarrow.Schema:
    """A schema without what `datasets` notes of its own cache beside the features."""
    metadata = dict(schema.metadata or {})
    if b"huggingface" in metadata:
        noted = json.loads(metadata[b"huggingface"])
        metadata[b"huggingface"] = json.dumps({"info": {"features": noted["info"]["features"]}}).encode()
    return schema.with_metadata(metadata or None)
