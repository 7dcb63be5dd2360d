"""The responses of a scored file as numbers, gathered by prompt.

Guarantee: memory holds some thirty bytes for each response and no text, however long the texts are; those that are
selected are read again when they are written.

The prompt and the responses of a row as turns, which the judge was shown as texts.

Guarantee: written as a text, the turns are what the judge saw. Messages of the row stay messages, with their system
turns and the turns of tools; a text is one turn. What is no message in the row (columns that are joined, for example)
is one turn with the text that the judge saw.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from judgegym.data.preference_schemas import turns_of_prompt
from judgegym.data.rows import value_at
from judgegym.datasets.rows.unit import KEY_BYTES, digest_of, first_equals
from judgegym.judges.core.turns import Turn, answer_text, text_turn, transcript, turns_of, turns_of_transcript
from judgegym.llm.wire import JSON

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


Turns: TypeAlias = "tuple[Turn, ...]"


@dataclass(frozen=True, slots=True)
class PromptWithResponses:
    """A prompt and its responses, each as turns."""

    prompt: Turns
    responses: tuple[Turns, ...]


def as_turns(
    values: Mapping[str, JSON], columns: Sequence[str], prompt: str, texts: Sequence[str], turns: Turns = ()
) -> PromptWithResponses:
    """Find the turns of a row's prompt and responses.

    Args:
        values: the row's columns.
        columns: those that hold prompt and responses, in this order.
        prompt: the prompt as the judge saw it.
        texts: the responses.
        turns: of the prompt, if they are known.
    """
    found = [value for column in columns if (value := value_at(values, column)) is not None]
    asked = turns or _prompt(found, prompt)
    conversations = tuple(_conversations(found))
    return PromptWithResponses(asked, tuple(_response(conversations, text) for text in texts))


def _prompt(values: Sequence[JSON], prompt: str) -> Turns:
    """The turns that say the prompt: a column's, the first ones of a conversation, or those of a column and these."""
    explicit: Turns = ()
    for value in values:
        for turns in filter(None, (_asked(value), _talked(value))):
            for before in (explicit, ()) if explicit else ((),):
                said = _beginning((*before, *turns), prompt)
                if said is not None:
                    return said
        explicit = explicit or _asked(value) or ()
    return (text_turn("user", prompt),)


def _beginning(turns: Turns, prompt: str) -> Turns | None:
    """The first turns that say the prompt; `None` if none do."""
    length = sum(len(turn.shown) for turn in turns)
    for end in range(len(turns), 0, -1):
        if length <= len(prompt) and transcript(turns[:end]) == prompt:
            return turns[:end]
        length -= len(turns[end - 1].shown)
    return None


def _asked(value: JSON) -> Turns | None:
    return turns_of_prompt(value) if isinstance(value, str | Sequence | Mapping) else None


def _talked(value: JSON) -> Turns | None:
    return turns_of_transcript(value) if isinstance(value, str) else None


def _conversations(values: Sequence[JSON]) -> Iterator[Turns]:
    """All conversations of several turns in the columns, or in the lists that they hold."""
    for value in values:
        several = [] if isinstance(value, str | Mapping) or not isinstance(value, Sequence) else value
        for each in (value, *several):
            turns = turns_of_transcript(each) if isinstance(each, str) else turns_of(each)
            if turns and len(turns) > 1:
                yield turns


def _response(conversations: Sequence[Turns], text: str) -> Turns:
    """The turns that say a response: a whole conversation, or the end of one; or the text as one turn."""
    for turns in conversations:
        length, first = 0, len(turns)
        while first > 0 and length <= len(text):
            first -= 1
            length += len(turns[first].shown)
            rest = turns[first:]
            if len(rest) > 1 and length <= len(text) and answer_text(rest) == text:
                return rest
    return (text_turn("assistant", text),)
