"""CSV, TSV and Parquet files, and datasets of the hub, as tables that the library `datasets` maps into memory.

Guarantees: a file is copied when it is opened, so that later changes to it do not matter; its digest is that of the
copied bytes. Rows are read from the copy when they are asked for. What memory holds of them are pages of a file that is
mapped into it, which are given back as reading goes on (`mapped.py`).
"""

from __future__ import annotations

import csv
import hashlib
import logging
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from judgegym.data.hub import why_out_of_reach
from judgegym.data.lazy_sequence import LazySequence
from judgegym.data.stored import (
    JoinedTables,
    MappedFiles,
    MappedTable,
    ParquetFile,
    StoredTable,
    WithoutColumns,
    json_text_columns,
    maps_as_lists,
    version_of,
    without_maps,
)
from judgegym.judges.config.extras import needs
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

_AT_ONCE = 16
"""Rows that are converted together: a row alone takes twenty times as long."""
_COPIED_AT_ONCE = 500
"""Rows of a CSV file that are in memory while it is copied; the library's default is ten thousand."""
_PIECE = 1 << 20


class ArrowRows(LazySequence[Mapping[str, JSON]]):
    """The rows of a table of `datasets`.

    Attributes:
        table: a `datasets.Dataset`.
        stored: the same rows as they are stored.
    """

    def __init__(self, table: Any, stored: StoredTable | None = None) -> None:
        """Read from `table`, a `datasets.Dataset`; by default its own columns are what is stored."""
        self.stored: StoredTable = stored or MappedTable(table)
        self._json_text = json_text_columns(self.stored.schema)
        for name in self._json_text:
            feature = table.features[name]
            if hasattr(feature, "decode"):  # the library's reader rounds numbers and refuses long ones
                table = table.cast_column(name, type(feature)(decode=False))
        self.table = table
        self._mapped = MappedFiles([file["filename"] for file in table.cache_files])
        self._mapped_each = self._mapped.size // max(len(table), 1)
        self._block: tuple[int, list[dict[str, JSON]]] = (0, [])  # replaced as a whole: threads may read, too

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.table)

    def read(self, place: int) -> Mapping[str, JSON]:
        """Read a row, and those beside it."""
        first, rows = self._block
        if not first <= place < first + len(rows):
            first = place - place % _AT_ONCE
            columns = self.table[first : first + _AT_ONCE]
            for name in self._json_text:
                columns[name] = [text if text is None else wire.loads(text) for text in columns[name]]
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            self._block = first, rows
            self._mapped.read(self._mapped_each * len(rows))
        return rows[place - first]

    def without(self, columns: Collection[str]) -> ArrowRows:
        """The same rows without the columns of these names."""
        left_out = [name for name in self.table.column_names if name in columns]
        return ArrowRows(self.table.remove_columns(left_out), WithoutColumns(self.stored, columns))

    def digest(self) -> str:
        """SHA-256 of the rows as JSON lines; the order of the columns does not matter."""
        hashed = hashlib.sha256()
        for row in self:
            hashed.update(orjson.dumps(row, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))
            hashed.update(b"\n")
        return hashed.hexdigest()


def read_table(path: Path, name: str | None = None) -> tuple[Sequence[Mapping[str, JSON]], str]:
    """The rows of a CSV, TSV or Parquet file, and the SHA-256 of the file.

    Args:
        path: the file.
        name: what it is called in messages; by default its path.

    Raises:
        DataError: it cannot be loaded, or changes while it is.
    """
    datasets = _datasets()
    before = version_of(path)
    digest, is_blank = _digest_of(path)
    if is_blank:
        return (), digest
    stored: ParquetFile | None = None
    try:
        # A temporary cache: the library's own cache may return the rows of an earlier version of the file. The system
        # keeps the file that is mapped into memory until the process ends.
        with tempfile.TemporaryDirectory() as cache:
            if _separator(path) is not None:
                table = datasets.Dataset.from_csv(
                    str(path),
                    features=_all_text(path),
                    keep_default_na=False,
                    sep=_separator(path),
                    cache_dir=cache,
                    chunksize=_COPIED_AT_ONCE,
                )
            else:
                stored = ParquetFile(path)
                table = _mapped_copy(stored, Path(cache) / "rows.arrow")
            rows = ArrowRows(table, stored)
            all(True for _ in rows)  # each can be read
        _return_memory()
    except Exception as error:  # pandas and pyarrow each raise their own kinds
        if _is_header_alone(path):
            return (), digest
        raise DataError(f"{name or path}: cannot be loaded: {_first_line(error)}") from error
    if version_of(path) != before:
        raise DataError(
            f"{name or path}: the file changed while it was read; run again with a file that nobody writes to"
        )
    return rows, digest


def _separator(path: Path) -> str | None:
    """What separates the fields of a table of texts; `None` for Parquet."""
    return {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())


def _mapped_copy(stored: ParquetFile, copy: Path) -> Any:
    """A `datasets.Dataset` of a Parquet file, with the types that the library gives its columns.

    The library's own reader holds a group of rows of the file in memory, which is often all of them.
    """
    import datasets  # late, with pyarrow: the imports take a second and a half
    import pyarrow

    schema = datasets.Features.from_arrow_schema(without_maps(stored.schema)).arrow_schema
    with pyarrow.OSFile(str(copy), "wb") as file, pyarrow.ipc.new_stream(file, schema) as writer:
        for batch in stored.batches(range(stored.rows)):
            whole = pyarrow.Table.from_batches([batch])
            plain = whole if whole.schema == without_maps(whole.schema) else maps_as_lists(whole)
            writer.write_table(datasets.table.table_cast(plain, schema))
    return datasets.Dataset.from_file(str(copy))


def joined_tables(name: str, parts: Sequence[ArrowRows]) -> ArrowRows:
    """The rows of several files as one table.

    Raises:
        DataError: the files have different columns.
    """
    datasets = _datasets()
    first, *others = parts
    for other in others:
        if other.stored.schema != first.stored.schema:
            raise DataError(f"{name}: expected files with the same columns and types, and they differ")
    table = datasets.concatenate_datasets([part.table for part in parts])
    return ArrowRows(table, None if isinstance(first.stored, MappedTable) else JoinedTables([p.stored for p in parts]))


def read_saved(path: Path, split: str) -> tuple[Sequence[Mapping[str, JSON]], str]:
    """The rows of a folder that `datasets.save_to_disk` has written, and the SHA-256 of its rows as JSON.

    Args:
        path: the folder.
        split: the split, if it has several.

    Raises:
        DataError: it cannot be loaded, or has no such split.
    """
    datasets = _datasets()
    try:
        saved = datasets.load_from_disk(str(path))
    except Exception as error:  # pyarrow and the library each raise their own kinds
        raise DataError(f"{path}: cannot be loaded as a folder of save_to_disk: {_first_line(error)}") from error
    if isinstance(saved, datasets.DatasetDict):
        if split not in saved:
            raise DataError(f"{path}: has no split {split!r}; expected one of {', '.join(saved)} (--split)")
        saved = saved[split]
    rows = ArrowRows(saved)
    return rows, rows.digest()


def read_hub(name: str, split: str, file_kinds: Sequence[str]) -> tuple[Sequence[Mapping[str, JSON]], str]:
    """The rows of a dataset on the hub, and the SHA-256 of its rows as JSON.

    Args:
        name: its name.
        split: the split.
        file_kinds: the endings of local files, for the error about a name that is no dataset.

    Raises:
        DataError: it cannot be loaded.
    """
    unreachable = why_out_of_reach()
    datasets = _datasets()
    try:
        rows = ArrowRows(datasets.load_dataset(name, split=split))
        return rows, rows.digest()
    except Exception as error:  # the hub, the network and the dataset's own files each raise their own kinds
        why = _first_line(error)
        if Path(name).is_dir():
            raise DataError(f"{name}: the folder cannot be loaded as a data set (split {split!r}): {why}") from error
        if unreachable is not None:
            why += f" (the hub cannot be reached: {unreachable}; what is not in the cache is not there)"
        raise DataError(
            f"{name}: cannot be loaded from the Hugging Face hub (split {split!r}): {why}; "
            f"a local file needs one of the endings {', '.join(file_kinds)}"
        ) from error


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _digest_of(path: Path) -> tuple[str, bool]:
    """The SHA-256 of a file, and whether it holds white space alone."""
    hashed, is_blank = hashlib.sha256(), True
    for piece in _pieces(path):
        hashed.update(piece)
        is_blank = is_blank and not piece.strip()
    return hashed.hexdigest(), is_blank


def _all_text(path: Path) -> Any:
    """Features that load every column of a CSV file as text.

    Raises:
        ValueError: a row has more fields than the header, which the loader would read one column off; or the header has
            a name twice, of which the loader would read one.
    """
    import datasets  # late: the import takes a second and a half

    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter=_separator(path) or ",")
        columns = next(reader)
        twice = next((column for column in columns if column.strip() and columns.count(column) > 1), None)
        if twice is not None:
            raise ValueError(f"the header names {twice} twice; rename one of the columns")
        for number, fields in enumerate(reader, start=1):
            if len(fields) > len(columns):
                raise ValueError(f"row {number} has {len(fields)} fields, and the header names {len(columns)} columns")
    return datasets.Features({column: datasets.Value("string") for column in columns})


def _is_header_alone(path: Path) -> bool:
    """Whether a CSV file has only a header, for which the loader raises an error."""
    return _separator(path) is not None and sum(piece.count(b"\n") for piece in _pieces(path)) < 2


def _datasets() -> Any:
    with needs("data"):
        import datasets  # late: the import takes a second and a half

    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(logging.CRITICAL)  # our errors contain the library's
    return datasets


def _return_memory() -> None:
    """Give back what the library has reserved to read a file: tens of megabytes."""
    import pyarrow  # late: with `datasets`

    pyarrow.default_memory_pool().release_unused()


def _first_line(error: BaseException) -> str:
    """The first line of an error's cause or, without one, of the error itself."""
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
