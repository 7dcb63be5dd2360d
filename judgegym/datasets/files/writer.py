"""Write a scored file: the rows of the input untouched, each with its added columns.

Guarantees: the file is there as a whole or not at all; equal rows and equal added columns give equal bytes, whenever
and in however many shards they were judged. What was written as JSON stays byte for byte in JSON lines; what Arrow has
stored keeps type and value in Parquet. Memory holds one group of rows. Rows that could not be judged are listed in a
file beside the output: row, column and reason of each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from judgegym.data.arrow import ArrowRows
from judgegym.data.json_file import BadLine, JsonFile
from judgegym.data.rows import DataSet, Row, RowError
from judgegym.datasets.files.columns import AddedColumns, is_parquet
from judgegym.datasets.files.own_text import json_texts, with_keys
from judgegym.datasets.files.parquet import JsonColumns, StoredColumns, parquet_parts, rows_of_group
from judgegym.engine.runs.disk import write_atomic
from judgegym.llm import wire
from judgegym.llm.errors import DataError, UserError
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)


class StoredRows:
    """The rows of a data set as they are stored, and as an output has them.

    Attributes:
        source: the data set's name.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        """Take the rows of a data set, as `load_rows` gives them.

        Raises:
            TypeError: they are not those of `load_rows`.
        """
        if not isinstance(rows, DataSet) or not isinstance(rows.values, JsonFile | ArrowRows):
            raise TypeError("expected the rows of load_rows, which know how they are stored")
        self.source = rows.source
        self._values: JsonFile | ArrowRows = rows.values

    def texts(self, numbers: range) -> Iterator[bytes]:
        """Rows as JSON, in their own words if they are JSON."""
        if isinstance(self._values, JsonFile):
            return map(self._values.text, numbers)
        return json_texts(self._values.stored, numbers)

    @cached_property
    def columns(self) -> StoredColumns | JsonColumns:
        """The columns as a Parquet file has them; those whose values become JSON text are in the log, once."""
        if not isinstance(self._values, JsonFile):
            return StoredColumns(self._values.stored)
        found = JsonColumns(self._values, self.source)
        if found.json_text:
            logger.warning(
                "%s: no type of Parquet says all that is in these columns, whose values become JSON text: %s",
                self.source,
                ", ".join(found.json_text),
            )
        return found

    @property
    def rows_of_group(self) -> int:
        """How many rows a group of a Parquet file has."""
        values = self._values
        return rows_of_group(len(values), values.size if isinstance(values, JsonFile) else values.stored.size)


def write_scored(
    own: StoredRows, numbers: range, out: Path, added: Iterable[Mapping[str, JSON]], columns: AddedColumns
) -> None:
    """Write rows with their added columns to a file, in their order.

    Args:
        own: the rows of the data set.
        numbers: the rows that are written, from 0; they follow each other.
        out: the file, with an ending that `check_out` has accepted.
        added: the added columns of each of `numbers`, in their order.
        columns: which columns these are.

    Raises:
        DataError: the data set has changed since it was loaded.
        UserError: the file cannot be written; what was there before is still there.
    """
    try:
        write_atomic(out, scored_content(own, numbers, out, added, columns))
    except OSError as error:
        raise UserError(f"--out: {out} cannot be written: {error.strerror or error}") from error


def scored_content(
    own: StoredRows, numbers: range, out: Path, added: Iterable[Mapping[str, JSON]], columns: AddedColumns
) -> Callable[[], Iterator[bytes]]:
    """A function that gives the parts of a scored file, for `Disk.write`, which calls it again after an error.

    Args: those of `write_scored`. `added` is gone through anew at each call.
    """
    if is_parquet(out):
        return lambda: parquet_parts(own.columns, numbers, added, columns, own.rows_of_group)
    return partial(_lines, own, numbers, added, columns)


def _lines(
    own: StoredRows, numbers: range, added: Iterable[Mapping[str, JSON]], columns: AddedColumns
) -> Iterator[bytes]:
    for text, more in zip(own.texts(numbers), added, strict=True):
        yield with_keys(text, columns.in_order(more)) + b"\n"


def quarantine_of(out: Path) -> Path:
    """The file of the rows that could not be judged, beside the output."""
    return out.with_name(f"{out.stem}.quarantine.jsonl")


def quarantine_lines(bad: Mapping[int, RowError], bad_lines: Sequence[BadLine] = ()) -> Iterator[bytes]:
    """A line for each row, in the order of the rows; then those of lines that are no rows.

    Args:
        bad: the errors of the rows, by their numbers from 0.
        bad_lines: lines that are no JSON objects.
    """
    found = [(number + 1, error.place, error.column, error.reason) for number, error in sorted(bad.items())]
    lines = [(None, f"{line.source}, line {line.number}", None, line.reason) for line in bad_lines]
    for row, place, column, reason in (*found, *lines):
        yield wire.dumps({"row": row, "place": place, "column": column, "reason": reason}) + b"\n"


def read_quarantine(out: Path) -> dict[int, RowError]:
    """The rows that could not be judged, by their numbers from 0; none if there is no such file.

    Raises:
        DataError: the file cannot be read.
    """
    path = quarantine_of(out)
    found: dict[int, RowError] = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        try:
            fields = wire.loads(line)
        except ValueError:
            fields = None
        match fields:
            case {"row": int(row), "place": str(place), "column": None | str() as column, "reason": str(reason)}:
                found[row - 1] = RowError(place, reason, column)
            case {"row": None}:
                pass  # a line that is no row
            case _:
                raise DataError(f"{path}, line {number}: expected row, column and reason")
    return found
