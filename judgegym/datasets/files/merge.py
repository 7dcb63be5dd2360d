"""Merge the scored files of shards.

Guarantee: the merged file has the same bytes as that of one run over the whole data set with the same verdicts: it is
written in the same way, of the data set's own rows, and takes nothing but the added columns from the shards. Before
that, every shard is compared with the rows that it should have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judgegym.data.rows import Row
from judgegym.datasets.files.columns import AddedColumns
from judgegym.datasets.files.parquet import JsonColumns, StoredColumns
from judgegym.datasets.files.shards import JsonLinesShard, ShardFile, shard_file, shards_of
from judgegym.datasets.files.writer import own_columns, own_texts, stored_rows, write_scored
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

_NAMED = 5
"""Missing shards that a message names."""


def merge_shards(rows: Sequence[Row], out: Path, count: int, starts: Sequence[int] | None = None) -> AddedColumns:
    """Write a scored file from those of its shards, which are beside it.

    Args:
        rows: the whole data set, as `load_rows` gives it.
        out: the file to write, whose name those of the shards are made of.
        count: how many shards there are.
        starts: the first row of each group, if rows were judged together.

    Returns:
        The columns that scoring has added.

    Raises:
        DataError: shards are missing, were not written by scoring, or have other rows than the data set.
        UserError: the file cannot be written.
    """
    shards = [(shard_file(shard.path(out)), shard.rows(len(rows), starts)) for shard in shards_of(count)]
    missing = [shard.path.name for shard, _ in shards if not shard.path.is_file()]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise DataError(
            f"{out}: {len(missing)} of {count} shards are not in {out.parent}: {', '.join(missing[:_NAMED])}{more}"
        )
    columns = _common_columns([shard for shard, _ in shards], list(rows[0].values))
    source, values = stored_rows(rows)
    own: StoredColumns | JsonColumns | None = None
    for shard, numbers in shards:
        if shard.rows != len(numbers):
            raise DataError(
                f"{shard.path}: has {shard.rows} rows; expected {len(numbers)}, those from {numbers.start + 1} to "
                f"{numbers.stop} of {source} ({len(rows)} rows)"
            )
        if isinstance(shard, JsonLinesShard):
            other = shard.check(own_texts(values, numbers), columns)
        else:
            own = own or own_columns(values, source)
            other = shard.check(own, numbers, columns)
        if other is not None:
            raise DataError(
                f"{shard.path}, row {other + 1} or later: its columns are not those of row {numbers.start + other + 1} "
                f"of {source}; expected a shard of this data set, as it is now"
            )
    write_scored(rows, range(len(rows)), out, _AddedColumns([shard for shard, _ in shards], columns), columns)
    return columns


@dataclass(frozen=True, slots=True)
class _AddedColumns:
    """The added columns of all shards, read anew each time."""

    shards: Sequence[ShardFile]
    columns: AddedColumns

    def __iter__(self) -> Iterator[Mapping[str, JSON]]:
        for shard in self.shards:
            yield from shard.added(self.columns)


def _common_columns(shards: Sequence[ShardFile], own: Sequence[str]) -> AddedColumns:
    """The added columns of all shards.

    Raises:
        DataError: shards have different ones.
    """
    found = [(shard, columns) for shard in shards if (columns := shard.columns(own)) is not None]
    if not found:
        raise DataError(f"{shards[0].path}: none of the shards has a row")
    first, expected = found[0]
    for shard, columns in found:
        if columns != expected:
            raise DataError(f"{shard.path}: has other columns than {first.path}, or other kinds of values in them")
    return expected
