"""A scored file, read again: the rows as `judgegym score` has written them, each with what the judge said.

Guarantee: a row is read when it is asked for. A file that scoring has not written is an error that names it before the
first row is used; a row whose added columns are not of one kind is an error that names the row.

The rows of a scored file without what its judge said, so that another judge's words can take their place.

Guarantee: all other columns are as they were: of JSON the row's own text byte for byte, of a table types and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from judgegym.data.arrow import ArrowRows
from judgegym.data.json_file import JsonFile
from judgegym.data.lazy_sequence import LazySequence
from judgegym.data.rows import DataSet, Row, load_rows
from judgegym.datasets.files.columns import DETAIL, EXPLANATION, JUDGED, LABEL, SCORE, STATUS, has_known_ending
from judgegym.datasets.files.own_text import without_keys
from judgegym.judges.core.judgment import Status
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row of a scored file. The tuples have one entry for each response of the row, in their order.

    Attributes:
        row: all columns, the added ones, too.
        several: the row has a list of responses; else the tuples have one entry.
        score: from 0 to 1; `None` exactly where the status is not `ok`.
        status: how judging ended.
        label: the judge's verdict in its own words, if it has one.
        explanation: the judge's reasons, or the error.
        detail: the score's components, a JSON object as text; `None` where judging failed.
    """

    row: Row
    several: bool
    score: tuple[float | None, ...]
    status: tuple[str, ...]
    label: tuple[str | None, ...]
    explanation: tuple[str | None, ...]
    detail: tuple[str | None, ...]

    def components(self, response: int) -> JSON:
        """The components of a response's score (from 0), parsed; `None` where judging failed.

        Raises:
            DataError: `judge/detail` is no JSON.
        """
        text = self.detail[response]
        try:
            return None if text is None else wire.loads(text)
        except ValueError as error:
            raise DataError(f"{self.row.place}: {DETAIL} is not JSON: {error}") from error


class ScoredRows(LazySequence[ScoredRow]):
    """The rows of a scored file; each is read when it is asked for."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Read from these rows."""
        self._rows = rows

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def read(self, place: int) -> ScoredRow:
        """Read a row.

        Raises:
            DataError: the file has changed, or the row was not written by scoring.
        """
        return scored_row(self._rows[place])


def read_scored(path: Path) -> ScoredRows:
    """The rows of a scored file.

    Args:
        path: a file that `judgegym score` has written, JSONL or Parquet.

    Raises:
        DataError: it cannot be loaded, or has not the columns that scoring adds.
    """
    if not has_known_ending(path):
        raise DataError(f"{path}: expected a file that judgegym score has written, with the ending .parquet or .jsonl")
    rows = load_rows(str(path), split="train")
    _check_is_scored(rows, str(path))
    return ScoredRows(rows)


def _check_is_scored(rows: DataSet, name: str) -> None:
    """Check that the first row has the columns that scoring adds; `name` is that of the data set, for the message.

    Raises:
        DataError: it lacks some.
    """
    missing = [column for column in JUDGED if column not in rows[0].values]
    if missing:
        raise DataError(
            f"{name}: expected a file that judgegym score has written, with the columns {', '.join(JUDGED)}; "
            f"it lacks {', '.join(missing)}"
        )


def scored_row(row: Row) -> ScoredRow:
    """What the judge said of a row.

    Raises:
        DataError: one of the added columns is missing, or is not of the kind that scoring writes.
    """
    several = isinstance(row.values.get(STATUS), list)
    status = _entries(row, STATUS, several, (str,))
    score = _entries(row, SCORE, several, (float, int, type(None)))
    texts = [_entries(row, name, several, (str, type(None))) for name in (LABEL, EXPLANATION, DETAIL)]
    if {len(score), *map(len, texts)} != {len(status)}:
        raise DataError(f"{row.place}: the columns {', '.join(JUDGED)} have lists of different lengths")
    for each, one in zip(status, score, strict=True):
        if (each == Status.OK.value) != (one is not None) or isinstance(one, bool):
            raise DataError(f"{row.place}: the status is {each!r} and the score {one!r}; only `ok` has a score")
    return ScoredRow(
        row,
        several,
        cast("tuple[float | None, ...]", score),
        cast("tuple[str, ...]", status),
        *cast("list[tuple[str | None, ...]]", texts),
    )


def _entries(row: Row, column: str, several: bool, kinds: tuple[type, ...]) -> tuple[JSON, ...]:
    """The entries of an added column, one for each response."""
    if column not in row.values:
        raise DataError(f"{row.place}: the column {column} is missing, which judgegym score writes in every row")
    value = row.values[column]
    entries = tuple(value) if several and isinstance(value, list) else (value,)
    if several != isinstance(value, list) or not all(isinstance(entry, kinds) for entry in entries):
        expected = f"{'a list of ' if several else ''}{' or '.join(kind.__name__ for kind in kinds)}"
        raise DataError(f"{row.place}: {column} is not what judgegym score writes: expected {expected}")
    return entries


def without_judge(rows: DataSet) -> DataSet:
    """The rows without the columns that a judge has added.

    Args:
        rows: what `load_rows` has read.

    Raises:
        DataError: the first row has not all of these columns.
    """
    _check_is_scored(rows, f"{rows.source}: --rescore")
    if isinstance(rows.values, ArrowRows):
        return DataSet(rows.source, rows.values.without(JUDGED))
    if isinstance(rows.values, JsonFile):
        return DataSet(rows.source, rows.values.edited(partial(without_keys, keys=JUDGED)))
    raise TypeError("expected the rows of load_rows, which know how they are stored")
