"""The prompts and responses of a scored file, whoever wrote them: the input's columns, or the policy that was sampled.

Guarantees: a row is read when it is asked for. Thinking is no part of a response, unless it is asked for: then it
stands before it between `<think>` and `</think>`, as the chat templates of Qwen3 and DeepSeek-R1 write it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import orjson

from judgegym.data.rows import Row
from judgegym.datasets.files.columns import BAD_ROW, RESPONSE, STATUS, THINKING
from judgegym.datasets.files.scored import ScoredRow, ScoredRows, read_scored
from judgegym.datasets.rows.schema import RESPONSES_OF_ROW, ColumnSettings, read_responses, read_turns
from judgegym.datasets.rows.unit import KEY_BYTES, digest_of, digest_of_value
from judgegym.datasets.select.candidates import Candidates, PromptWithResponses, Turns, as_turns
from judgegym.judges.core.turns import answer_text, text_turn
from judgegym.judges.parsing.thinking import CLOSE, OPEN
from judgegym.llm.errors import DataError

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
