"""The prompt of a row: as one text for a judge, and as turns for a policy that is asked.

Which columns of a data set hold what the judge sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from pydantic import BaseModel

from judgegym.data.preference_schemas import prompt_of_pair, turns_of_prompt
from judgegym.data.prompts import CONVERSATIONS, PROMPTS, parts_of_prompt, whole_prompt
from judgegym.data.rows import Row, named_row, value_at
from judgegym.judges.config.fields import setting
from judgegym.judges.core.turns import Turn, text_turn, transcript
from judgegym.llm.wire import JSON

_JOINED = "; several columns, separated by commas, are joined by blank lines"


class ColumnSettings(BaseModel):
    """The columns of a data set. What is not named is found by its usual names (`responses.py`)."""

    help_group: ClassVar[str] = "data"

    split: str = setting("train", "Take this split of a data set of the Hugging Face hub.")
    prompt_column: str | None = setting(
        None, f"Take the prompt from this column: a text, or messages{_JOINED}.", common=True
    )
    response_column: str | None = setting(
        None,
        "Take the response from this column: a text or messages, or a list of them for several responses to one "
        "prompt. Several columns, separated by commas, are several responses.",
    )
    reference_column: str | None = setting(
        None,
        "Take a response that deserves the highest score from this column, where it has one. If unset, from reference.",
    )
    rubric_column: str | None = setting(
        None,
        "Take the rubric of a row from this column, where it has one, instead of --rubric. If unset, from rubric.",
    )
    baseline_column: str | None = setting(
        None,
        "Take the response to compare with from this column, where it has one (judge arena_hard and others). If unset, "
        "from baseline.",
    )
    aspects_column: str | None = setting(
        None,
        "Take the aspects of a row from this column, where it has any, instead of --aspects (judge aspect): names, or "
        "objects with name and definition. If unset, from aspects.",
    )
    context_column: str | None = setting(
        None,
        "Take the text, or the list of texts, that a response should be based on from this column, where it has one "
        "(judges aspect, listwise, tournament). If unset, these judges take it from context.",
    )
    category_column: str | None = setting(
        None, "Report the scores by the values of this column, such as the source of a row.", common=True
    )
    group_by: str | None = setting(
        None,
        "Judge rows together that have the same value in this column, each with one response, with a judge that "
        "compares responses. They may stand anywhere in the data.",
    )


_USUAL = (*PROMPTS, *CONVERSATIONS)

Values: TypeAlias = Mapping[str, JSON]
"""The columns of a row that are not null."""


@dataclass(frozen=True, slots=True)
class RowPrompt:
    """A prompt.

    Attributes:
        turns: the conversation so far; a text is a turn of the user.
        columns: where it was read.
        parts: the columns that belong to it where a row has them.
    """

    turns: tuple[Turn, ...]
    columns: tuple[str, ...]
    parts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The prompt as one text."""
        return transcript(self.turns)


def names(setting: str) -> tuple[str, ...]:
    """The columns that a setting names, separated by commas."""
    return tuple(name.strip() for name in setting.split(",") if name.strip())


def find_prompt(row: Row, values: Values, settings: ColumnSettings, taken: Sequence[str]) -> RowPrompt | None:
    """The prompt in the columns that are named, or in the first usual one that is not taken; `None` without one.

    Several columns are one turn of the user, joined by blank lines.

    Raises:
        DataError: a column that is named holds something else.
    """
    if settings.prompt_column is None:
        return usual_prompt(values, taken)
    columns = names(settings.prompt_column)
    found: list[tuple[Turn, ...]] = []
    for column in columns:
        value = value_at(values, column)
        turns = None if value is None else turns_of_prompt(value)
        if turns is None and isinstance(row.values.get(column), str):
            turns = turns_of_prompt(row.values[column])  # a text that looks like a list
        if (column not in row.values and value is None) or (turns is None and value is not None):
            raise row.lacks(f"a prompt (a text or messages) in {column}", column)
        found += [turns] if turns and transcript(turns) else []
    if len(found) > 1:
        return RowPrompt((text_turn("user", "\n\n".join(map(transcript, found))),), columns)
    return RowPrompt(found[0], columns) if found else None


def usual_prompt(values: Values, taken: Sequence[str]) -> RowPrompt | None:
    """The prompt in the first of the usual columns that is not taken; `None` without one.

    Of a conversation it is what precedes an answer at its end, which may be the very response, or the expected one.
    """
    for column in _USUAL:
        turns = turns_of_prompt(values[column]) if column in values and column not in taken else None
        if turns and column in CONVERSATIONS:
            turns = _without_answer(turns)
        if turns:
            parts = tuple(part for part in parts_of_prompt(column, turns) if part not in taken)
            given = {part: values[part] for part in parts if part in values}
            return RowPrompt(whole_prompt(given, column, turns), (column,), parts)
    return None


def lacks_prompt(row: Row) -> Exception:
    """The error of a row without a prompt."""
    return row.lacks(f"a prompt, a text or messages, in {' or '.join(PROMPTS)}; or name the column: --prompt_column")


def read_turns(row: Row, settings: ColumnSettings) -> RowPrompt:
    """The prompt that a policy is asked, whose turns can be written as messages; see `_read_turns`.

    Raises:
        DataError: it has none.
    """
    with named_row(row):
        found = _read_turns(row, settings)
        for turn in found.turns:
            turn.message()
    return found


def _read_turns(row: Row, settings: ColumnSettings) -> RowPrompt:
    """The prompt that a policy is asked: what precedes an answer that the row may have.

    That is the column which is named; or what `chosen` and `rejected` both begin with; or a usual column.

    Raises:
        DataError: it has none.
    """
    values = row.filled()
    found = None
    if settings.prompt_column is None and "chosen" in values and "rejected" in values:
        shared = prompt_of_pair(values)
        columns = tuple(column for column in ("prompt", "chosen", "rejected") if column in values)
        found = None if shared is None else RowPrompt(shared, columns)
    found = found or find_prompt(row, values, settings, ())
    if found is not None:
        found = replace(found, turns=_without_answer(found.turns))
    if found is None or not any(turn.shown.strip() for turn in found.turns if turn.role != "system"):
        raise lacks_prompt(row)
    return found


def _without_answer(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The turns without those of the assistant at the end: what it answered is what is asked for."""
    while turns and turns[-1].role == "assistant":
        turns = turns[:-1]
    return turns
