"""Completions with what a judge is told of them, from the cells and conversations that trainers have.

Trainers pass cells as their data frames hold them: Arrow structs with null fields, NumPy arrays and
scalars, NaN for
what is missing, OmegaConf containers. Guarantees: a missing cell is left out; a number, a list or
an object where text is expected becomes its text, as with a label of OpenRLHF; any other cell is an
error of that row only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from typing import Literal, TypeAlias, cast, get_args

from judgegym.judges.conversations.images import KINDS as IMAGES
from judgegym.judges.conversations.images import images_shown, read_image
from judgegym.judges.conversations.tools import parse_tools
from judgegym.judges.conversations.turns import REASONING_FIELDS, UnseenPart
from judgegym.judges.scorers.columns import USUAL_COLUMNS, usual_column, usual_value
from judgegym.llm import wire
from judgegym.llm.wire import JSON, Choice

LONGEST_ID = 256
_ERROR_FIELDS = ("is_error", "error", "status")

Field: TypeAlias = Literal["reference", "rubric", "aspects", "baseline", "context", "criteria"]
FIELDS: tuple[Field, ...] = get_args(Field)
"""What a judge may be told of a row beside its prompt."""


class CellError(ValueError):
    """A cell cannot be sent to a judge; the message names the field and the type that was found."""


@dataclass(frozen=True, slots=True)
class CompletionRow:
    """One completion.

    Attributes:
        shared: the fields of the request that all completions of its group have in common.
        response: the completion; a choice only for an environment.
        error: why it cannot be judged; empty otherwise.
    """

    shared: Mapping[str, JSON]
    response: JSON | Choice
    error: str = ""


def completion_row(
    prompt: object,
    response: object,
    cells: Mapping[str, object] = MappingProxyType({}),
    label: object = None,
    *,
    group: object = None,
    member: object = None,
) -> CompletionRow:
    """A completion with what its judge is told; one that cannot be told is an error of this row.

    Args:
        prompt: what the policy was asked, as text or messages.
        response: what it wrote.
        cells: the row, with `FIELDS` under their own names.
        label: the reference, or an object of `reference`, `rubric`, `criteria`, `context` and
            `baseline`; it comes before the cells.
        group: an id of the group to which the response belongs, if it can be one.
        member: the response's own id in it.
    """
    try:
        ids = {
            name: group_id(plain(value)) for name, value in (("group", group), ("member", member))
        }
        shared: dict[str, JSON] = {
            "prompt": conversation_json(prompt),
            **fields_in(cells),
            **label_fields(label),
        }
        shared |= {name: value for name, value in ids.items() if value is not None} | tool_fields(
            cells.get("tools")
        )
        return CompletionRow(shared, conversation_json(response))
    except CellError as error:
        return CompletionRow(
            {"prompt": str(prompt)}, response if isinstance(response, str) else "", str(error)
        )


def error_in(group: Sequence[CompletionRow]) -> str:
    """Why the rows cannot be judged together; empty if they can."""
    if any(row.shared != group[0].shared for row in group) and not any(row.error for row in group):
        return "the completions of a group differ in their prompt, reference or other fields"
    return next((row.error for row in group if row.error), "")


def make_request_body(group: Sequence[CompletionRow]) -> dict[str, JSON]:
    """The body of `POST /v1/score` for one completion, or for several that are compared."""
    responses = [cast(JSON, row.response) for row in group]
    return {
        **group[0].shared,
        **({"response": responses[0]} if len(group) == 1 else {"responses": responses}),
    }


def plain(value: object) -> JSON:
    """A value as JSON: arrays as lists, objects without their null fields, NaN as null, secrets and paths as text.

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
        return {str(name): plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(item) for item in value]
    if hasattr(value, "get_secret_value"):
        return plain(value.get_secret_value())
    if isinstance(value, PurePath):
        return str(value)
    raise CellError(f"expected text, found {type(value).__name__}")


def fields_in(row: Mapping[str, object]) -> dict[str, JSON]:
    """The fields of a request in a row that has them under their own names; those of missing cells are left out.

    Raises:
        CellError: one cannot be sent.
    """
    fields: dict[str, JSON] = {}
    for name, read in _READERS.items():
        try:
            value = read(_cell(row, name))
        except CellError as error:
            raise CellError(f"{name}: {error}") from None
        if value is not None:
            fields[name] = value
    return fields


def tool_fields(tools: object) -> dict[str, JSON]:
    """The field of a request with definitions of tools; none of a cell that holds something else.

    Raises:
        CellError: a definition cannot be sent.
    """
    if hasattr(tools, "tolist"):  # an array, as a data frame has it
        tools = tools.tolist()
    given = (
        [tool for tool in tools if isinstance(tool, Mapping)]
        if isinstance(tools, list | tuple)
        else []
    )
    found = parse_tools(plain(given) if given else tools if isinstance(tools, str) else None)
    return (
        {"tools": [{"type": "function", "function": wire.loads(tool.shown)} for tool in found]}
        if found
        else {}
    )


def _cell(row: Mapping[str, object], name: str) -> JSON:
    """The cell of a field, from the first of its usual columns; criteria of another column only if they can be read."""
    if row.get(name) is not None:
        return plain(row[name])
    cells = {
        column: plain(row.get(column))
        for column in (each.partition(".")[0] for each in USUAL_COLUMNS[name])
    }
    column = usual_column(cells, name)
    value = None if column is None else cast("JSON", usual_value(cells, column))
    if name == "criteria" and value is not None:
        # Late: criteria need the judges' packages, and beside a server a row without them needs
        # none.
        from judgegym.judges.checklists.criteria import read_criteria

        try:
            read_criteria(value)
        except ValueError:
            return None
    return value


def label_fields(label: object) -> dict[str, JSON]:
    """The fields of a label: the reference, or of an object (also as JSON text) what else the judge is shown.

    Raises:
        CellError: the label cannot be sent.
    """
    value = given = plain(label)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        given = wire.as_json(value)
    names = ("reference", "rubric", "criteria", "context", "baseline")
    if isinstance(given, Mapping) and given.keys() & {*names}:
        return fields_in({name: given.get(name) for name in names})
    return fields_in({"reference": value})


def group_id(value: JSON) -> str | int | None:
    """A cell as the id of a group or of one of its members; `None` if it can be none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return value if isinstance(value, int) or 0 < len(value) <= LONGEST_ID else None


def _text(value: JSON) -> str | None:
    return None if value is None or value == "" else value if isinstance(value, str) else str(value)


def _rubric(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        return {name: str(text) for name, text in value.items() if text is not None} or None
    return _text("\n".join(map(str, value)) if isinstance(value, list) else value)


def _context(value: JSON) -> JSON:
    if isinstance(value, list):
        return [str(text) for text in value if text is not None] or None
    return _text(value)


def _aspects(value: JSON) -> JSON:
    if isinstance(value, str):
        is_json = value.lstrip().startswith("[")
        try:
            value = (
                wire.loads(value)
                if is_json
                else [name.strip() for name in value.split(",") if name.strip()]
            )
        except ValueError:
            raise CellError("expected names or a JSON list") from None
    if isinstance(value, Mapping):
        value = [value]
    if value is None or isinstance(value, list):
        return value or None
    raise CellError(
        f"expected names or objects with name and definition, found {type(value).__name__}"
    )


def _criteria(value: JSON) -> JSON:
    """Criteria, also as JSON text; any other text is something else under the same name."""
    if not isinstance(value, str):
        return value or None
    try:
        return wire.loads(value) if value.lstrip()[:1] in ("[", "{") else None
    except ValueError:
        raise CellError("expected a list in JSON") from None


_READERS = dict(zip(FIELDS, (_text, _rubric, _aspects, _text, _context, _criteria), strict=True))


Conversation: TypeAlias = str | Sequence[Mapping[str, JSON]]


def conversation_json(conversation: object) -> JSON:
    """Text, or messages with role and content; an only turn of the assistant in which nothing stands is an empty text.

    Tool calls, their results and names go along; `judgegym.judges.conversations` writes them out.
    An image goes along with its data, or as its address.

    Raises:
        CellError: it is neither text nor messages.
    """
    if isinstance(conversation, str):
        return conversation
    if not isinstance(conversation, Iterable):
        raise CellError(f"expected text or messages, found {type(conversation).__name__}")
    turns = [_turn(turn) for turn in conversation]
    is_blank = [(turn["role"], str(turn["content"]).strip()) for turn in turns] == [
        ("assistant", "")
    ]
    return "" if is_blank and "tool_calls" not in turns[0] else cast(JSON, turns)


def _turn(turn: object) -> dict[str, JSON]:
    if not isinstance(turn, Mapping):
        raise CellError(f"expected messages of role and content, found {type(turn).__name__}")
    calls = turn.get("tool_calls")
    listed = calls if isinstance(calls, Sequence) and not isinstance(calls, str) else ()
    made = [_call(call if isinstance(call, Mapping) else {}) for call in listed]
    more: dict[str, JSON] = {"tool_calls": made} if made else {}
    more |= {
        key: str(turn[key]) for key in ("name", "tool_call_id", *REASONING_FIELDS) if turn.get(key)
    }
    more |= {
        key: plain(turn[key]) for key in _ERROR_FIELDS if key in turn and turn.get("role") == "tool"
    }
    more |= (
        {"name": str(turn["function"])} if isinstance(turn.get("function"), str) else {}
    )  # of a result in inspect
    return {"role": str(turn.get("role", "")), "content": _parts(turn.get("content")), **more}


def _parts(content: object) -> str | list[dict[str, JSON]]:
    """Text, or parts of text and images; of any other part the kind alone."""
    if hasattr(content, "tolist"):  # an array, as a data frame has it
        content = content.tolist()
    if isinstance(content, str):
        return content
    return (
        [_part(part) for part in content]
        if isinstance(content, Sequence) and not isinstance(content, bytes)
        else ""
    )


def _part(part: object) -> dict[str, JSON]:
    given: Mapping[str, object] = part if isinstance(part, Mapping) else {"text": part}
    kind = given.get("type", "text")
    text = next(
        (
            given[name]
            for name in ("text", "reasoning", "thinking")
            if isinstance(given.get(name), str)
        ),
        None,
    )
    shown: dict[str, JSON] = {"type": kind if isinstance(kind, str) else "part"}
    if kind in IMAGES:
        try:
            with images_shown():
                return {"type": "image_url", "image_url": {"url": read_image(given).url}}
        except UnseenPart as error:
            raise CellError(str(error)) from None
    return {**shown, "text": text} if isinstance(text, str) else shown


def _call(value: object) -> JSON:
    """A tool call, or a value in one, as it is, since judges read calls of all forms; `…` for what JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(name): _call(item) for name, item in value.items() if item is not None}
    try:
        return plain(value)
    except CellError:
        return "…"
