"""The responses of a scored file as numbers, gathered by prompt.

Guarantee: memory holds some thirty bytes for each response and no text, however long the texts are; those that are
selected are read again when they are written.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from judgegym.datasets.rows.equal import KEY_BYTES, digest_of, first_equals

DECIMALS = 9
"""Scores are compared to so many decimals, so that 0.7 and 0.5 differ by 0.2."""


@dataclass(frozen=True, slots=True)
class ResponseCandidate:
    """A response, of which nothing but numbers is held.

    Attributes:
        place: its number among all responses of the file, from 0.
        score: from 0 to 1; `None` if it has none.
        status: how judging ended.
        length: of its text, in characters.
        text: a digest, the same for equal texts.
    """

    place: int
    score: float | None
    status: str
    length: int
    text: int


@dataclass(frozen=True, slots=True)
class Group:
    """The responses to one prompt.

    Attributes:
        key: a digest of the prompt, or of the column's value by which rows are grouped.
        candidates: the responses, in the order of the file.
    """

    key: bytes
    candidates: tuple[ResponseCandidate, ...]


class Candidates:
    """All responses of a file. `add` takes a row after the other; then `gather` makes the groups."""

    def __init__(self) -> None:
        """Know of no response yet."""
        self._scores, self._statuses = array("d"), array("B")
        self._lengths, self._texts = array("Q"), array("Q")
        self._names: list[str] = []
        self._keys = bytearray()
        self._starts = array("q", [0])
        self._rows, self._begins = array("q"), array("q")

    def add(self, key: bytes, responses: list[tuple[float | None, str, str]]) -> None:
        """Take the responses of the next row.

        Args:
            key: rows with the same one are one group; `KEY_BYTES` long.
            responses: score, status and text of each.
        """
        self._keys += key
        for score, status, text in responses:
            if status not in self._names:
                self._names.append(status)
            self._scores.append(math.nan if score is None else score)
            self._statuses.append(self._names.index(status))
            self._lengths.append(len(text))
            self._texts.append(int.from_bytes(digest_of(text.encode("utf-8", "surrogatepass"), 8), "little"))
        self._starts.append(len(self._scores))

    def gather(self, *, by_key: bool) -> None:
        """Make the groups, in the order of their first rows.

        Args:
            by_key: rows with the same key are one group; otherwise each row is one.
        """
        firsts = first_equals(bytes(self._keys), KEY_BYTES) if by_key else array("q", range(self.rows))
        self._rows = array("q", sorted(range(self.rows), key=firsts.__getitem__))
        self._begins = array("q")
        for index, row in enumerate(self._rows):
            if index == 0 or firsts[row] != firsts[self._rows[index - 1]]:
                self._begins.append(index)
        self._begins.append(self.rows)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self._starts) - 1

    def __len__(self) -> int:
        """How many responses there are."""
        return len(self._scores)

    @property
    def scores(self) -> Iterator[float]:
        """All scores, without those that failed."""
        return (score for score in self._scores if not math.isnan(score))

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self._begins) - 1

    def rows_of_groups(self) -> Iterator[array[int]]:
        """The rows of each group, in their order."""
        return (self._rows_of(index) for index in range(self.groups))

    def _rows_of(self, index: int) -> array[int]:
        return self._rows[self._begins[index] : self._begins[index + 1]]

    def group(self, index: int) -> Group:
        """The responses of a group."""
        rows = self._rows_of(index)
        first = rows[0] * KEY_BYTES
        found = (self.candidate(place) for row in rows for place in range(self._starts[row], self._starts[row + 1]))
        return Group(bytes(self._keys[first : first + KEY_BYTES]), tuple(found))

    def __iter__(self) -> Iterator[Group]:
        """All groups."""
        return map(self.group, range(self.groups))

    def candidate(self, place: int) -> ResponseCandidate:
        """A response."""
        score = self._scores[place]
        return ResponseCandidate(
            place,
            None if math.isnan(score) else round(score, DECIMALS),
            self._names[self._statuses[place]],
            self._lengths[place],
            self._texts[place],
        )

    def row(self, place: int) -> tuple[int, int]:
        """The row of a response, and its number among the row's responses; both from 0."""
        row = bisect_right(self._starts, place) - 1
        return row, place - self._starts[row]
