"""What a row asks: the usual columns of a prompt, those that belong to it, and those that nothing reads.

Guarantee: a column of a usual name that is not read beside the others is named in one line of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from judgegym.data.rows import Row
from judgegym.judges.core.turns import Turn, text_turn
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

PROMPTS = ("prompt", "question", "instruction", "query", "input", "context", "problem")
CONVERSATIONS = ("messages", "conversation", "conversations")
RESPONSES = (
    *("response", "completion", "responses", "completions", "generations", "candidates", "outputs", "generation"),
    *("model_answer", "output", "answers", "answer", "solution"),  # often what is expected, where there are others
)
SYSTEM = ("system", "system_prompt")
OF_INSTRUCTION = ("input", "context")
"""The rest of a task beside `instruction`: Alpaca's `input`, Dolly's `context`."""
_MEDIA = ("image", "images", "audio", "audios", "video", "videos", "tools")
_KNOWN = frozenset(
    (*PROMPTS, *CONVERSATIONS, *RESPONSES, *SYSTEM, *_MEDIA, "contexts", "reference", "rubric", "baseline", "aspects")
)
_LOOKED_AT = 100
"""Rows of an environment's data in which columns that nothing reads are looked for."""


def parts_of_prompt(column: str, turns: Sequence[Turn]) -> tuple[str, ...]:
    """The columns that belong to the prompt in a usual column, if the row has them; see `whole_prompt`."""
    return (*(OF_INSTRUCTION if column == "instruction" else ()), *(() if _has_system(turns) else SYSTEM))


def whole_prompt(values: Mapping[str, JSON], column: str, turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The prompt of a usual column with what belongs to it: the rest of an instruction, and a system prompt.

    The rest follows the instruction after a blank line; the system prompt is a turn of its own before the others,
    unless they begin with one.

    Args:
        values: the columns of the row.
        column: where the prompt is.
        turns: the turns in it.
    """
    whole = tuple(turns)
    if column == "instruction" and len(whole) == 1:
        whole = (text_turn(whole[0].role, instruction_text(values, whole[0].text)),)
    system = next(filter(None, (_text(values, name) for name in SYSTEM)), None)
    return whole if system is None or _has_system(whole) else (text_turn("system", system), *whole)


def _has_system(turns: Sequence[Turn]) -> bool:
    return any(turn.role in ("system", "developer") for turn in turns)


def instruction_text(values: Mapping[str, JSON], text: str) -> str:
    """An instruction with the rest of its task, after a blank line."""
    return "\n\n".join(filter(None, (text, *(_text(values, name) for name in OF_INSTRUCTION))))


def asked_text(row: Row, *columns: str) -> str:
    """What a row asks, as one text, from the first of `columns` that has a text; with the rest of an instruction.

    Raises:
        DataError: none has.
    """
    text = row.text(*columns)
    column = next(name for name in columns if row.optional_text(name) is not None)
    return instruction_text(row.values, text) if column == "instruction" else text


def _text(values: Mapping[str, JSON], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) and value.strip() else None


def unread(values: Mapping[str, JSON], read: Collection[str]) -> list[str]:
    """The columns of usual names that hold something and are not read."""
    held = [name for name, value in values.items() if name in _KNOWN and name not in read]
    return [name for name in held if values[name] not in (None, [], {}) and not _is_blank(values[name])]


def _is_blank(value: JSON) -> bool:
    return isinstance(value, str) and not value.strip()


def warn_of_unread(source: str, names: Iterable[str]) -> None:
    """Name the columns that nothing reads in one line of the log; none without any."""
    found = sorted({*names})
    if found:
        logger.warning("%s: columns that are not read, and that nobody is shown: %s", source, ", ".join(found))


def warn_of_unread_columns(rows: Sequence[Row], first_of: Sequence[Sequence[str]], also: Collection[str] = ()) -> None:
    """Name what an environment is not shown of its data, from the first hundred rows; responses are not looked at.

    Args:
        rows: of one dataset.
        first_of: groups of columns, of each of which the first that has a text is read.
        also: columns that are read, too, or that say the same as one that is.
    """
    names: set[str] = set()
    for row in islice(rows, _LOOKED_AT):
        read = {name for group in first_of for name in _read_of(row, group)}
        more = OF_INSTRUCTION if "instruction" in read else ()
        names.update(unread(row.filled(), {*read, *more, *also, *RESPONSES}))
    warn_of_unread(rows[0].source if rows else "", names)


def _read_of(row: Row, group: Sequence[str]) -> Sequence[str]:
    """The column of a group that is read; all of them where it is the original of the others, which are made of it."""
    read = next((name for name in group if row.values.get(name) not in (None, "")), None)
    return () if read is None else group if read.startswith("orig_") else (read,)
