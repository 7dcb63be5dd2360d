"""The units of a data set: what is judged together, a row or the rows of a group.

Guarantees: every row is read once before the first call, so that one that cannot be judged is an error that names it;
units that are equal for their judge are found then. Memory holds some forty bytes for each row, and no text: a unit is
read again when it is asked for.
"""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import overload

from environments.data.rows import Row
from environments.runs.response_uids import uid_of_row
from judgegym.datasets.rows.columns import ColumnSettings
from judgegym.datasets.rows.equal import KEY_BYTES, first_equals
from judgegym.datasets.rows.groups import groups_of
from judgegym.datasets.rows.places import Places
from judgegym.datasets.rows.reader import ReadEarlier, RowReader
from judgegym.datasets.rows.unit import Unit
from judges.llm.errors import DataError
from judges.scorers.fields import ITEM_FIELDS
from judges.scorers.items import Item
from judges.scorers.scorer import ItemError

logger = logging.getLogger(__name__)

_SAID_EVERY_S = 10.0
_SOME = "a response that will be sampled"


class Units(Sequence[Unit]):
    """The units of some rows of a data set, in the order of their first rows.

    Attributes:
        reader: reads the rows.
        numbers: the rows, from 0.
        several: each row has a list of responses.
        places: where the responses are among all.
        first_equal: for each unit the first one that is equal to it, which is judged for both; each is its own first
            where responses are sampled, since those of equal prompts are independent.
        empty: how many responses are empty, and are not judged.
        chosen: of each unit how many of its responses, the first ones, are preferred to the others; empty without any.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        settings: ColumnSettings,
        check: Callable[[Item], None],
        numbers: range | None = None,
        *,
        sampled: int | None = None,
        earlier: ReadEarlier | None = None,
    ) -> None:
        """Read all rows.

        Args:
            rows: the whole data set.
            settings: its columns.
            check: raises `ItemError` for an item that its judge cannot judge.
            numbers: the rows to take, from 0; by default all.
            sampled: so many responses to each prompt are asked for, and those of the data are not read.
            earlier: reads the responses of a row, where they are those that an earlier run has sampled.

        Raises:
            DataError: a row cannot be judged; the message names it.
        """
        self.reader = RowReader(rows, settings, sampled, earlier)
        self.several = self.reader.first.several
        self.numbers = range(len(rows)) if numbers is None else numbers
        if settings.group_by is not None and self.several:
            raise DataError("--group_by: each row has several responses, which are judged together by themselves")

        self._groups = None if settings.group_by is None else groups_of(rows, settings.group_by, self.numbers)
        self.places = Places(self.numbers, self._groups)
        self.empty = 0
        self.chosen = array("I")
        keys, counts = bytearray(), array("q")
        for unit in _told(self):
            self._check(unit, check)
            keys += unit.key
            self.empty += sum(not response.strip() for response in unit.item.responses)
            if self.several:
                counts.append(unit.count)
                self.chosen.append(unit.chosen)
        if self.several:
            self.places.set_several(counts)
        if not any(self.chosen):
            self.chosen = array("I")
        self._keys = bytes(keys)
        self.first_equal = first_equals(self._keys, KEY_BYTES) if sampled is None else array("q", range(len(self)))

    def _check(self, unit: Unit, check: Callable[[Item], None]) -> None:
        item = unit.item
        if unit.to_sample is not None:
            item = replace(item, responses=(_SOME,) * unit.count)
        if not any(response.strip() for response in item.responses):
            return  # nothing is asked about it
        try:
            check(item)
        except ItemError as error:
            row = self.reader.rows[unit.rows[0]]
            raise DataError(f"{row.place}: {error}") from None

    @property
    def are_groups(self) -> bool:
        """Whether a unit has several rows, of one response each."""
        return self._groups is not None

    def __len__(self) -> int:
        """How many units there are."""
        return len(self.numbers) if self._groups is None else len(self._groups)

    @overload
    def __getitem__(self, index: int) -> Unit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Unit]: ...
    def __getitem__(self, index: int | slice) -> Unit | Sequence[Unit]:
        """Read a unit, or several."""
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self[place] for place in places]
        if self._groups is None:
            return self.reader.unit(self.numbers[places])
        return _together([self.reader.unit(number) for number in self._groups[places]], self.reader)

    def __iter__(self) -> Iterator[Unit]:
        """Read all units, one after the other."""
        return (self[place] for place in range(len(self)))

    def uid(self, index: int) -> str:
        """The id of a unit in the ledger, without reading it."""
        return uid_of_row(self.numbers[index] if self._groups is None else self._groups[index][0])

    def key(self, index: int) -> bytes:
        """The digest of a unit, without reading it."""
        return self._keys[index * KEY_BYTES : (index + 1) * KEY_BYTES]


def _told(units: Sequence[Unit]) -> Iterator[Unit]:
    """All units, one after the other; the log says now and then how many have been read."""
    said_at = time.monotonic()
    for number, unit in enumerate(units):
        if time.monotonic() - said_at > _SAID_EVERY_S:
            said_at = time.monotonic()
            logger.info("reading, and checking before the first call: %s of %s", f"{number:,}", f"{len(units):,}")
        yield unit


def _together(units: Sequence[Unit], reader: RowReader) -> Unit:
    """The unit of a group: the item of its first row, with the response of each row.

    Raises:
        DataError: the rows have other prompts, references, rubrics, baselines or contexts.
    """
    first = units[0]
    for unit in units[1:]:
        for name in ("prompt", "levels", *ITEM_FIELDS):
            if getattr(unit.item, name) != getattr(first.item, name):
                row, column = reader.rows[unit.rows[0]], reader.settings.group_by
                raise DataError(
                    f"{row.place}: has the same {column} (--group_by) as row {first.rows[0] + 1}, and another {name}"
                )
    item = replace(first.item, responses=tuple(unit.item.response for unit in units))
    rows = tuple(unit.rows[0] for unit in units)
    return Unit(rows, item, False, tuple(unit.category[0] for unit in units))
