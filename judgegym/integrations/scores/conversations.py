"""Conversations as trainers have them, as the reward server reads them: text, or messages of role and content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from judgegym.integrations.scores.cells import CellError, plain
from judgegym.llm.wire import JSON

Conversation: TypeAlias = str | Sequence[Mapping[str, JSON]]


def conversation_json(conversation: Conversation) -> JSON:
    """Text, or messages with role and content; a completion of one assistant turn is sent as text.

    Tool calls, their results and names go along: `judgegym.judges.core.turns` writes them out. Of an image, which no
    judge sees, the kind alone is sent, and refused there.

    Raises:
        CellError: it is neither text nor messages.
    """
    if isinstance(conversation, str):
        return conversation
    if not isinstance(conversation, Iterable):
        raise CellError(f"expected text or messages, found {type(conversation).__name__}")
    turns = [_turn(turn) for turn in conversation]
    if len(turns) == 1 and turns[0].keys() == {"role", "content"} and turns[0]["role"] == "assistant":
        only = turns[0]["content"]
        return only if isinstance(only, str) else cast(JSON, turns)
    return cast(JSON, turns)


def _turn(turn: object) -> dict[str, JSON]:
    if not isinstance(turn, Mapping):
        raise CellError(f"expected messages of role and content, found {type(turn).__name__}")
    calls = turn.get("tool_calls")
    made = [_call(call) for call in calls] if isinstance(calls, Sequence) and not isinstance(calls, str) else []
    more: dict[str, JSON] = {"tool_calls": made} if made else {}
    more |= {key: str(turn[key]) for key in ("name", "tool_call_id") if turn.get(key)}
    return {"role": str(turn.get("role", "")), "content": _parts(turn.get("content")), **more}


def _parts(content: object) -> str | list[dict[str, JSON]]:
    """Text, or parts of text; of a part that is none, such as an image, the kind alone."""
    if hasattr(content, "tolist"):  # an array, as a data frame has it
        content = content.tolist()
    if isinstance(content, str):
        return content
    return [_part(part) for part in content] if isinstance(content, Sequence) and not isinstance(content, bytes) else ""


def _part(part: object) -> dict[str, JSON]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    given: Mapping[str, object] = part if isinstance(part, Mapping) else {}
    kind, text = given.get("type", "text"), given.get("text")
    shown: dict[str, JSON] = {"type": kind if isinstance(kind, str) else "part"}
    return {**shown, "text": text} if isinstance(text, str) else shown


def _call(call: object) -> dict[str, JSON]:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        return {}
    arguments = function.get("arguments")
    try:
        given = arguments if isinstance(arguments, str) else plain(arguments)
    except CellError:
        given = "…"
    made: dict[str, JSON] = {"function": {"name": str(function.get("name")), "arguments": given}}
    return {"id": str(call["id"]), **made} if call.get("id") else made
