"""Completions with the fields for their judge, read from trainers' cells and conversations.

Trainers pass cells as their data frames hold them: Arrow structs with null fields, NumPy arrays and
scalars, NaN for missing values, OmegaConf containers. Guarantees: a missing cell is left out; a
number, a list or an object in place of text becomes its text, as with a label of OpenRLHF; any
other cell is an error of that row only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from typing import Literal, TypeAlias, cast, get_args

from judgegym.judges.conversations.images import KINDS as IMAGES
from judgegym.judges.conversations.images import read_image, show_images
from judgegym.judges.conversations.tools import parse_tools
from judgegym.judges.conversations.turns import REASONING_FIELDS, UnseenPart
from judgegym.judges.scorers.columns import USUAL_COLUMNS, find_column, read_column
from judgegym.llm import wire
from judgegym.llm.wire import JSON, Choice

MAX_ID_LENGTH = 256
_ERROR_FIELDS = ("is_error", "error", "status")

Field: TypeAlias = Literal["reference", "rubric", "aspects", "baseline", "context", "criteria"]
FIELDS: tuple[Field, ...] = get_args(Field)
"""Fields of a row that a judge may be shown besides the prompt."""


class CellError(ValueError):
    """A cell cannot be sent to a judge; the message names the field and the type of the value."""


@dataclass(frozen=True, slots=True)
class CompletionRow:
    """A completion with the fields for its judge.

    Attributes:
        shared: the request's fields that all completions of its group share.
        response: the completion; a `Choice` only for an environment.
        error: the reason why it cannot be judged; otherwise empty.
    """

    shared: Mapping[str, JSON]
    response: JSON | Choice
    error: str = ""


def make_completion_row(
    prompt: object,
    response: object,
    cells: Mapping[str, object] = MappingProxyType({}),
    label: object = None,
    *,
    group: object = None,
    member: object = None,
) -> CompletionRow:
    """Make a completion with the fields for its judge; unusable fields are this row's error.

    Args:
        prompt: the policy's prompt, as text or messages.
        response: the policy's completion.
        cells: the row, with `FIELDS` under their own names.
        label: the reference, or an object of `reference`, `rubric`, `criteria`, `context` and
            `baseline`; it overrides the cells.
        group: the id of the response's group; ignored if it cannot be an id.
        member: the response's id in its group.
    """
    try:
        ids = {
            name: parse_group_id(to_json(value))
            for name, value in (("group", group), ("member", member))
        }
        shared: dict[str, JSON] = {
            "prompt": convert_conversation(prompt),
            **read_request_fields(cells),
            **read_label_fields(label),
        }
        shared |= {
            name: value for name, value in ids.items() if value is not None
        } | read_tool_fields(cells.get("tools"))
        return CompletionRow(shared, convert_conversation(response))
    except CellError as error:
        return CompletionRow(
            {"prompt": str(prompt)}, response if isinstance(response, str) else "", str(error)
        )


def find_group_error(group: Sequence[CompletionRow]) -> str:
    """Return why the rows cannot be judged together; empty if they can."""
    if any(row.shared != group[0].shared for row in group) and not any(row.error for row in group):
        return "the completions of a group differ in their prompt, reference or other fields"
    return next((row.error for row in group if row.error), "")


def make_request_body(group: Sequence[CompletionRow]) -> dict[str, JSON]:
    """Make the body of `POST /v1/score` for one completion, or for several that are compared."""
    responses = [cast(JSON, row.response) for row in group]
    return {
        **group[0].shared,
        **({"response": responses[0]} if len(group) == 1 else {"responses": responses}),
    }


def to_json(value: object) -> JSON:
    """Convert a value to JSON: arrays to lists, NaN to null, secrets and paths to text.

    Null fields are left out.

    Raises:
        CellError: the value has no counterpart in JSON.
    """
    if hasattr(value, "tolist"):  # a NumPy array or scalar, a tensor
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): to_json(item) for name, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [to_json(item) for item in value]
    if hasattr(value, "get_secret_value"):
        return to_json(value.get_secret_value())
    if isinstance(value, PurePath):
        return str(value)
    kind = type(value).__name__
    raise CellError(f"expected text, found {kind}")


def read_request_fields(row: Mapping[str, object]) -> dict[str, JSON]:
    """Read the request fields of a row that has them under their own names, without missing cells.

    Raises:
        CellError: a field cannot be sent.
    """
    fields: dict[str, JSON] = {}
    for name, read in _READERS.items():
        try:
            value = read(_read_cell(row, name))
        except CellError as error:
            raise CellError(f"{name}: {error}") from None
        if value is not None:
            fields[name] = value
    return fields


def read_tool_fields(tools: object) -> dict[str, JSON]:
    """Read the request field with tool definitions; empty if the cell holds something else.

    Raises:
        CellError: a definition cannot be sent.
    """
    if hasattr(tools, "tolist"):  # an array, as a data frame has it
        tools = tools.tolist()
    definitions: list[Mapping[str, object]] = []
    if isinstance(tools, list | tuple):
        definitions = [tool for tool in tools if isinstance(tool, Mapping)]
    value: JSON = None
    if definitions:
        value = to_json(definitions)
    elif isinstance(tools, str):
        value = tools
    parsed = parse_tools(value)
    if not parsed:
        return {}
    return {"tools": [{"type": "function", "function": wire.loads(tool.shown)} for tool in parsed]}


def _read_cell(row: Mapping[str, object], name: str) -> JSON:
    """Read a field from its first usual column; criteria of another column only if readable."""
    if row.get(name) is not None:
        return to_json(row[name])
    cells = {
        column: to_json(row.get(column))
        for column in (column_name.partition(".")[0] for column_name in USUAL_COLUMNS[name])
    }
    column = find_column(cells, name)
    value = None
    if column is not None:
        value = cast("JSON", read_column(cells, column))
    if name == "criteria" and value is not None:
        # Late: criteria need the judges' packages, and with a server a row without them needs
        # none.
        from judgegym.judges.checklists.criteria import read_criteria

        try:
            read_criteria(value)
        except ValueError:
            return None
    return value


def read_label_fields(label: object) -> dict[str, JSON]:
    """Read the fields of a label: a reference, or an object (also as JSON text) of several.

    Raises:
        CellError: the label cannot be sent.
    """
    value = parsed = to_json(label)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        parsed = wire.loads_or_none(value)
    names = ("reference", "rubric", "criteria", "context", "baseline")
    if isinstance(parsed, Mapping) and parsed.keys() & {*names}:
        return read_request_fields({name: parsed.get(name) for name in names})
    return read_request_fields({"reference": value})


def parse_group_id(value: JSON) -> str | int | None:
    """Return a cell as the id of a group or of one of its members; `None` if it cannot be one."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    if isinstance(value, int) or 0 < len(value) <= MAX_ID_LENGTH:
        return value
    return None


def _read_text(value: JSON) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):  # also a member of an enum of texts, whose `str` is its name
        return value
    return str(value)


def _read_rubric(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        return {name: str(text) for name, text in value.items() if text is not None} or None
    if isinstance(value, list):
        value = "\n".join(map(str, value))
    return _read_text(value)


def _read_context(value: JSON) -> JSON:
    if isinstance(value, list):
        return [str(text) for text in value if text is not None] or None
    return _read_text(value)


def _read_aspects(value: JSON) -> JSON:
    if isinstance(value, str):
        is_json = value.lstrip().startswith("[")
        try:
            if is_json:
                value = wire.loads(value)
            else:
                value = [name.strip() for name in value.split(",") if name.strip()]
        except ValueError:
            raise CellError("expected names or a JSON list") from None
    if isinstance(value, Mapping):
        value = [value]
    if value is None or isinstance(value, list):
        return value or None
    kind = type(value).__name__
    raise CellError(f"expected names or objects with name and definition, found {kind}")


def _read_criteria(value: JSON) -> JSON:
    """Read criteria, also as JSON text; any other text is a different thing under the same name."""
    if not isinstance(value, str):
        return value or None
    try:
        if value.lstrip()[:1] in ("[", "{"):
            return wire.loads(value)
        return None
    except ValueError:
        raise CellError("expected a list in JSON") from None


_READERS = dict(
    zip(
        FIELDS,
        (_read_text, _read_rubric, _read_aspects, _read_text, _read_context, _read_criteria),
        strict=True,
    )
)


Conversation: TypeAlias = str | Sequence[Mapping[str, JSON]]


def convert_conversation(conversation: object) -> JSON:
    """Convert a conversation to JSON: text, or messages with role and content.

    A single blank assistant turn becomes an empty text.

    Tool calls, their results and names are kept; `judgegym.judges.conversations` renders them. An
    image is kept with its data, or as its URL.

    Raises:
        CellError: the conversation is neither text nor messages.
    """
    if isinstance(conversation, str):
        return conversation
    if not isinstance(conversation, Iterable):
        kind = type(conversation).__name__
        raise CellError(f"expected text or messages, found {kind}")
    turns = [_convert_turn(turn) for turn in conversation]
    is_blank = [(turn["role"], str(turn["content"]).strip()) for turn in turns] == [
        ("assistant", "")
    ]
    if is_blank and "tool_calls" not in turns[0]:
        return ""
    return cast(JSON, turns)


def _convert_turn(turn: object) -> dict[str, JSON]:
    if not isinstance(turn, Mapping):
        kind = type(turn).__name__
        raise CellError(f"expected messages of role and content, found {kind}")
    calls = turn.get("tool_calls")
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        calls = ()
    converted_calls = [_convert_call(call if isinstance(call, Mapping) else {}) for call in calls]
    extra_fields: dict[str, JSON] = {}
    if converted_calls:
        extra_fields["tool_calls"] = converted_calls
    extra_fields |= {
        key: str(turn[key]) for key in ("name", "tool_call_id", *REASONING_FIELDS) if turn.get(key)
    }
    if turn.get("role") == "tool":
        extra_fields |= {key: to_json(turn[key]) for key in _ERROR_FIELDS if key in turn}
    if isinstance(turn.get("function"), str):  # of a result in inspect
        extra_fields["name"] = str(turn["function"])
    return {
        "role": str(turn.get("role", "")),
        "content": _convert_parts(turn.get("content")),
        **extra_fields,
    }


def _convert_parts(content: object) -> str | list[dict[str, JSON]]:
    """Convert content to text, or to parts of text and images; of others only the type is kept."""
    if hasattr(content, "tolist"):  # an array, as a data frame has it
        content = content.tolist()
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        return [_convert_part(part) for part in content]
    return ""


def _convert_part(part: object) -> dict[str, JSON]:
    fields: Mapping[str, object] = part if isinstance(part, Mapping) else {"text": part}
    kind = fields.get("type", "text")
    text = next(
        (
            fields[name]
            for name in ("text", "reasoning", "thinking")
            if isinstance(fields.get(name), str)
        ),
        None,
    )
    converted: dict[str, JSON] = {"type": kind if isinstance(kind, str) else "part"}
    if kind in IMAGES:
        try:
            with show_images():
                return {"type": "image_url", "image_url": {"url": read_image(fields).url}}
        except UnseenPart as error:
            raise CellError(str(error)) from None
    if isinstance(text, str):
        return {**converted, "text": text}
    return converted


def _convert_call(value: object) -> JSON:
    """Convert a tool call, or a value in one, unchanged; `…` for what JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(name): _convert_call(item) for name, item in value.items() if item is not None}
    try:
        return to_json(value)
    except CellError:
        return "…"
