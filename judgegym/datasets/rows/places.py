"""Where each response of a data set is among all: places in the order of the rows, and the units that they are of."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence


class ResponseIndex:
    """The places of the responses of some rows; memory holds eight bytes for each row at most."""

    def __init__(
        self, numbers: range, groups: Sequence[Sequence[int]] | None, counts: Sequence[int] | None, *, several: bool
    ) -> None:
        """Place the responses of rows after each other.

        Args:
            numbers: the rows, from 0.
            groups: the rows of each unit, if that is not a row each.
            counts: how many responses each row has; `None` if each has one.
            several: the rows have lists of responses.
        """
        self._numbers = numbers
        self._groups = groups
        self._several = several
        self._starts: array[int] | None = None
        self._unit_of_row = array("q")
        self.count = len(numbers)
        """How many responses there are."""
        if counts is not None:
            self._starts = array("q", [0])
            for count in counts:
                self._starts.append(self._starts[-1] + count)
            self.count = self._starts[-1]
        if groups is not None:
            self._unit_of_row = array("q", [0]) * len(numbers)
            for unit, rows in enumerate(groups):
                for row in rows:
                    self._unit_of_row[row - numbers.start] = unit

    def of_unit(self, unit: int) -> Sequence[int]:
        """The places of a unit's responses, in their order."""
        if self._groups is not None:
            return [place for row in self._groups[unit] for place in self.of_row(row)]
        return self.of_row(self._numbers[unit])

    def of_row(self, row: int) -> range:
        """The places of a row's responses; none for a row that cannot be judged."""
        place = row - self._numbers.start
        return range(place, place + 1) if self._starts is None else range(self._starts[place], self._starts[place + 1])

    def first_of_row(self, row: int) -> int | None:
        """The place of a row's first response; `None` for a row that is not among these."""
        return next(iter(self.of_row(row)), None) if row in self._numbers else None

    def find(self, row: int, number: int | None) -> int | None:
        """The place of a response: the row's only one (`None`), or the one with a number from 0; `None` without one."""
        if row not in self._numbers or (number is None) is self._several:
            return None
        found = self.of_row(row)
        return found[number or 0] if (number or 0) < len(found) else None

    def unit(self, place: int) -> int:
        """The unit of the response at a place."""
        index = place if self._starts is None else bisect_right(self._starts, place) - 1
        return index if self._groups is None else self._unit_of_row[index]

    def row(self, place: int) -> tuple[int, int]:
        """The row of the response at a place, and its number among the row's responses."""
        if self._starts is None:
            return self._numbers[place], 0
        index = bisect_right(self._starts, place) - 1
        return self._numbers[index], place - self._starts[index]
