"""Conversations: parsed from data, and written as the one text that a judge is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judges.llm.wire import JSON

_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """One message of a conversation."""

    role: str
    content: str


def turns_of(value: JSON) -> tuple[TranscriptTurn, ...] | None:
    """The turns of a list of chat messages, or of one message; `None` if the value is neither.

    A message's content may be text, null, or a list of parts, of which only the text parts are read.
    """
    messages = [value] if isinstance(value, Mapping) else value
    if isinstance(messages, str) or not isinstance(messages, Sequence) or not messages:
        return None
    turns = [_turn(message) for message in messages]
    return tuple(turn for turn in turns if turn is not None) if None not in turns else None


def _turn(message: JSON) -> TranscriptTurn | None:
    if not isinstance(message, Mapping) or "content" not in message:
        return None
    role, content = message.get("role"), message["content"]
    if not isinstance(role, str) or not role:
        return None
    if content is None or isinstance(content, str):
        return TranscriptTurn(role, content or "")
    if not isinstance(content, Sequence):
        return None
    parts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return TranscriptTurn(role, "".join(part for part in parts if isinstance(part, str)))


def turns_of_transcript(text: str) -> tuple[TranscriptTurn, ...] | None:
    r"""The turns of a "\n\nHuman: …\n\nAssistant: …" transcript; `None` if the text is not one.

    An empty last turn of the assistant is left out.
    """
    _, *pieces = _SPEAKER.split(text.strip())
    if len(pieces) < 4 or pieces[0] != "Human":
        return None
    turns = [
        TranscriptTurn(_ROLES[speaker], text.strip()) for speaker, text in zip(pieces[::2], pieces[1::2], strict=True)
    ]
    return tuple(turns[:-1] if turns[-1] == TranscriptTurn("assistant", "") else turns)


def shown(turns: Sequence[TranscriptTurn]) -> str:
    r"""A conversation as one text: "User: …\n\nAssistant: …\n\nUser: …".

    A single turn of the user or of the assistant is returned as its content alone.
    """
    if len(turns) == 1 and turns[0].role in ("user", "assistant"):
        return turns[0].content
    return "\n\n".join(f"{turn.role.capitalize()}: {turn.content}" for turn in turns)
