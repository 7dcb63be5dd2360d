"""Write and read scored files: the rows of the input unchanged, each with its added columns.

Guarantees when writing: the file is written as a whole or not at all. Equal rows and equal added
columns give equal bytes, in however many shards they were judged. JSON rows stay byte for byte in
JSON lines; table rows keep type and value in Parquet. Memory holds one group of rows. Rows that
could not be judged are listed in a file beside the output, with row, column and reason.

Guarantees when reading: a row is read on access. A file that scoring did not write is an error that
names the file before the first row is used; a row whose added columns are inconsistent is an error
that names the row.

`drop_judge_columns` removes the judge's columns, so that another judge can score the file again;
all other columns keep their text (JSON) or their types and values (tables).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TypeAlias, cast

from judgegym.data.arrow import ArrowRows
from judgegym.data.json_file import BadLine, JsonFile
from judgegym.data.lazy_sequence import LazyMap
from judgegym.data.rows import DataSet, Row, RowError, load_rows
from judgegym.datasets.files.columns import (
    DETAIL,
    EXPLANATION,
    JUDGED,
    LABEL,
    SCORE,
    STATUS,
    AddedColumns,
    has_known_ending,
    is_parquet,
)
from judgegym.datasets.files.parquet import (
    MOST_BYTES,
    MOST_ROWS,
    JsonColumns,
    StoredColumns,
    parquet_parts,
)
from judgegym.datasets.files.row_text import append_keys, json_texts, remove_keys
from judgegym.datasets.rows.questions import is_verdict_column
from judgegym.engine.runs.disk import write_atomic
from judgegym.judges.core.judgment import Status
from judgegym.llm import wire
from judgegym.llm.errors import DataError, UserError
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

AddedRows: TypeAlias = Callable[[], Iterable[Mapping[str, JSON]]]
"""Returns the added values of each row."""


class StoredRows:
    """The rows of a data set, in the form in which they are stored and written.

    Attributes:
        source: the data set's name.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        """Take the rows of a data set, as `load_rows` returns them.

        Raises:
            TypeError: the rows do not come from `load_rows`.
        """
        if not isinstance(rows, DataSet) or not isinstance(rows.values, JsonFile | ArrowRows):
            raise TypeError("expected the rows of load_rows, which know how they are stored")
        self.source = rows.source
        self._values: JsonFile | ArrowRows = rows.values

    def texts(self, numbers: range) -> Iterator[bytes]:
        """Return rows as JSON; rows that are JSON keep their text."""
        if isinstance(self._values, JsonFile):
            return map(self._values.text, numbers)
        return json_texts(self._values, numbers)

    @cached_property
    def columns(self) -> StoredColumns | JsonColumns:
        """The columns as Parquet stores them; columns that become JSON text are logged once."""
        if not isinstance(self._values, JsonFile):
            return StoredColumns(self._values)
        json_columns = JsonColumns(self._values, self.source)
        if json_columns.json_text:
            logger.warning(
                "%s: no Parquet type holds all values of these columns, which are written as JSON "
                "text: %s",
                self.source,
                ", ".join(json_columns.json_text),
            )
        return json_columns

    @property
    def rows_per_group(self) -> int:
        """The number of rows of a group of a Parquet file."""
        values = self._values
        size = values.size if isinstance(values, JsonFile) else values.table.nbytes
        return max(1, min(MOST_ROWS, MOST_BYTES * len(values) // max(size, 1)))


def write_scored(
    stored_rows: StoredRows, numbers: range, out: Path, added: AddedRows, columns: AddedColumns
) -> None:
    """Write rows with their added columns to a file, in their order.

    Args:
        stored_rows: the rows of the data set.
        numbers: the range of rows to write, from 0.
        out: the file, with an extension that `check_out` has accepted.
        added: returns the added values of each of `numbers`, in their order; it is called again
            after an error.
        columns: the added columns.

    Raises:
        DataError: the data set has changed since it was loaded.
        UserError: the file cannot be written; an earlier file is unchanged.
    """
    try:
        write_atomic(out, scored_content(stored_rows, numbers, out, added, columns))
    except OSError as error:
        raise UserError(f"--out: {out} cannot be written: {error.strerror or error}") from error


def scored_content(
    stored_rows: StoredRows, numbers: range, out: Path, added: AddedRows, columns: AddedColumns
) -> Callable[[], Iterator[bytes]]:
    """Return a function that yields the parts of a scored file.

    `Disk.write` calls it again after an error. The arguments are those of `write_scored`.
    """
    if is_parquet(out):
        return lambda: parquet_parts(
            stored_rows.columns, numbers, added(), columns, stored_rows.rows_per_group
        )
    return partial(_scored_lines, stored_rows, numbers, added, columns)


def _scored_lines(
    stored_rows: StoredRows, numbers: range, added: AddedRows, columns: AddedColumns
) -> Iterator[bytes]:
    for text, added_values in zip(stored_rows.texts(numbers), added(), strict=True):
        yield append_keys(text, columns.order_values(added_values)) + b"\n"


def locate_quarantine(out: Path) -> Path:
    """Return the path of the file beside the output that lists rows that could not be judged."""
    return out.with_name(f"{out.stem}.quarantine.jsonl")


def quarantine_lines(
    bad: Mapping[int, RowError], bad_lines: Sequence[BadLine] = ()
) -> Iterator[bytes]:
    """Yield a line for each row that could not be judged, then for each line that is no row.

    Args:
        bad: the errors of the rows, by row number from 0.
        bad_lines: lines that are not JSON objects.
    """
    row_errors = [
        (number + 1, error.place, error.column, error.reason)
        for number, error in sorted(bad.items())
    ]
    lines = [(None, f"{line.source}, line {line.number}", None, line.reason) for line in bad_lines]
    for row, place, column, reason in (*row_errors, *lines):
        yield wire.dumps({"row": row, "place": place, "column": column, "reason": reason}) + b"\n"


def read_quarantine(out: Path) -> dict[int, RowError]:
    """Read the rows that could not be judged, by number from 0; none if there is no such file.

    Raises:
        DataError: the file cannot be read.
    """
    path = locate_quarantine(out)
    errors: dict[int, RowError] = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        match wire.loads_or_none(line):
            case {
                "row": int(row),
                "place": str(place),
                "column": None | str() as column,
                "reason": str(reason),
            }:
                errors[row - 1] = RowError(place, reason, column)
            case {"row": None}:
                pass  # a line that is not a row
            case _:
                raise DataError(f"{path}, line {number}: expected row, column and reason")
    return errors


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row of a scored file; the tuples have one entry for each response of the row.

    Attributes:
        row: all columns, including the added ones.
        several: the row has a list of responses; else the tuples have one entry.
        score: from 0 to 1; `None` exactly where the status is not `ok`.
        status: how judging ended.
        label: the judge's verdict in its own words, if it has one.
        explanation: the judge's reasons, or the error.
        detail: the score's components: an object, or JSON text in Parquet and in files of older
            versions; `None` where judging failed.
    """

    row: Row
    several: bool
    score: tuple[float | None, ...]
    status: tuple[str, ...]
    label: tuple[str | None, ...]
    explanation: tuple[str | None, ...]
    detail: tuple[str | Mapping[str, JSON] | None, ...]

    def components(self, response: int) -> JSON:
        """Return the components of a response's score, parsed; `None` where judging failed.

        Args:
            response: the response's number in the row, from 0.

        Raises:
            DataError: `judge/detail` is not JSON.
        """
        detail = self.detail[response]
        try:
            if isinstance(detail, str):
                return wire.loads(detail)
            return detail
        except ValueError as error:
            raise DataError(f"{self.row.place}: {DETAIL} is not JSON: {error}") from error


def read_scored(path: Path) -> Sequence[ScoredRow]:
    """Open a scored file; each row is read and checked on access.

    Args:
        path: a file that `judgegym score` has written, JSONL or Parquet.

    Raises:
        DataError: it cannot be loaded, or lacks the columns that scoring adds.
    """
    if not has_known_ending(path):
        raise DataError(
            f"{path}: expected a file that judgegym score has written, with the ending .parquet or "
            ".jsonl"
        )
    rows = load_rows(str(path), split="train")
    _check_is_scored(rows, str(path))
    return LazyMap(rows, parse_scored_row)


def _check_is_scored(rows: DataSet, name: str) -> None:
    """Check that the first row has the columns that scoring adds.

    Args:
        rows: the rows of the file.
        name: the data set's name, for the message.

    Raises:
        DataError: a column is missing.
    """
    missing = [column for column in JUDGED if column not in rows[0].values]
    if missing:
        columns = ", ".join(JUDGED)
        missing_names = ", ".join(missing)
        raise DataError(
            f"{name}: expected a file that judgegym score has written, with the columns "
            f"{columns}; it lacks {missing_names}"
        )


def parse_scored_row(row: Row) -> ScoredRow:
    """Parse the added columns of a row.

    Raises:
        DataError: an added column is missing, or is not what scoring writes.
    """
    several = isinstance(row.values.get(STATUS), list)
    status = _read_entries(row, STATUS, several, (str,))
    score = _read_entries(row, SCORE, several, (float, int, type(None)))
    label, explanation = (
        _read_entries(row, name, several, (str, type(None))) for name in (LABEL, EXPLANATION)
    )
    detail = _read_entries(row, DETAIL, several, (str, dict, type(None)))
    if {len(score), len(label), len(explanation), len(detail)} != {len(status)}:
        raise DataError(
            f"{row.place}: the columns {', '.join(JUDGED)} have lists of different lengths"
        )
    for response_status, response_score in zip(status, score, strict=True):
        if (response_status == Status.OK.value) != (response_score is not None) or isinstance(
            response_score, bool
        ):
            raise DataError(
                f"{row.place}: the status is {response_status!r} and the score {response_score!r}; "
                "only `ok` has a score"
            )
    return ScoredRow(
        row,
        several,
        cast("tuple[float | None, ...]", score),
        cast("tuple[str, ...]", status),
        cast("tuple[str | None, ...]", label),
        cast("tuple[str | None, ...]", explanation),
        cast("tuple[str | Mapping[str, JSON] | None, ...]", detail),
    )


def _read_entries(
    row: Row, column: str, several: bool, kinds: tuple[type, ...]
) -> tuple[JSON, ...]:
    """Return the entries of an added column, one for each response."""
    if column not in row.values:
        raise DataError(
            f"{row.place}: the column {column} is missing, which judgegym score writes in every row"
        )
    value = row.values[column]
    entries = tuple(value) if several and isinstance(value, list) else (value,)
    if several != isinstance(value, list) or not all(isinstance(entry, kinds) for entry in entries):
        expected = " or ".join(kind.__name__ for kind in kinds)
        if several:
            expected = f"a list of {expected}"
        raise DataError(
            f"{row.place}: {column} is not what judgegym score writes: expected {expected}"
        )
    return entries


def _is_judge_column(name: str) -> bool:
    return name in JUDGED or is_verdict_column(name)


def drop_judge_columns(rows: DataSet) -> DataSet:
    """Return the rows without the columns that a judge has added.

    Args:
        rows: rows that `load_rows` has read.

    Raises:
        DataError: the first row lacks one of these columns.
    """
    _check_is_scored(rows, f"{rows.source}: --rescore")
    if isinstance(rows.values, ArrowRows):
        names = [name for name in rows.values.table.schema.names if _is_judge_column(name)]
        return DataSet(rows.source, rows.values.drop_columns(names))
    assert isinstance(rows.values, JsonFile)  # `load_rows` stores rows in one of these two ways
    return DataSet(
        rows.source, rows.values.edit_rows(partial(remove_keys, is_left_out=_is_judge_column))
    )
