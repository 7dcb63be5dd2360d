"""Rows that are judged together because they have the same value in a column."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

import orjson

from environments.data.rows import Row
from judgegym.datasets.rows.equal import first_equals

_BYTES = 16


def groups_of(rows: Sequence[Row], column: str, numbers: range) -> list[Sequence[int]]:
    """The numbers of the rows of each group, in the order of the groups' first rows.

    Args:
        rows: the whole data set.
        column: rows with the same value in it are a group.
        numbers: the rows to take, from 0.

    Raises:
        DataError: a row has no value.
    """
    digests = bytearray()
    for number in numbers:
        value = rows[number].values.get(column)
        if value is None:
            raise rows[number].lacks(f"a value in {column} (--group_by)")
        digests += hashlib.blake2b(orjson.dumps(value, default=str), digest_size=_BYTES).digest()
    groups: dict[int, array[int]] = {}
    for place, first in enumerate(first_equals(bytes(digests), _BYTES)):
        groups.setdefault(first, array("q")).append(numbers[place])
    return list(groups.values())
