"""The responses of a scored file as numbers, gathered by prompt.

Guarantee: memory holds some thirty bytes for each response and no text, however long the texts are; those that are
selected are read again when they are written.

The prompt and the responses of a row as turns, which the judge was shown as texts.

Guarantee: written as a text, the turns are what the judge saw. Messages of the row stay messages, with their system
turns and the turns of tools; a text is one turn. What is no message in the row (columns that are joined, for example)
is one turn with the text that the judge saw.

The prompts and responses of a scored file, whoever wrote them: the input's columns, or the policy that was sampled.

Guarantees: a row is read when it is asked for. Thinking is no part of a response, unless it is asked for: then it
stands before it between `<think>` and `</think>`, as the chat templates of Qwen3 and DeepSeek-R1 write it.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import orjson

from judgegym.data.pairs import turns_of_prompt
from judgegym.data.rows import Row, value_at
from judgegym.datasets.files.columns import BAD_ROW, RESPONSE, STATUS, THINKING
from judgegym.datasets.files.writer import ScoredRow, ScoredRows, read_scored
from judgegym.datasets.rows.schema import RESPONSES_OF_ROW, ColumnSettings, read_responses, read_turns
from judgegym.datasets.rows.task import KEY_BYTES, digest_of, digest_of_value, first_equals
from judgegym.judges.core.turns import Turn, answer_text, text_turn, transcript, turns_of, turns_of_transcript
from judgegym.judges.parsing.thinking import CLOSE, OPEN
from judgegym.llm.errors import DataError
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


_AT_HAND = 16
"""So many rows are kept: the pairs of one prompt read them again and again."""


class ScoredTexts:
    """The rows of a scored file with their texts.

    Attributes:
        rows: the rows, without them.
        read: reads a row, from 0. It raises `DataError` for one that has no prompt, or other responses than were
            judged.
    """

    def __init__(self, path: Path, columns: ColumnSettings, *, keep_thinking: bool = False) -> None:
        """Open a file.

        Args:
            path: what `judgegym score` has written.
            columns: where prompts and responses are; the columns with which it was judged.
            keep_thinking: put the thinking of sampled responses before them.

        Raises:
            DataError: it is no scored file, a column is not there, or there is no thinking to keep.
        """
        self.rows: ScoredRows = read_scored(path)
        self.columns = columns
        first = self.rows[0].row
        self.sampled = RESPONSE in first.values
        self.keep_thinking = keep_thinking
        self.read = lru_cache(_AT_HAND)(self._read)
        if keep_thinking and THINKING not in first.values:
            raise first.lacks(f"thinking of a sampled policy, in {THINKING} (--keep_thinking)")
        if columns.group_by is not None and first.value(columns.group_by) is None:
            raise first.lacks(f"a column {columns.group_by} (--group_by)")

    def _read(self, number: int) -> tuple[ScoredRow, PromptWithResponses]:
        """Read a row, from 0.

        Raises:
            DataError: it has no prompt or no responses, or other ones than were judged.
        """
        scored = self.rows[number]
        answered = self._sampled(scored.row) if self.sampled else self._own(scored.row)
        if len(answered.responses) != len(scored.status):
            raise DataError(
                f"{scored.row.place}: has {len(answered.responses)} responses, and {STATUS} has {len(scored.status)} "
                "entries; name the columns with which it was judged: --prompt_column, --response_column"
            )
        return scored, answered

    def _own(self, row: Row) -> PromptWithResponses:
        found = read_responses(row, self.columns)
        return as_turns(row.filled(), found.columns, found.prompt, found.texts, found.turns)

    def _sampled(self, row: Row) -> PromptWithResponses:
        texts = _texts(row, RESPONSE)
        responses = tuple((text_turn("assistant", text),) for text in texts)
        answered = PromptWithResponses(read_turns(row, self.columns).turns, responses)
        if not self.keep_thinking:
            return answered
        thoughts = _texts(row, THINKING)
        if len(thoughts) != len(texts):
            raise DataError(f"{row.place}: {RESPONSE} has {len(texts)} entries, and {THINKING} {len(thoughts)}")
        pairs = zip(answered.responses, thoughts, strict=True)
        return replace(answered, responses=tuple(_thought(turns, thought) for turns, thought in pairs))

    def candidates(self, see: Callable[[ScoredRow], None] = lambda row: None) -> Candidates:
        """All responses as numbers, gathered by prompt: the rows with equal prompts, or with equal values of a column.

        A row with a list of responses is a prompt of its own, unless a column gathers rows.

        Args:
            see: is called with each row.

        Raises:
            DataError: a row cannot be read, or rows with the same value have other prompts.
        """
        found, column = Candidates(), self.columns.group_by
        several = self.rows[0].several
        prompts = bytearray()
        for number in range(len(self.rows)):
            if BAD_ROW in self.rows[number].status:  # it has no response that could be read
                see(self.rows[number])
                prompt = digest_of(f"row {number}".encode())
                prompts += prompt
                found.add(prompt, [])
                continue
            scored, answered = self.read(number)
            if scored.several != several:
                raise DataError(
                    f"{scored.row.place}: has {RESPONSES_OF_ROW[scored.several]}, and the first row has "
                    f"{RESPONSES_OF_ROW[several]}; expected the same in all rows"
                )
            see(scored)
            prompt = digest_of(orjson.dumps([[turn.heading, turn.shown] for turn in answered.prompt]))
            prompts += prompt
            key = prompt if column is None else digest_of_value(scored.row, column)
            texts = map(answer_text, answered.responses)
            found.add(key, list(zip(scored.score, scored.status, texts, strict=True)))
        found.gather(by_key=column is not None or not several)
        if column is not None:
            self._check_prompts(found, bytes(prompts), column)
        return found

    def _check_prompts(self, found: Candidates, prompts: bytes, column: str) -> None:
        for rows in found.rows_of_groups():
            digests = [prompts[row * KEY_BYTES : (row + 1) * KEY_BYTES] for row in rows]
            other = next((row for row, digest in zip(rows, digests, strict=True) if digest != digests[0]), None)
            if other is not None:
                raise DataError(
                    f"{self.rows[other].row.place}: has the same {column} (--group_by) as row {rows[0] + 1}, and "
                    "another prompt"
                )


def _texts(row: Row, column: str) -> Sequence[str]:
    """The texts of a list; "" for null: the policy failed there."""
    value = row.values.get(column)
    if not isinstance(value, list) or not all(each is None or isinstance(each, str) for each in value):
        raise row.lacks(f"a list of texts in {column}")
    return [str(each or "") for each in value]


def _thought(turns: Turns, thinking: str) -> Turns:
    """A response with its thinking before it, if it has any."""
    if not thinking:
        return turns
    first, *rest = turns
    text = f"{OPEN}\n{thinking}\n{CLOSE}\n\n{first.text}"
    return (replace(first, text=text, shown=text), *rest)
