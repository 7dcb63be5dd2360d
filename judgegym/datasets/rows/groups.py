"""Rows that are judged together because they have the same value in a column."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import orjson

from judgegym.data.rows import Row
from judgegym.datasets.rows.equal import KEY_BYTES, digest_of, first_equals


def digest_of_value(row: Row, column: str) -> bytes:
    """A digest of `KEY_BYTES` of a row's value in the column of --group_by, the same for equal values.

    Raises:
        DataError: it has none.
    """
    value = row.value(column)
    if value is None:
        raise row.lacks(f"a value in {column} (--group_by)")
    return digest_of(orjson.dumps(value, default=str))


def groups_of(rows: Sequence[Row], column: str, numbers: Iterable[int]) -> list[Sequence[int]]:
    """The numbers of the rows of each group, in the order of the groups' first rows.

    Args:
        rows: the whole data set.
        column: rows with the same value in it are a group.
        numbers: the rows to take, from 0.

    Raises:
        DataError: a row has no value.
    """
    digests, taken = bytearray(), array("q")
    for number in numbers:
        digests += digest_of_value(rows[number], column)
        taken.append(number)
    groups: dict[int, array[int]] = {}
    for place, first in enumerate(first_equals(bytes(digests), KEY_BYTES)):
        groups.setdefault(first, array("q")).append(taken[place])
    return list(groups.values())
