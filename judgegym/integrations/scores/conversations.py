"""Conversations as trainers have them, as the reward server reads them: text, or messages of role and content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from judgegym.integrations.scores.cells import plain
from judges.llm import wire
from judges.llm.wire import JSON

Conversation: TypeAlias = str | Sequence[Mapping[str, JSON]]


def conversation_json(conversation: Conversation) -> JSON:
    """Text, or messages with role and content; a completion of one assistant turn is sent as text.

    Calls of tools, which have no content, are written out: the judge sees what the policy did.
    """
    if isinstance(conversation, str):
        return conversation
    turns: list[dict[str, JSON]] = [
        {"role": str(turn.get("role", "")), "content": _content(turn)} for turn in conversation
    ]
    if len(turns) == 1 and turns[0]["role"] == "assistant" and isinstance(turns[0]["content"], str):
        return turns[0]["content"]
    return cast(JSON, turns)


def _content(turn: Mapping[str, JSON]) -> JSON:
    content, calls = turn.get("content"), turn.get("tool_calls")
    written = [_call(call) for call in calls] if isinstance(calls, Sequence) and not isinstance(calls, str) else []
    if not written:
        return plain(content) if isinstance(content, str | Sequence) else ""
    texts = [content] if isinstance(content, str) and content else []
    return "\n".join([*texts, *written])


def _call(call: JSON) -> str:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return "[tool call]"
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else wire.dumps(plain(arguments)).decode()
    return f"[tool call: {function.get('name')}({text})]"
