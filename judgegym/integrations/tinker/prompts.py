"""Prompts without an environment: rows of a file, of a dataset on the hub, or of the caller.

Guarantee: each row is read once before the list is there; one that cannot be read is an error that names its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from judgegym.data.rows import DataSet, Row, by_uid, load_rows
from judgegym.data.task_list import TaskList
from judgegym.integrations.scores.requests import CellError, fields_in, plain
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON, Message

_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A prompt, and what the judge is told beside it, as in a body of `POST /v1/score`."""

    uid: str
    messages: tuple[Message, ...] = ()
    fields: Mapping[str, JSON] = field(default_factory=dict)
    category: str | None = None

    @property
    def question(self) -> str:
        """The last turn of the prompt."""
        return self.messages[-1]["content"]


def prompt_rows(prompts: str | Sequence[Mapping[str, object]]) -> TaskList[PromptRow]:
    """The rows of a file or of a dataset's name, or the rows that are given.

    Raises:
        DataError: they cannot be loaded, there are none, or one has no prompt.
    """
    if isinstance(prompts, str):
        rows = load_rows(prompts, split="train")
    else:
        rows = DataSet("prompts", [_json(number, row) for number, row in enumerate(prompts, start=1)])
    if not rows:
        raise DataError("prompts: no rows")
    return TaskList.of(by_uid(rows, numbered=True), _prompt_row)


def _json(number: int, row: Mapping[str, object]) -> Mapping[str, JSON]:
    try:
        return cast("Mapping[str, JSON]", plain(row))
    except CellError as error:
        raise DataError(f"prompts, row {number}: {error}") from None


def _prompt_row(uid: str, row: Row) -> PromptRow:
    try:
        fields = fields_in(row.values)
    except CellError as error:
        raise DataError(f"{row.place}: {error}") from None
    prompt = row.values.get("prompt")
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) and prompt.strip() else prompt
    if not isinstance(turns, list) or not turns or not all(map(_is_message, turns)):
        raise row.lacks("text, or messages of a role (system, user, assistant) and text, in prompt")
    messages = tuple(Message(role=turn["role"], content=turn["content"]) for turn in cast("list[Message]", turns))
    return PromptRow(uid, messages, fields, row.optional_text("category"))


def _is_message(turn: JSON) -> bool:
    return isinstance(turn, Mapping) and turn.get("role") in _ROLES and isinstance(turn.get("content"), str)
