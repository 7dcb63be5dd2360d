"""Shards: consecutive parts of a data set, each scored by its own run and merged afterwards.

Guarantees: every row is in exactly one shard. Which one depends on the numbers of rows and shards
alone (and on where groups begin, since a group is never divided); without groups, sizes differ by
at most one. The merged file has the same bytes as the file of one run over the whole data set with
the same verdicts: it is written from the data set's own rows, with only the added columns from the
shards. First, every shard is compared with its rows of the data set: a file that scoring did not
write, or that was made from other rows, is an error that names it. Memory holds some rows.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from judgegym.data.json_file import json_object
from judgegym.data.rows import Row
from judgegym.datasets.files.columns import JUDGED, STATUS, AddedColumns, is_parquet
from judgegym.datasets.files.parquet import row_groups
from judgegym.datasets.files.row_text import append_keys
from judgegym.datasets.files.writer import StoredRows, write_scored
from judgegym.datasets.rows.task import group_rows
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow


_SHARD = re.compile(r"([0-9]{1,5})/([0-9]{1,5})", re.ASCII)
_AT_ONCE = 500
"""Rows of a shard that are in memory at once."""
_NAMED = 5
"""The most missing shards that a message names."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the parts of a data set.

    Attributes:
        number: the shard's number, from 1.
        count: the number of shards.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `3/16`.

        Raises:
            ValueError: the text has another form, or the number is out of range.
        """
        match = _SHARD.fullmatch(text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"expected I/N with 1 ≤ I ≤ N ≤ 99999, such as 3/16; found {text!r}")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        """Return the shard as it is written on the command line."""
        return f"{self.number}/{self.count}"

    def rows(self, total: int, starts: Sequence[int] | None = None) -> range:
        """Return the rows of the shard, from 0; empty shards exist with fewer rows than shards.

        Args:
            total: the number of rows of the data set.
            starts: the first row of each group, in order; a shard begins and ends at the border
                of a group.
        """
        first, end = (before * total // self.count for before in (self.number - 1, self.number))
        return range(_border(first, total, starts), _border(end, total, starts))

    def path(self, out: Path) -> Path:
        """Return the shard's file: `scored-00003-of-00016.parquet` beside `scored.parquet`."""
        return out.with_name(f"{out.stem}-{self.number:05d}-of-{self.count:05d}{out.suffix}")


def first_rows(limit: int, total: int, starts: Sequence[int] | None = None) -> range:
    """Return the first `limit` rows of a data set; with groups, to the end of the last group begun.

    Args:
        limit: the number of rows, at most `total`.
        total: the number of rows of the data set.
        starts: as for `Shard.rows`.
    """
    return range(_border(limit, total, starts))


def _border(row: int, total: int, starts: Sequence[int] | None) -> int:
    """Return a row, or the next row at which a group begins."""
    if starts is None or row in (0, total):
        return row
    index = bisect_left(starts, row)
    if index < len(starts):
        return starts[index]
    return total


ShardSetting = Annotated[str, AfterValidator(lambda text: str(Shard.parse(text)))]
"""A shard as a setting: the text that `Shard.parse` reads."""


def list_shards(count: int) -> list[Shard]:
    """Return all shards, in their order."""
    return [Shard(number, count) for number in range(1, count + 1)]


def group_starts(rows: Sequence[Row], column: str) -> list[int]:
    """Return the first row of each group of rows that are judged together, for `Shard.rows`.

    Args:
        rows: all rows of the data set.
        column: the column whose equal values make a group.

    Raises:
        DataError: the rows of a group are not consecutive, so shards would divide it; or a row has
            no value.
    """
    groups = group_rows(rows, column, range(len(rows)))
    for group in groups:
        if group[-1] - group[0] + 1 != len(group):
            gap = next(
                number
                for number, row_number in enumerate(group, start=group[0])
                if number != row_number
            )
            raise DataError(
                f"{rows[gap].place}: is between rows {group[0] + 1} and {group[-1] + 1}, which "
                f"have the same {column} (--group_by), and has another; with --shard or --limit, "
                f"expected the rows of a group next to each other: sort the data set by {column}"
            )
    return [group[0] for group in groups]


def merge_shards(
    rows: Sequence[Row], out: Path, count: int, starts: Sequence[int] | None = None
) -> AddedColumns:
    """Merge the files of the shards beside a scored file into it.

    Args:
        rows: the whole data set, as `load_rows` returns it.
        out: the file to write; the shards' names are derived from it.
        count: the number of shards.
        starts: the first row of each group, if rows were judged together.

    Returns:
        The columns that scoring has added.

    Raises:
        DataError: shards are missing, were not written by scoring, or have other rows than the data
            set.
        UserError: the file cannot be written.
    """
    shards = {shard.path(out): shard.rows(len(rows), starts) for shard in list_shards(count)}
    missing = [path.name for path in shards if not path.is_file()]
    if missing:
        missing_names = ", ".join(missing[:_NAMED])
        if len(missing) > _NAMED:
            missing_names += f" and {len(missing) - _NAMED} more"
        raise DataError(
            f"{out}: {len(missing)} of {count} shards are not in {out.parent}: {missing_names}"
        )
    stored_rows = StoredRows(rows)
    columns = _common_columns([*shards], list(rows[0].values))
    for path, numbers in shards.items():
        row_count = _count_rows(path)
        if row_count != len(numbers):
            raise DataError(
                f"{path}: has {row_count} rows; expected {len(numbers)}, those from "
                f"{numbers.start + 1} to {numbers.stop} of {stored_rows.source} ({len(rows)} rows)"
            )
        mismatch = (_find_column_mismatch if is_parquet(path) else _find_line_mismatch)(
            path, stored_rows, numbers, columns
        )
        if mismatch is not None:
            raise DataError(
                f"{path}, row {mismatch + 1} or later: its columns are not those of row "
                f"{numbers.start + mismatch + 1} of {stored_rows.source}; expected a shard of this "
                "data set, as it is now"
            )
    write_scored(
        stored_rows,
        range(len(rows)),
        out,
        lambda: chain(*(_read_added_columns(path, columns) for path in shards)),
        columns,
    )
    return columns


def _common_columns(paths: Sequence[Path], data_columns: Collection[str]) -> AddedColumns:
    """Return the columns that scoring has added to all shards.

    Raises:
        DataError: shards have different columns, or scoring did not write one of them.
    """
    shard_columns = [
        (path, columns)
        for path in paths
        if (columns := _read_columns(path, data_columns)) is not None
    ]
    if not shard_columns:
        raise DataError(f"{paths[0]}: none of the shards has a row")
    first, expected = shard_columns[0]
    for path, columns in shard_columns:
        if columns != expected:
            raise DataError(
                f"{path}: has other columns than {first}, or other kinds of values in them"
            )
    return expected


def _read_columns(path: Path, data_columns: Collection[str]) -> AddedColumns | None:
    """Return the columns that scoring has added to a shard; `None` for JSON lines without a row."""
    if is_parquet(path):
        import pyarrow  # late: an extra

        schema = _open_parquet(path).schema_arrow
        names = schema.names
        several = STATUS in names and pyarrow.types.is_list(schema.field(STATUS).type)
    else:
        _, fields = next(_read_lines(path), (b"", None))
        if fields is None:
            return None
        names = list(fields)
        several = isinstance(fields.get(STATUS), list)
    columns = AddedColumns.from_names(names, data_columns, several=several)
    if columns is None:
        raise _not_scored_error(path)
    return columns


def _count_rows(path: Path) -> int:
    """Return the number of rows of a shard."""
    if is_parquet(path):
        return int(_open_parquet(path).metadata.num_rows)
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _read_added_columns(path: Path, columns: AddedColumns) -> Iterator[Mapping[str, JSON]]:
    """Yield the added values of each row of a shard, whose first row has them."""
    if is_parquet(path):
        for batch in _open_parquet(path).iter_batches(
            _AT_ONCE, columns=list(columns.names), use_threads=False
        ):
            yield from batch.to_pylist()
        return
    for _, fields in _read_lines(path):
        yield _parse_added_columns(path, fields, columns)


def _parse_added_columns(
    path: Path, fields: Mapping[str, JSON], columns: AddedColumns
) -> Mapping[str, JSON]:
    """Return the added values of a JSON row."""
    if not fields.keys() >= set(columns.names):
        raise _not_scored_error(path)
    return {name: fields[name] for name in columns.names}


def _find_line_mismatch(
    path: Path, stored_rows: StoredRows, numbers: range, columns: AddedColumns
) -> int | None:
    """Return the first row (from 0) of a JSON lines shard that differs from the data set."""
    for number, (text, (line, fields)) in enumerate(
        zip(stored_rows.texts(numbers), _read_lines(path), strict=True)
    ):
        if (
            append_keys(text, columns.order_values(_parse_added_columns(path, fields, columns)))
            + b"\n"
            != line
        ):
            return number
    return None


def _find_column_mismatch(
    path: Path, stored_rows: StoredRows, numbers: range, columns: AddedColumns
) -> int | None:
    """Return the first row (from 0) of the first block of a Parquet shard that differs."""
    names, first = stored_rows.columns.schema.names, 0
    shard = _open_parquet(path)
    if shard.schema_arrow.names != [*names, *columns.names]:
        return 0
    groups = row_groups(
        shard.schema_arrow, shard.iter_batches(_AT_ONCE, use_threads=False), _AT_ONCE
    )
    for (rows, actual), (_, expected) in zip(
        groups, stored_rows.columns.groups(numbers, _AT_ONCE), strict=True
    ):
        if not all(map(_is_equal, actual, expected)):
            return first
        first += rows
    return None


def _is_equal(
    actual: pyarrow.Array | pyarrow.ChunkedArray, expected: pyarrow.Array | pyarrow.ChunkedArray
) -> bool:
    """Return whether two columns hold the same values.

    Where Arrow finds a difference, values are compared as texts: Arrow finds one for NaN, and for
    dictionaries in another order.
    """
    return (actual.type == expected.type and actual == expected) or repr(
        actual.to_pylist()
    ) == repr(expected.to_pylist())


def _read_lines(path: Path) -> Iterator[tuple[bytes, Mapping[str, JSON]]]:
    """Yield the lines of a file with their line ends, each with its object."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield line, json_object(line, f"{path}, row {number}")


def _open_parquet(path: Path) -> Any:
    import pyarrow.parquet  # late: an extra

    try:
        return pyarrow.parquet.ParquetFile(path, pre_buffer=False)
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _not_scored_error(path: Path) -> DataError:
    return DataError(
        f"{path}: expected a shard that judgegym score has written, with {', '.join(JUDGED)} at "
        "its end"
    )
