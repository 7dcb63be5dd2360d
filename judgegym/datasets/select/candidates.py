"""The responses of a scored file, grouped by prompt.

Guarantee: memory holds no text; selected texts are read again when they are written.

Prompts and responses are read as turns. Guarantee: as a text, the turns are what the judge saw.
Messages of the row stay messages, with system turns and tool turns. Anything else (a text, joined
columns) is one turn with the text that the judge saw.

Responses come from the input's columns, or from the policy that was sampled. Guarantees: a row is
read on access. Thinking is not part of a response, unless `keep_thinking` is set: then it precedes
the response between `<think>` and `</think>`, as the chat templates of Qwen3 and DeepSeek-R1 write
it.
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
"""Scores are rounded to this many decimals, so that 0.7 and 0.5 differ by 0.2."""


@dataclass(frozen=True, slots=True)
class ResponseCandidate:
    """A response that could be selected; its text is not kept.

    Attributes:
        row: the number of its row, from 0.
        number: its number in the row, from 0.
        score: from 0 to 1; `None` if it has none.
        status: how judging ended.
        length: the length of its text, in characters.
        text: a digest of its text.
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
        """Make a candidate of a response."""
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
        key: a digest of the prompt, or of the value by which rows are grouped.
        candidates: the responses, in the order of the file.
    """

    key: bytes
    candidates: list[ResponseCandidate] = field(default_factory=list)


Turns: TypeAlias = "tuple[Turn, ...]"

_CACHED_ROWS = 16
"""The number of cached rows: the pairs of one prompt read them repeatedly."""


class ScoredTexts:
    """The rows of a scored file with their texts.

    `columns`, `statuses`, `has_tools` and `orders` are filled by `groups`.

    Attributes:
        rows: the rows, without parsed texts.
        read: reads a row, by number from 0; it raises `DataError` if the row has no prompt, or
            other responses than were judged.
        sampled: the responses were sampled by `judgegym score`.
        columns: the names of the columns of all rows.
        statuses: the counts of the responses' statuses.
        has_tools: a prompt has tool definitions.
        orders: for each response whose judge records it, the share of its pairs on which both
            orders of the answers agree.
    """

    def __init__(self, path: Path, columns: ColumnSettings, *, keep_thinking: bool = False) -> None:
        """Open a file.

        Args:
            path: a file that `judgegym score` has written.
            columns: the columns of prompts and responses with which it was judged.
            keep_thinking: put the thinking of sampled responses before them.

        Raises:
                DataError: it is not a scored file, a column is missing, or there is no thinking to
                    keep.
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
            DataError: the row has no prompt or no responses, or other responses than were judged.
        """
        scored = self.rows[number]
        row = scored.row
        row_responses = self._read_responses(row)
        count = len(row_responses.texts)
        status_count = len(scored.status)
        if count != status_count:
            raise DataError(
                f"{row.place}: has {count} responses, and {STATUS} has {status_count} entries; "
                "name the columns with which it was judged: --prompt_column, --response_column"
            )
        return scored, row_responses

    def _read_responses(self, row: Row) -> Responses:
        if self.is_sampled:
            return self._read_sampled(row)
        return read_responses(row, self._columns)

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
        """Group all responses by prompt, or by the value of a column.

        Prompts with different images, tools or contexts are different, even with the same words. A
        row with a list of responses is a group of its own, unless rows are grouped by a column.

        Raises:
            DataError: a row cannot be read, or rows with the same value have other prompts.
        """
        column, several = self._columns.group_by, self.rows[0].several
        groups: dict[bytes | int, Group] = {}
        firsts: dict[bytes, tuple[int, bytes]] = {}
        for number, scored in enumerate(self.rows):
            self._count_statuses(scored)
            if BAD_ROW in scored.status:  # it has no readable response
                groups[number] = Group(b"")
                continue
            _, row_responses = self.read(number)
            self.has_tools |= bool(row_responses.tools)
            if scored.several != several:
                raise DataError(
                    f"{scored.row.place}: has {RESPONSES_OF_ROW[scored.several]}, and the first "
                    f"row has {RESPONSES_OF_ROW[several]}; expected the same in all rows"
                )
            # A prompt is more than its words: images, tools and context belong to it.
            prompt_content: list[object] = [
                [turn.heading, turn.shown, *(image.name for image in turn.images)]
                for turn in row_responses.turns
            ]
            prompt_content += [tool.shown for tool in row_responses.tools]
            prompt = digest_text(orjson.dumps(prompt_content, default=str))
            context = scored.row.value(self._columns.context_column or "context")
            prompt_content += [] if context is None else [context]
            if column is None:
                key = digest_text(orjson.dumps(prompt_content, default=str))
            else:
                key = digest_group_value(scored.row, column)
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
    """Return the texts of a list, "" for null (where the policy failed)."""
    value = row.values.get(column)
    if not isinstance(value, list) or not all(
        text is None or isinstance(text, str) for text in value
    ):
        raise row.missing_error(f"a list of texts in {column}")
    return [str(text or "") for text in value]
