"""Shards: a data set in parts that follow each other, each scored by a run of its own and merged afterwards.

Guarantees: every row is in exactly one shard; which one depends on the number of rows and of shards alone (and on where
groups begin, since a group is never divided); without groups, sizes differ by at most one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from judgegym.data.rows import Row
from judgegym.datasets.rows.groups import groups_of
from judgegym.llm.errors import DataError

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
