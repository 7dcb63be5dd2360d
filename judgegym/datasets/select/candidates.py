"""The responses of a scored file, gathered by prompt.

Guarantee: memory holds no text, however long the texts are; those that are selected are read again
when they are written.

The prompt and the responses of a row as turns, which the judge was shown as texts.

Guarantee: written as a text, the turns are what the judge saw. Messages of the row stay messages,
with their system turns and the turns of tools; a text is one turn. What is no message in the row
(columns that are joined, for example) is one turn with the text that the judge saw.

The prompts and responses of a scored file, whoever wrote them: the input's columns, or the policy
    that was sampled.

Guarantees: a row is read when it is asked for. Thinking is no part of a response, unless it is
asked for: then it stands before it between `<think>` and `</think>`, as the chat templates of Qwen3
and DeepSeek-R1 write it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import orjson

from judgegym.data.rows import Row
from judgegym.datasets.files.columns import BAD_ROW, RESPONSE, STATUS, THINKING
from judgegym.datasets.files.writer import ScoredRow, read_scored
from judgegym.datasets.rows.schema import (
    RESPONSES_OF_ROW,
    ColumnSettings,
    Responses,
    read_responses,
    read_turns,
)
from judgegym.datasets.rows.task import digest_group_value, digest_text
from judgegym.judges.conversations.turns import Turn, completion_text
from judgegym.judges.parsing.thinking import CLOSE, OPEN
from judgegym.llm.errors import DataError

DECIMALS = 9
"""Scores are compared to so many decimals, so that 0.7 and 0.5 differ by 0.2."""


@dataclass(frozen=True, slots=True)
class ResponseCandidate:
    """A response, of which no text is held.

    Attributes:
        row: its row, from 0.
        number: which of the row's responses, from 0.
        score: from 0 to 1; `None` if it has none.
        status: how judging ended.
        length: of its text, in characters.
        text: a digest, the same for equal texts.
    """

    row: int
    number: int
    score: float | None
    status: str
    length: int
    text: bytes

    @classmethod
    def from_response(
        cls, row: int, number: int, score: float | None, status: str, text: str
    ) -> ResponseCandidate:
        """Keep the numbers of a response."""
        digest = digest_text(text.encode("utf-8", "surrogatepass"), 8)
        return cls(
            row,
            number,
            None if score is None else round(score, DECIMALS),
            status,
            len(text),
            digest,
        )


@dataclass(frozen=True, slots=True)
class Group:
    """The responses to one prompt.

    Attributes:
        key: a digest of the prompt, or of the column's value by which rows are grouped.
        candidates: the responses, in the order of the file.
    """

    key: bytes
    candidates: list[ResponseCandidate] = field(default_factory=list)


Turns: TypeAlias = "tuple[Turn, ...]"

_CACHED_ROWS = 16
"""So many rows are kept: the pairs of one prompt read them again and again."""


class ScoredTexts:
    """The rows of a scored file with their texts.

    Attributes:
        rows: the rows, without them.
        read: reads a row, from 0. It raises `DataError` for one that has no prompt, or other
            responses than were judged.
        sampled: the responses were sampled by `judgegym score`.
        columns: the names of the columns of all rows, once `groups` has read them; rows of JSON
            have their own.
        statuses: how the responses of all rows ended, likewise.
        has_tools: a prompt has definitions of tools, likewise.
        orders: for each response whose judge says so, the share of its pairs on which two orders of
            the answers agree.
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
        self.rows = read_scored(path)
        self._columns, self._keep_thinking = columns, keep_thinking
        self.columns, self.statuses, self.orders = dict[str, None](), Counter[str](), list[float]()
        self.has_tools = False
        first = self.rows[0].row
        self.is_sampled = RESPONSE in first.values
        self.read = lru_cache(_CACHED_ROWS)(self._read)
        if keep_thinking and THINKING not in first.values:
            raise first.missing_error(
                f"thinking of a sampled policy, in {THINKING} (--keep_thinking)"
            )
        if columns.group_by is not None and first.value(columns.group_by) is None:
            raise first.missing_error(f"a column {columns.group_by} (--group_by)")

    def _read(self, number: int) -> tuple[ScoredRow, Responses]:
        """Read a row, from 0.

        Raises:
            DataError: it has no prompt or no responses, or other ones than were judged.
        """
        scored = self.rows[number]
        row = scored.row
        row_responses = (
            self._read_sampled(row) if self.is_sampled else read_responses(row, self._columns)
        )
        if len(row_responses.texts) != len(scored.status):
            raise DataError(
                f"{row.place}: has {len(row_responses.texts)} responses, and {STATUS} has "
                f"{len(scored.status)} "
                "entries; name the columns with which it was judged: --prompt_column, "
                "--response_column"
            )
        return scored, row_responses

    def _read_sampled(self, row: Row) -> Responses:
        texts = _read_texts(row, RESPONSE)
        thoughts = _read_texts(row, THINKING) if self._keep_thinking else [""] * len(texts)
        if len(thoughts) != len(texts):
            raise DataError(
                f"{row.place}: {RESPONSE} has {len(texts)} entries, and {THINKING} {len(thoughts)}"
            )
        texts_with_thinking = (
            f"{OPEN}\n{thought}\n{CLOSE}\n\n{text}" if thought else text
            for text, thought in zip(texts, thoughts, strict=True)
        )
        return replace(read_turns(row, self._columns), texts=tuple(texts_with_thinking))

    def groups(self) -> list[Group]:
        """Return all responses, gathered by prompt: of rows with equal prompts, or with equal values of a column.

        Prompts with other images, tools or contexts are not equal, whatever their words.

        A row with a list of responses is a prompt of its own, unless a column gathers rows.

        Raises:
            DataError: a row cannot be read, or rows with the same value have other prompts.
        """
        column, several = self._columns.group_by, self.rows[0].several
        groups: dict[bytes | int, Group] = {}
        firsts: dict[bytes, tuple[int, bytes]] = {}
        for number, scored in enumerate(self.rows):
            self._count_statuses(scored)
            if BAD_ROW in scored.status:  # it has no response that could be read
                groups[number] = Group(b"")
                continue
            _, row_responses = self.read(number)
            self.has_tools |= bool(row_responses.tools)
            if scored.several != several:
                raise DataError(
                    f"{scored.row.place}: has {RESPONSES_OF_ROW[scored.several]}, and the first "
                    "row has "
                    f"{RESPONSES_OF_ROW[several]}; expected the same in all rows"
                )
            # What the words of a prompt do not say is of it, too: which images, the tools, the text
            # to go by.
            prompt_content: list[object] = [
                [turn.heading, turn.shown, *(image.name for image in turn.images)]
                for turn in row_responses.turns
            ]
            prompt_content += [tool.shown for tool in row_responses.tools]
            prompt = digest_text(orjson.dumps(prompt_content, default=str))
            context = scored.row.value(self._columns.context_column or "context")
            prompt_content += [] if context is None else [context]
            key = (
                digest_text(orjson.dumps(prompt_content, default=str))
                if column is None
                else digest_group_value(scored.row, column)
            )
            first, first_prompt = firsts.setdefault(key, (number, prompt))
            if prompt != first_prompt:
                raise DataError(
                    f"{scored.row.place}: has the same {column} (--group_by) as row {first + 1}, "
                    "and another prompt"
                )
            group = groups.setdefault(number if several and column is None else key, Group(key))
            responses = zip(
                scored.score,
                scored.status,
                map(completion_text, row_responses.response_turns),
                strict=True,
            )
            group.candidates.extend(
                ResponseCandidate.from_response(number, position, *response)
                for position, response in enumerate(responses)
            )
        return list(groups.values())

    def _count_statuses(self, scored: ScoredRow) -> None:
        self.columns.update(dict.fromkeys(scored.row.values))
        self.statuses.update(scored.status)
        for number, detail in enumerate(scored.detail):
            if detail is not None and "orders_agree" in detail:
                components = scored.components(number)
                share = components.get("orders_agree") if isinstance(components, dict) else None
                self.orders += [share] if isinstance(share, float | int) else []


def _read_texts(row: Row, column: str) -> Sequence[str]:
    """Return the texts of a list; "" for null: the policy failed there."""
    value = row.values.get(column)
    if not isinstance(value, list) or not all(
        text is None or isinstance(text, str) for text in value
    ):
        raise row.missing_error(f"a list of texts in {column}")
    return [str(text or "") for text in value]
