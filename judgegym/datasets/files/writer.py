"""Write a scored file: the rows of the input untouched, each with its added columns.

Guarantees: the file is there as a whole or not at all; equal rows and equal added columns give equal bytes, whenever
and in however many shards they were judged. What was written as JSON stays byte for byte in JSON lines; what Arrow has
stored keeps type and value in Parquet. Memory holds one group of rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from judgegym.data.arrow import ArrowRows
from judgegym.data.json_file import JsonFile
from judgegym.data.rows import DataSet, Row
from judgegym.datasets.files.columns import AddedColumns
from judgegym.datasets.files.endings import is_parquet
from judgegym.datasets.files.json_types import json_texts, shapes_of
from judgegym.datasets.files.own_text import with_keys
from judgegym.datasets.files.parquet import JsonColumns, StoredColumns, parquet_parts, rows_of_group
from judgegym.engine.runs.disk import write_atomic
from judgegym.llm.errors import UserError
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)


def write_scored(
    rows: Sequence[Row], numbers: range, out: Path, added: Iterable[Mapping[str, JSON]], columns: AddedColumns
) -> None:
    """Write rows with their added columns to a file, in their order.

    Args:
        rows: all rows of the data set, as `load_rows` gives them.
        numbers: the rows that are written, from 0; they follow each other.
        out: the file, with an ending that `check_out` has accepted.
        added: the added columns of each of `numbers`, in their order.
        columns: which columns these are.

    Raises:
        DataError: the data set has changed since it was loaded.
        UserError: the file cannot be written; what was there before is still there.
    """
    try:
        write_atomic(out, scored_content(rows, numbers, out, added, columns))
    except OSError as error:
        raise UserError(f"--out: {out} cannot be written: {error.strerror or error}") from error


def scored_content(
    rows: Sequence[Row], numbers: range, out: Path, added: Iterable[Mapping[str, JSON]], columns: AddedColumns
) -> Callable[[], Iterator[bytes]]:
    """A function that gives the parts of a scored file, for `Disk.write`, which calls it again after an error.

    Args: those of `write_scored`. `added` is gone through anew at each call.
    """
    source, values = stored_rows(rows)
    if not is_parquet(out):
        return lambda: _lines(values, numbers, added, columns)
    own: StoredColumns | JsonColumns | None = None

    def parts() -> Iterator[bytes]:
        nonlocal own
        if own is None:
            own = own_columns(values, source)
            _warn_of_json_text(source, own)
        size = values.size if isinstance(values, JsonFile) else values.stored.size
        return parquet_parts(own, numbers, added, columns, rows_of_group(len(values), size))

    return parts


def stored_rows(rows: Sequence[Row]) -> tuple[str, JsonFile | ArrowRows]:
    """The name of a data set, and its rows as they are stored.

    Raises:
        TypeError: they are not those of `load_rows`.
    """
    if isinstance(rows, DataSet) and isinstance(rows.values, JsonFile | ArrowRows):
        return rows.source, rows.values
    raise TypeError("expected the rows of load_rows, which know how they are stored")


def own_texts(values: JsonFile | ArrowRows, numbers: range) -> Iterator[bytes]:
    """The rows as JSON, in their own words if they are JSON."""
    if isinstance(values, JsonFile):
        return (values.text(number) for number in numbers)
    return json_texts(values.stored, numbers)


def own_columns(values: JsonFile | ArrowRows, source: str) -> StoredColumns | JsonColumns:
    """The columns of a data set as a Parquet file has them."""
    if not isinstance(values, JsonFile):
        return StoredColumns(values.stored)
    shapes = shapes_of((values.text(number) for number in range(len(values))), source)
    return JsonColumns(values, shapes)


def _warn_of_json_text(source: str, own: StoredColumns | JsonColumns) -> None:
    if isinstance(own, JsonColumns) and own.json_text:
        logger.warning(
            "%s: no type of Parquet says all that is in these columns, whose values become JSON text: %s",
            source,
            ", ".join(own.json_text),
        )


def _lines(
    values: JsonFile | ArrowRows, numbers: range, added: Iterable[Mapping[str, JSON]], columns: AddedColumns
) -> Iterator[bytes]:
    for text, more in zip(own_texts(values, numbers), added, strict=True):
        yield with_keys(text, columns.in_order(more)) + b"\n"
