"""CSV, TSV and Parquet files, and hub datasets, as Arrow tables mapped into memory.

Guarantees: a file is copied when it is opened, so that later changes to it do not matter; its
digest is that of the copied bytes. Columns keep the types of the file or the dataset (timestamps,
decimals, dictionaries, the features of `datasets` in the metadata); those of a CSV file are text.
Rows are read from the copy on access.

A page of a mapped file counts as the process's memory (its resident set) until the system needs it.
At most a few megabytes of a file are held: pages are given back as reading goes on, and one that is
needed again is read again. Where the system has no `/proc/self/maps` (it is Linux's), nothing is
done.
"""

from __future__ import annotations

import csv
import ctypes
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from judgegym.data.hub import find_unreachable_reason
from judgegym.data.json_file import digest_file
from judgegym.data.lazy_sequence import LazySequence
from judgegym.judges.config.extras import report_missing_extra, require
from judgegym.judges.conversations.tools import drop_null
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow

_CONVERTED_ROWS = 16
"""Rows that are converted together: a row alone takes twenty times as long."""
_COPIED_ROWS = 500
_BATCH_ROWS = 1000
"""Rows of a batch, at most."""
_HELD = 32 << 20
_DONTNEED = 4  # MADV_DONTNEED of Linux
_MAPS = Path("/proc/self/maps")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_END = "\ue000 the end"
"""Line after the last one of a CSV file: its own row unless a quotation mark is open."""
_NOTE, _JSON_TEXT = b"judgegym", "json_text"
_ARGUMENT_FIELDS = ("arguments", "input")
"""What the arguments of a tool call are called, in OpenAI's and in Anthropic's form."""


class MappedFiles:
    """Files of a table, and how much of them was read since their pages were given back."""

    def __init__(self, paths: Collection[str]) -> None:
        """Find where the files are mapped, and nothing else.

        Memory without a file behind it would be lost. The files may be deleted.
        """
        self._ranges: list[tuple[int, int]] = []
        self._read = 0
        wanted = {os.path.realpath(path) for path in paths}
        lines: list[str] = []
        if wanted and _MAPS.exists():
            lines = _MAPS.read_text("utf-8", "replace").splitlines()
        for line in lines:
            addresses, _, _, _, inode, *path = line.split(maxsplit=5)
            if inode != "0" and path and path[0] in wanted:
                start, _, stop = addresses.partition("-")
                self._ranges.append((int(start, 16), int(stop, 16)))
        self.size = sum(stop - start for start, stop in self._ranges)
        """The bytes that are mapped."""

    def note_read(self, size: int) -> None:
        """Record that bytes were read, and give back the pages when it is time."""
        self._read += size
        if self._read >= _HELD:
            self._read = 0
            self.give_back()

    def give_back(self) -> None:
        """Give back all pages; concurrent readers get them anew."""
        for start, stop in self._ranges:
            ctypes.CDLL(None).madvise(
                ctypes.c_void_p(start), ctypes.c_size_t(stop - start), _DONTNEED
            )


class ArrowRows(LazySequence[Mapping[str, JSON]]):
    """The rows of a table.

    Attributes:
        table: the stored columns.
        entries_keep_names: list entries keep the names that Parquet gave them; otherwise they have
            none.
    """

    def __init__(
        self, table: pyarrow.Table, files: Collection[str] = (), *, entries_keep_names: bool = False
    ) -> None:
        """Read from a table that is mapped from `files`."""
        self.table = table
        self.entries_keep_names = entries_keep_names
        self._json_text = json_text_columns(table.schema)
        kinds = " ".join(map(str, table.schema.types))
        self._has_maps, self._has_calls = (
            "map<" in kinds,
            any(f"{name}: struct<" in kinds for name in _ARGUMENT_FIELDS),
        )
        self._files = files
        self._mapped = MappedFiles(files)
        self._mapped_each = self._mapped.size // max(len(table), 1)
        # Replaced as a whole, because several threads may read.
        self._block: tuple[int, list[dict[str, JSON]]] = (0, [])

    @classmethod
    def from_dataset(cls, dataset: Any) -> ArrowRows:
        """Return the rows of a `datasets.Dataset`."""
        held = dataset
        if dataset._indices is not None:
            held = dataset.flatten_indices()
        return cls(held.data.table, [file["filename"] for file in held.cache_files])

    def __len__(self) -> int:
        """Return how many rows there are."""
        return int(self.table.num_rows)

    def read(self, index: int) -> Mapping[str, JSON]:
        """Read a row, and its neighbours."""
        first, rows = self._block
        if not first <= index < first + len(rows):
            first = index - index % _CONVERTED_ROWS
            columns = _collect_columns(self.table.slice(first, _CONVERTED_ROWS))
            for name in self._json_text:
                columns[name] = [
                    text if text is None else wire.loads(text) for text in columns[name]
                ]
            rows = [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ]
            if self._has_maps:
                rows = [_convert_map_pairs(row) for row in rows]
            if self._has_calls:
                rows = [drop_foreign_arguments(row) for row in rows]
            self._block = first, rows
            self._mapped.note_read(self._mapped_each * len(rows))
        return rows[index - first]

    def batches(self, places: range) -> Iterator[pyarrow.RecordBatch]:
        """Yield consecutive rows as they are stored, in batches of any length."""
        for first in range(places.start, places.stop, _BATCH_ROWS):
            part = self.table.slice(first, min(_BATCH_ROWS, places.stop - first))
            yield from part.to_batches()
            self._mapped.note_read(part.nbytes)

    def drop_columns(self, columns: Collection[str]) -> ArrowRows:
        """Return the same rows without these columns."""
        left = self.table.select(
            [index for index, column in enumerate(self.table.schema) if column.name not in columns]
        )
        return ArrowRows(left, self._files, entries_keep_names=self.entries_keep_names)

    def digest(self) -> str:
        """Return the SHA-256 of the rows as JSON lines, whatever the order of the columns."""
        hashed = hashlib.sha256()
        for row in self:
            hashed.update(
                orjson.dumps(
                    row, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
                )
            )
            hashed.update(b"\n")
        return hashed.hexdigest()


def _collect_columns(table: pyarrow.Table) -> dict[str, list[Any]]:
    """Return the values of each column.

    Raises:
        ValueError: a column holds values without a Python type; the message names it.
    """
    columns = {}
    for field, values in zip(table.schema, table.columns, strict=True):
        try:
            columns[field.name] = python_values(values)
        except (OverflowError, ValueError) as error:
            raise ValueError(f"column {field.name} ({field.type}): {error}") from error
    return columns


def python_values(array: pyarrow.Array | pyarrow.ChunkedArray) -> list[Any]:
    """Return the values of an array; times beyond Python's types, as after 9999, are texts.

    Raises:
        ValueError: it holds other values without a Python type; or an OverflowError.
    """
    import pyarrow

    try:
        values: list[Any] = array.to_pylist()
    except (OverflowError, ValueError):
        if not pyarrow.types.is_temporal(array.type):
            raise
        values = array.cast(pyarrow.string()).to_pylist()
    return values


def _convert_map_pairs(value: Any) -> Any:
    """Convert the pairs of maps in a value of Arrow to objects of key and value."""
    if isinstance(value, tuple):
        return {"key": _convert_map_pairs(value[0]), "value": _convert_map_pairs(value[1])}
    if isinstance(value, list):
        return [_convert_map_pairs(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {name: _convert_map_pairs(inner) for name, inner in value.items()}


def drop_foreign_arguments(value: Any) -> Any:
    """Drop the null arguments of other tool calls, which Arrow's structs add."""
    if isinstance(value, list):
        return [drop_foreign_arguments(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        name: (drop_null if name in _ARGUMENT_FIELDS else drop_foreign_arguments)(inner)
        for name, inner in value.items()
    }


def mark_json_columns(schema: pyarrow.Schema, columns: Sequence[str]) -> pyarrow.Schema:
    """Mark text columns of a schema as JSON. Other readers see texts."""
    if not columns:
        return schema
    note = json.dumps({_JSON_TEXT: list(columns)}).encode()
    return schema.with_metadata({**(schema.metadata or {}), _NOTE: note})


def json_text_columns(schema: pyarrow.Schema) -> frozenset[str]:
    """Return the columns whose texts are JSON.

    They have Arrow's type for JSON, or the mark of `mark_json_columns`.
    """
    noted = json.loads((schema.metadata or {}).get(_NOTE, b"{}")).get(_JSON_TEXT, ())
    return frozenset(
        (
            *noted,
            *(
                field.name
                for field in schema
                if getattr(field.type, "extension_name", "") == "arrow.json"
            ),
        )
    )


def read_table(path: Path, name: str | None = None) -> tuple[Sequence[Mapping[str, JSON]], str]:
    """Read a CSV, TSV or Parquet file: its rows, and the SHA-256 of the file.

    Args:
        path: the file.
        name: its name in messages; by default its path.

    Raises:
        DataError: it cannot be loaded, or changes while it is loaded.
    """
    require("data")
    import pyarrow.parquet  # imported late: an extra

    before, digest = _stat_version(path), digest_file(path)
    separator = _SEPARATORS.get(path.suffix.lower())
    try:
        if separator is None:
            with path.open("rb") as file:
                parquet = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
                batches = parquet.iter_batches(_BATCH_ROWS, use_threads=False)
                rows = _copy_mapped(batches, parquet.schema_arrow, entries_keep_names=True)
        else:
            with path.open(encoding="utf-8-sig", newline="") as lines:
                rows = _read_csv_rows(csv.reader(chain(lines, [_END]), delimiter=separator))
        all(True for _ in rows)  # checks that every row can be read
        pyarrow.default_memory_pool().release_unused()
    except (pyarrow.ArrowException, csv.Error, OSError, ValueError, OverflowError) as error:
        reason = _first_line(error)
        raise DataError(f"{name or path}: cannot be loaded: {reason}") from error
    if _stat_version(path) != before:
        raise DataError(
            f"{name or path}: the file changed while it was read; run again with a file that "
            "nobody writes to"
        )
    return rows, digest


def _copy_mapped(
    batches: Iterator[pyarrow.RecordBatch],
    schema: pyarrow.Schema,
    *,
    entries_keep_names: bool = False,
) -> ArrowRows:
    """Copy a table to a temporary file, which the system keeps until the process ends."""
    import pyarrow

    with tempfile.TemporaryDirectory() as folder:
        copy = str(Path(folder) / "rows.arrow")
        with pyarrow.OSFile(copy, "wb") as file, pyarrow.ipc.new_stream(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        table = pyarrow.ipc.open_stream(pyarrow.memory_map(copy)).read_all()
        return ArrowRows(table, [copy], entries_keep_names=entries_keep_names)


def _read_csv_rows(lines: Iterator[list[str]]) -> ArrowRows:
    """Read the rows of a CSV file.

    Every cell is a text, or null if the row is shorter than the header.

    Raises:
        ValueError: a row has more fields than the header, or the header has a name twice; or a
            quote does not end.
    """
    import pyarrow

    rows = filter(None, lines)
    header = next(rows)
    columns = [] if header == [_END] else header
    repeated = next((column for column in columns if columns.count(column) > 1), None)
    if repeated is not None:
        raise ValueError(f"the header names {repeated} twice; rename one of the columns")
    schema = pyarrow.schema([(column, pyarrow.string()) for column in columns])
    checked = _check_width(len(columns), rows)

    def batches() -> Iterator[pyarrow.RecordBatch]:
        last = header
        while block := list(islice(checked, _COPIED_ROWS)):
            last = block[-1]
            texts = zip_longest(*block, [None] * len(columns))  # a short row ends with nulls
            count = len(block) - (last == [_END])
            yield pyarrow.record_batch(
                [pyarrow.array(cells[:count], pyarrow.string()) for cells in texts], schema
            )
        if last != [_END]:
            raise ValueError("a quotation mark is opened and not closed")

    return _copy_mapped(batches(), schema)


def _check_width(width: int, rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield the rows of a CSV file; raise if one has more fields than the header."""
    for number, fields in enumerate(rows, start=1):
        if len(fields) > width:
            count = len(fields)
            raise ValueError(
                f"row {number} has {count} fields, and the header names {width} columns"
            )
        yield fields


def join_tables(name: str, parts: Sequence[ArrowRows]) -> ArrowRows:
    """Join the rows of several files to one table.

    Raises:
        DataError: the files have different columns.
    """
    import pyarrow

    first, *others = parts
    if any(following.table.schema != first.table.schema for following in others):
        raise DataError(
            f"{name}: the files have different columns or types; expected the same in each file"
        )
    files = list(chain.from_iterable(part._files for part in parts))
    table = pyarrow.concat_tables([part.table for part in parts])
    return ArrowRows(table, files, entries_keep_names=first.entries_keep_names)


def read_saved(path: Path, split: str) -> tuple[Sequence[Mapping[str, JSON]], str]:
    """Return the rows of a folder of `datasets.save_to_disk`, and the SHA-256 of them as JSON.

    Args:
        path: the folder.
        split: the split, if it has several.

    Raises:
        DataError: it cannot be loaded, or has no such split.
    """
    datasets = _import_datasets()
    try:
        saved = datasets.load_from_disk(str(path))
    except Exception as error:  # pyarrow and the library each raise their own kinds
        reason = _first_line(error)
        raise DataError(
            f"{path}: cannot be loaded as a folder of save_to_disk: {reason}"
        ) from error
    if isinstance(saved, datasets.DatasetDict):
        if split not in saved:
            splits = ", ".join(saved)
            raise DataError(f"{path}: has no split {split!r}; expected one of {splits} (--split)")
        saved = saved[split]
    rows = ArrowRows.from_dataset(saved)
    return rows, rows.digest()


def read_hub(
    name: str, split: str, file_kinds: Sequence[str]
) -> tuple[Sequence[Mapping[str, JSON]], str]:
    """Return the rows of a dataset on the hub, and the SHA-256 of its rows as JSON.

    Args:
        name: its name.
        split: the split.
        file_kinds: the endings of local files, for the error about a name that is no dataset.

    Raises:
        DataError: it cannot be loaded.
    """
    unreachable = find_unreachable_reason()
    datasets = _import_datasets()
    try:
        rows = ArrowRows.from_dataset(datasets.load_dataset(name, split=split))
        return rows, rows.digest()
    except (
        Exception
    ) as error:  # the hub, the network and the dataset's own files each raise their own kinds
        why = _first_line(error)
        if Path(name).is_dir():
            raise DataError(
                f"{name}: the folder cannot be loaded as a data set (split {split!r}): {why}"
            ) from error
        if unreachable is not None:
            why += (
                f" (the hub cannot be reached: {unreachable}; only cached data sets can be loaded)"
            )
        endings = ", ".join(file_kinds)
        raise DataError(
            f"{name}: cannot be loaded from the Hugging Face hub (split {split!r}): {why}; "
            f"a local file needs one of the endings {endings}"
        ) from error


def _stat_version(path: Path) -> tuple[int, int, int]:
    """Return values that change when a file is written to."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _import_datasets() -> Any:
    with report_missing_extra("data"):
        import datasets  # imported late: this takes 1.5 s

    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(logging.CRITICAL)  # our errors contain the library's
    return datasets


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's cause or, without one, of the error itself."""
    lines = str(error.__cause__ or error).strip().splitlines()
    if lines:
        return lines[0]
    return type(error).__name__
