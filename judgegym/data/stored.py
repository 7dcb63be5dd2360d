"""The columns of a table as they are stored: their Arrow types and values, which no value of Python stands between.

Guarantees: types are those of the file or the dataset (timestamps, decimals, dictionaries, structs, the features of
`datasets` in the metadata), also where `datasets` reads a file with others. Rows come in pieces, so that memory does
not grow with the table. A file that is replaced is read in its earlier version; one that is rewritten is an error.

Files that are mapped into memory: the pages of them that a process holds are given back as it reads on.

A page that was read counts as the process's memory (its resident set) until the system needs it, so the memory of a
process that reads a mapped table seems to grow with the table. Guarantee: no more than a few megabytes of a file are
held. Nothing is changed or lost: a page that is needed again is read again. Where the system has no `/proc/self/maps`
(it is Linux's), nothing is done.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import weakref
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from judgegym.llm.errors import DataError

if TYPE_CHECKING:
    import pyarrow


_HELD = 32 << 20
_DONTNEED = 4  # MADV_DONTNEED of Linux
_MAPS = Path("/proc/self/maps")


class MappedFiles:
    """The files of a table, and how much of them was read since their pages were given back."""

    def __init__(self, paths: Collection[str]) -> None:
        """Find where files are mapped; they may be deleted afterwards.

        Args:
            paths: of the files, as they were opened.
        """
        self._places = list(_places({os.path.realpath(path) for path in paths}))
        self._read = 0

    @property
    def size(self) -> int:
        """The bytes that are mapped."""
        return sum(stop - start for start, stop in self._places)

    def read(self, size: int) -> None:
        """Note that so many bytes were read; give back the pages if it is time."""
        self._read += size
        if self._read >= _HELD:
            self._read = 0
            self.give_back()

    def give_back(self) -> None:
        """Give back all pages. Who reads meanwhile gets them anew."""
        for start, stop in self._places:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), _DONTNEED)


def _places(paths: Collection[str]) -> list[tuple[int, int]]:
    """The addresses at which files are mapped: of nothing else, since memory that is no file's would be lost."""
    found = []
    for line in _MAPS.read_text("utf-8", "replace").splitlines() if _MAPS.exists() else ():
        addresses, _, _, _, inode, *path = line.split(maxsplit=5)
        if inode != "0" and path and path[0] in paths:
            start, _, stop = addresses.partition("-")
            found.append((int(start, 16), int(stop, 16)))
    return found


_AT_ONCE = 1000
"""Rows that are read at once, at most."""
_READ_AHEAD = 1 << 20
_NOTE = b"judgegym"
_JSON_TEXT = "json_text"


def with_json_text(schema: pyarrow.Schema, columns: Sequence[str]) -> pyarrow.Schema:
    """A schema that says of columns of text that their values are JSON. Other readers see texts."""
    if not columns:
        return schema
    note = json.dumps({_JSON_TEXT: list(columns)}).encode()
    return schema.with_metadata({**(schema.metadata or {}), _NOTE: note})


def json_text_columns(schema: pyarrow.Schema) -> frozenset[str]:
    """The columns whose texts are JSON: those of Arrow's type for that, and those of `with_json_text`."""
    noted: frozenset[str] = frozenset()
    if _NOTE in (schema.metadata or {}):
        noted = frozenset(json.loads(schema.metadata[_NOTE])[_JSON_TEXT])
    return noted | {each.name for each in schema if getattr(each.type, "extension_name", "") == "arrow.json"}


class StoredTable(Protocol):
    """The rows of a table, as Arrow holds them.

    Attributes:
        entries_keep_names: the entries of lists are called as Parquet had them; else they have no name of their own.
    """

    entries_keep_names: bool

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns with their types and metadata."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def size(self) -> int:
        """About how many bytes all rows have, uncompressed."""

    def batches(self, places: range) -> Iterator[pyarrow.RecordBatch]:
        """The rows at places from 0, which follow each other, in batches of any length.

        Raises:
            DataError: the file has changed.
        """


class MappedTable:
    """A table of `datasets`, which is mapped into memory."""

    entries_keep_names = False

    def __init__(self, table: Any) -> None:
        """Read from `table`, a `datasets.Dataset`."""
        held = table if table._indices is None else table.flatten_indices()
        self._table: pyarrow.Table = held.data.table
        self._mapped = MappedFiles([file["filename"] for file in held.cache_files])

    @property
    def schema(self) -> pyarrow.Schema:
        """See `StoredTable`."""
        return self._table.schema

    @property
    def rows(self) -> int:
        """See `StoredTable`."""
        return int(self._table.num_rows)

    @property
    def size(self) -> int:
        """See `StoredTable`."""
        return int(self._table.nbytes)

    def batches(self, places: range) -> Iterator[pyarrow.RecordBatch]:
        """See `StoredTable`."""
        for first in range(places.start, places.stop, _AT_ONCE):
            part = self._table.slice(first, min(_AT_ONCE, places.stop - first))
            yield from part.to_batches()
            self._mapped.read(part.nbytes)


class ParquetFile:
    """A Parquet file, read without `datasets`, which has other types for some columns. It stays open."""

    entries_keep_names = True

    def __init__(self, path: Path) -> None:
        """Open a file that is not to change.

        Raises:
            OSError: it cannot be opened.
            pyarrow.ArrowInvalid: it is no Parquet.
        """
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)
        self._before = version_of(self._descriptor)
        self.schema: pyarrow.Schema = self._open().schema_arrow
        """See `StoredTable`."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self._open().metadata.num_rows)

    @property
    def size(self) -> int:
        """See `StoredTable`."""
        metadata = self._open().metadata
        return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))

    def batches(self, places: range) -> Iterator[pyarrow.RecordBatch]:
        """See `StoredTable`."""
        file = self._open()
        starts = [0]
        for number in range(file.metadata.num_row_groups):
            starts.append(starts[-1] + file.metadata.row_group(number).num_rows)
        for number, (start, stop) in enumerate(pairwise(starts)):
            wanted = range(max(places.start, start), min(places.stop, stop))
            if not wanted:
                continue
            for batch in file.iter_batches(_AT_ONCE, row_groups=[number], use_threads=False):
                here = range(max(wanted.start, start), min(wanted.stop, start + len(batch)))
                if here:
                    self._check()
                    yield batch.slice(here.start - start, len(here))
                start += len(batch)
        self._check()

    def _open(self) -> Any:
        import pyarrow.parquet  # late: an extra

        self._check()
        return pyarrow.parquet.ParquetFile(_OpenFile(self._descriptor), pre_buffer=False, buffer_size=_READ_AHEAD)

    def _check(self) -> None:
        if version_of(self._descriptor) != self._before:
            raise DataError(
                f"{self._path}: the file has changed since it was opened; run again with a file that nobody writes to"
            )


class JoinedTables:
    """The rows of several tables with the same columns, one table after the other."""

    def __init__(self, tables: Sequence[StoredTable]) -> None:
        """Join at least one table."""
        self._tables = tables
        self.entries_keep_names = tables[0].entries_keep_names
        self._starts = [0]
        for table in tables:
            self._starts.append(self._starts[-1] + table.rows)

    @property
    def schema(self) -> pyarrow.Schema:
        """See `StoredTable`."""
        return self._tables[0].schema

    @property
    def rows(self) -> int:
        """See `StoredTable`."""
        return self._starts[-1]

    @property
    def size(self) -> int:
        """See `StoredTable`."""
        return sum(table.size for table in self._tables)

    def batches(self, places: range) -> Iterator[pyarrow.RecordBatch]:
        """See `StoredTable`."""
        for table, (start, stop) in zip(self._tables, pairwise(self._starts), strict=True):
            wanted = range(max(places.start, start) - start, min(places.stop, stop) - start)
            if wanted:
                yield from table.batches(wanted)


def without_maps(schema: pyarrow.Schema) -> pyarrow.Schema:
    """A schema with lists of key and value in place of maps, which `datasets` does not know."""
    import pyarrow  # late: an extra

    fields = [each.with_type(_without_maps(each.type)) for each in schema]
    return schema if fields == [*schema] else pyarrow.schema(fields)


def _without_maps(kind: pyarrow.DataType) -> pyarrow.DataType:
    import pyarrow

    if pyarrow.types.is_map(kind):
        entries = [("key", _without_maps(kind.key_type)), ("value", _without_maps(kind.item_type))]
        return pyarrow.list_(pyarrow.struct(entries))
    if pyarrow.types.is_list(kind):
        return pyarrow.list_(_without_maps(kind.value_type))
    if pyarrow.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pyarrow.struct([(each.name, _without_maps(each.type)) for each in fields])
    return kind


def maps_as_lists(table: pyarrow.Table) -> pyarrow.Table:
    """A table with lists of key and value in place of maps."""
    import pyarrow

    schema = without_maps(table.schema)
    columns = []
    for column, kind in zip(table.columns, schema.types, strict=True):
        plain = column.to_pylist() if column.type != kind else None
        columns.append(column if plain is None else pyarrow.array(map(_entries, plain), kind))
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _entries(value: Any) -> Any:
    """A value of Arrow with objects of key and value in place of the pairs of maps."""
    if isinstance(value, tuple):
        return {"key": _entries(value[0]), "value": _entries(value[1])}
    if isinstance(value, list):
        return [_entries(each) for each in value]
    return {name: _entries(each) for name, each in value.items()} if isinstance(value, dict) else value


class WithoutColumns:
    """A table without some of its columns; the others are as they were."""

    def __init__(self, table: StoredTable, columns: Collection[str]) -> None:
        """Leave out the columns of these names."""
        self._table = table
        self._kept = [place for place, each in enumerate(table.schema) if each.name not in columns]
        self.entries_keep_names = table.entries_keep_names

    @property
    def schema(self) -> pyarrow.Schema:
        """See `StoredTable`."""
        import pyarrow  # late: an extra

        schema = self._table.schema
        return pyarrow.schema([schema.field(place) for place in self._kept], schema.metadata)

    @property
    def rows(self) -> int:
        """See `StoredTable`."""
        return self._table.rows

    @property
    def size(self) -> int:
        """That of the whole table."""
        return self._table.size

    def batches(self, places: range) -> Iterator[pyarrow.RecordBatch]:
        """See `StoredTable`."""
        return (batch.select(self._kept) for batch in self._table.batches(places))


def version_of(file: int | Path) -> tuple[int, int, int]:
    """What differs when a file was written to."""
    status = os.fstat(file) if isinstance(file, int) else file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


class _OpenFile(io.RawIOBase):
    """An open file with a position of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (os.fstat(self._descriptor).st_size if begin is None else begin)
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = os.pread(self._descriptor, len(view), self._position)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
