"""Conversations in requests: chat messages and the items of the Responses API, as text for a judge.

Guarantees: nothing of a conversation is left out without a word. Tool calls and tool outputs are written out, a part
that is not text (an image) and reasoning are named in brackets. What a judge is asked to score is the policy's own
text only: a completion without any (tool calls alone, a refusal alone) is empty. No message can pass for several
turns: where turns have headings (`user: …`), a line of a message that looks like one is broken up (`user¦: …`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from judges.core.group import GroupCase
from judges.llm import wire
from judges.llm.template_tokens import BREAK

_NOT_OF_THE_POLICY = frozenset({"system", "developer", "user", "tool", "function"})
_ASKED = frozenset({"system", "developer", "user"})
_ROLES = "assistant|user|tool|function|system|developer"
_HEADING = re.compile(rf"(?:{_ROLES}): ")
_LATER_HEADING = re.compile(rf"\n\n(?=(?:{_ROLES}): )")
_LINE = r"(?:\A|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))"
_SAID_TO_BE = (*_ROLES.split("|"), "human")
_LIKE_HEADING = re.compile(
    rf"({_LINE}[ \t>*_#`~\[(-]*(?:{'|'.join(_SAID_TO_BE)})[ \t*_`~\])]*)(?=[:：])", re.IGNORECASE
)
_SILENT_PARTS = frozenset({"refusal", "reasoning", "thinking", "redacted_thinking", "summary_text"})


class ChatTurn(BaseModel):
    """A message of a conversation, as OpenAI's chat API has it."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: str
    content: str | list[dict[str, object]] | None = None
    tool_calls: list[dict[str, object]] | None = None


TextOrMessages: TypeAlias = str | list[ChatTurn]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: its role, its text, and its text with all else that it holds written out."""

    role: str
    text: str
    shown: str


def text_of(conversation: TextOrMessages) -> str:
    """A prompt as one text: the only user turn, or all turns with their roles."""
    if isinstance(conversation, str):
        return conversation
    return transcript([_of_message(turn) for turn in conversation])


def answer_of(conversation: TextOrMessages) -> str:
    """A completion as one text: empty if the policy wrote no text of its own in it."""
    if isinstance(conversation, str):
        return conversation
    turns = [_of_message(turn) for turn in conversation]
    own = any(turn.text.strip() for turn in turns if turn.role not in _NOT_OF_THE_POLICY)
    return transcript(turns) if own else ""


def conversation_case(
    prompt: TextOrMessages,
    completions: Sequence[TextOrMessages],
    *,
    criteria: str = "",
    reference: str | None = None,
    context: str | None = None,
    anchor: str | None = None,
) -> GroupCase:
    """The case of a group whose prompt and completions are conversations; empty completions stay, as empty answers.

    A blank anchor is none: whatever the answers are, they would be better than that.
    """
    anchor = anchor if anchor and anchor.strip() else None
    answers = tuple(answer_of(completion) for completion in completions)
    return GroupCase(text_of(prompt), answers, criteria, reference, context, anchor)


def transcript(turns: Sequence[Turn]) -> str:
    """Turns as one text: the only user turn, or the only turn at all, without its role; several with their roles.

    A single turn that begins like the heading of a turn has its role, too, so that it is no conversation.
    """
    filled = [turn for turn in turns if turn.shown.strip()]
    asked = [turn for turn in filled if turn.role == "user"]
    if len(asked) == 1 and all(turn.role in _ASKED for turn in filled):
        return asked[0].shown
    if len(filled) == 1 and not _HEADING.match(filled[0].shown):
        return filled[0].shown
    return "\n\n".join(f"{turn.role}: {_without_headings(turn.shown)}" for turn in filled)


def _without_headings(text: str) -> str:
    folded = text.casefold()
    if not any(role in folded for role in _SAID_TO_BE):
        return text
    return _LIKE_HEADING.sub(lambda heading: f"{heading[1]}{BREAK}", text)


def shared_turns(texts: Sequence[str]) -> str:
    """The turns with which all of several conversations begin, as `transcript` writes them; empty if there are none.

    It ends where a turn ends, with an empty line, and each text has at least one more turn. Texts that are no
    conversations, such as answers of one turn, share none, however alike they begin.
    """
    if len(texts) < 2 or not all(map(_HEADING.match, texts)):
        return ""
    first = texts[0]
    ends = [match.end() for match in _LATER_HEADING.finditer(first)]
    shared = bisect_left(ends, True, key=lambda end: not all(text.startswith(first[:end]) for text in texts))
    until = next((end for end in reversed(ends[:shared]) if all(_HEADING.match(text, end) for text in texts)), 0)
    return first[:until]


def continuation(text: str, beginning: str) -> str:
    """What a conversation has after the turns that it shares with others: without its role if it is one answer."""
    rest = text[len(beginning) :]
    if not beginning or _LATER_HEADING.search(rest):
        return rest
    return rest.removeprefix("assistant: ")


def turn_of_item(item: Mapping[str, object]) -> Turn:
    """An item of a Responses API list: a message, a tool call, a tool output, reasoning, or another kind."""
    kind = item.get("type")
    if kind == "function_call":
        call = _call(item.get("name"), item.get("arguments"))
        return Turn("assistant", "", call)
    if kind == "function_call_output":
        output = item.get("output")
        return Turn("tool", "", _parts(output)[1] if isinstance(output, list) else _plain(output))
    if kind == "reasoning":
        return Turn("assistant", "", "[reasoning, left out]")
    if kind in (None, "message") or "role" in item:
        role = item.get("role")
        text, shown = _parts(item.get("content"))
        return Turn(role if isinstance(role, str) else "assistant", text, shown)
    return Turn("assistant", "", f"[{kind}]")


def _of_message(turn: ChatTurn) -> Turn:
    text, shown = _parts(turn.content)
    calls = [_of_tool_call(call) for call in turn.tool_calls or ()]
    return Turn(turn.role, text, "\n".join([*([shown] if shown else []), *calls]))


def _of_tool_call(call: Mapping[str, object]) -> str:
    function = call.get("function")
    named = function if isinstance(function, Mapping) else call
    return _call(named.get("name"), named.get("arguments"))


def _call(name: object, arguments: object) -> str:
    return f"[tool call: {_plain(name)}({_plain(arguments)})]"


def _parts(content: object) -> tuple[str, str]:
    """The text of a message's content, and the text with its other parts named."""
    if not isinstance(content, list):
        text = content if isinstance(content, str) else ""
        return text, text
    texts, shown = [], []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        words = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(words, str) and kind not in _SILENT_PARTS:
            texts.append(words)
            shown.append(words)
        elif isinstance(kind, str) and kind != "refusal":
            shown.append(f"[{kind}]")
    return "".join(texts), "".join(shown)


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return wire.dumps(value).decode()  # type: ignore[arg-type]  # parsed from JSON
    except TypeError:  # a number that JSON cannot hold, or nested too deeply
        return "…"
