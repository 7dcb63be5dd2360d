"""Shards: a data set in parts that follow each other, each scored by a run of its own and merged afterwards.

Guarantees: every row is in exactly one shard; which one depends on the number of rows and of shards alone (and on where
groups begin, since a group is never divided); without groups, sizes differ by at most one.

The files of shards as merging reads them: how many rows, which columns scoring has added, and whose rows they are.

Guarantee: a file that scoring has not written, or that was made of other rows than the data set has, is an error that
names it. Memory holds some rows.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import AfterValidator

from judgegym.data.rows import Row
from judgegym.data.stored import ParquetFile
from judgegym.datasets.files.columns import JUDGED, SAMPLED, STATUS, AddedColumns
from judgegym.datasets.files.endings import is_parquet
from judgegym.datasets.files.own_text import with_keys
from judgegym.datasets.files.parquet import JsonColumns, StoredColumns
from judgegym.datasets.rows.unit import groups_of
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow


_SHARD = re.compile(r"([0-9]{1,5})/([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the parts of a data set.

    Attributes:
        number: which, from 1.
        count: how many there are.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `3/16`.

        Raises:
            ValueError: it is nothing of the kind.
        """
        found = _SHARD.fullmatch(text.strip())
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"expected I/N with 1 ≤ I ≤ N ≤ 99999, such as 3/16; found {text!r}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        """As it is written on the command line."""
        return f"{self.number}/{self.count}"

    def rows(self, total: int, starts: Sequence[int] | None = None) -> range:
        """The rows of the shard, from 0; none if there are fewer rows than shards.

        Args:
            total: how many rows the data set has.
            starts: the first row of each group, in order; a shard begins and ends where a group does.
        """
        first, end = (before * total // self.count for before in (self.number - 1, self.number))
        return range(_border(first, total, starts), _border(end, total, starts))

    def path(self, out: Path) -> Path:
        """The file of the shard: `scored-00003-of-00016.parquet` beside `scored.parquet`."""
        return out.with_name(f"{out.stem}-{self.number:05d}-of-{self.count:05d}{out.suffix}")


def first_rows(limit: int, total: int, starts: Sequence[int] | None = None) -> range:
    """The first rows of a data set, from 0: so many, or with groups to the end of the last one that has begun.

    Args:
        limit: how many, at most `total`.
        total: how many rows the data set has.
        starts: as for `Shard.rows`.
    """
    return range(_border(limit, total, starts))


def _border(row: int, total: int, starts: Sequence[int] | None) -> int:
    """A row, or the first one after it with which a group begins."""
    if starts is None or row in (0, total):
        return row
    place = bisect_left(starts, row)
    return starts[place] if place < len(starts) else total


ShardSetting = Annotated[str, AfterValidator(lambda text: str(Shard.parse(text)))]
"""A shard as a setting: the text that `Shard.parse` reads."""


def shards_of(count: int) -> list[Shard]:
    """All shards, in their order."""
    return [Shard(number, count) for number in range(1, count + 1)]


def group_starts(rows: Sequence[Row], column: str) -> list[int]:
    """The first row of each group of rows that are judged together, for `Shard.rows`.

    Args:
        rows: all rows of the data set.
        column: rows with the same value in it are a group.

    Raises:
        DataError: the rows of a group do not follow each other, so that shards would divide it; or one has no value.
    """
    groups = groups_of(rows, column, range(len(rows)))
    for group in groups:
        if group[-1] - group[0] + 1 != len(group):
            gap = next(number for number, each in enumerate(group, start=group[0]) if number != each)
            raise DataError(
                f"{rows[gap].place}: has another {column} (--group_by) than row {group[0] + 1}, and row "
                f"{group[-1] + 1} the same as that; with --shard or --limit, expected the rows of a group next to each "
                f"other, as sorting the data set by {column} puts them"
            )
    return [group[0] for group in groups]


_AT_ONCE = 500


class ShardFile(Protocol):
    """The scored file of a shard."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def rows(self) -> int:
        """How many rows it has."""

    def columns(self, own: Collection[str]) -> AddedColumns | None:
        """Which columns scoring has added; `None` in a file of JSON lines without a row.

        Args:
            own: columns of the data set.

        Raises:
            DataError: scoring has not written the file.
        """

    def added(self, columns: AddedColumns) -> Iterator[Mapping[str, JSON]]:
        """The added columns of each row, in order."""


@dataclass(frozen=True)
class JsonLinesShard:
    """A shard in JSON lines."""

    path: Path

    @property
    def rows(self) -> int:
        """See `ShardFile`."""
        return sum(1 for _ in self.lines())

    def lines(self) -> Iterator[bytes]:
        """The lines with their ends."""
        with self.path.open("rb") as file:
            yield from file

    def columns(self, own: Collection[str]) -> AddedColumns | None:
        """See `ShardFile`."""
        for line in self.lines():
            fields = self._fields(line, 1)
            return _columns(self.path, list(fields), own, isinstance(fields.get(STATUS), list))
        return None

    def added(self, columns: AddedColumns) -> Iterator[Mapping[str, JSON]]:
        """See `ShardFile`."""
        for number, line in enumerate(self.lines(), start=1):
            fields = self._fields(line, number)
            if not fields.keys() >= set(columns.names):
                raise _not_scored(self.path)
            yield {name: fields[name] for name in columns.names}

    def _fields(self, line: bytes, number: int) -> Mapping[str, JSON]:
        try:
            fields = wire.loads(line)
        except ValueError as error:
            raise DataError(f"{self.path}, row {number}: not JSON: {error}") from error
        if not isinstance(fields, Mapping):
            raise DataError(f"{self.path}, row {number}: expected an object, found {type(fields).__name__}")
        return fields

    def check(self, texts: Iterator[bytes], columns: AddedColumns) -> int | None:
        """Compare the rows with those of the data set; return the first, from 0, that is another."""
        for number, (text, line, added) in enumerate(zip(texts, self.lines(), self.added(columns), strict=True)):
            if with_keys(text, columns.in_order(added)) + b"\n" != line:
                return number
        return None


@dataclass(frozen=True)
class ParquetShard:
    """A shard in Parquet."""

    path: Path

    @property
    def rows(self) -> int:
        """See `ShardFile`."""
        return int(self._open().metadata.num_rows)

    def columns(self, own: Collection[str]) -> AddedColumns | None:
        """See `ShardFile`."""
        import pyarrow  # late: an extra

        schema = self._open().schema_arrow
        several = STATUS in schema.names and pyarrow.types.is_list(schema.field(STATUS).type)
        return _columns(self.path, schema.names, own, several)

    def added(self, columns: AddedColumns) -> Iterator[Mapping[str, JSON]]:
        """See `ShardFile`."""
        file = self._open()
        if not set(columns.names) <= set(file.schema_arrow.names):
            raise _not_scored(self.path)
        for batch in file.iter_batches(_AT_ONCE, columns=list(columns.names), use_threads=False):
            yield from batch.to_pylist()

    def check(self, own: StoredColumns | JsonColumns, numbers: range, columns: AddedColumns) -> int | None:
        """Compare the rows with `numbers` of the data set; return the first, from 0, that may be another."""
        names = own.schema.names
        if self._open().schema_arrow.names != [*names, *columns.names]:
            return 0
        first = 0
        here = StoredColumns(ParquetFile(self.path)).groups(range(len(numbers)), _AT_ONCE)
        for found, expected in zip(here, own.groups(numbers, _AT_ONCE), strict=True):
            if not all(map(_equal, found.arrays, expected.arrays)):
                return first
            first += found.rows
        return None

    def _open(self) -> Any:
        import pyarrow.parquet  # late: an extra

        try:
            return pyarrow.parquet.ParquetFile(self.path, pre_buffer=False)
        except pyarrow.ArrowInvalid as error:
            raise DataError(f"{self.path}: cannot be read: {error}") from error


def shard_file(path: Path) -> JsonLinesShard | ParquetShard:
    """The file of a shard, by its ending."""
    return ParquetShard(path) if is_parquet(path) else JsonLinesShard(path)


def _columns(path: Path, names: Sequence[str], own: Collection[str], several: bool) -> AddedColumns:
    if tuple(names[-len(JUDGED) :]) != JUDGED:
        raise _not_scored(path)
    before = tuple(names[-len(JUDGED) - len(SAMPLED) : -len(JUDGED)])
    sampled = before == SAMPLED and not set(before) & set(own)
    return AddedColumns(several, sampled)


def _not_scored(path: Path) -> DataError:
    return DataError(f"{path}: expected a shard that judgegym score has written, with {', '.join(JUDGED)} at its end")


def _equal(found: pyarrow.Array | pyarrow.ChunkedArray, expected: pyarrow.Array | pyarrow.ChunkedArray) -> bool:
    """Whether two columns hold the same.

    Values are compared as texts where Arrow finds a difference: it does for NaN, and for dictionaries in another order.
    """
    return (found.type == expected.type and found == expected) or repr(found.to_pylist()) == repr(expected.to_pylist())
