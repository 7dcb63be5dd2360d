"""The files of shards as merging reads them: how many rows, which columns scoring has added, and whose rows they are.

Guarantee: a file that scoring has not written, or that was made of other rows than the data set has, is an error that
names it. Memory holds some rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from judgegym.data.stored import ParquetFile
from judgegym.datasets.files.columns import JUDGED, SAMPLED, STATUS, AddedColumns
from judgegym.datasets.files.endings import is_parquet
from judgegym.datasets.files.own_text import with_keys
from judgegym.datasets.files.parquet import JsonColumns, StoredColumns
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow

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
