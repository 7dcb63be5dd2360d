"""Parsers of conversations: chat messages and similar formats, as turns.

Formats: messages of OpenAI's chat API, items of the Responses API, ShareGPT, "Human: … Assistant:
…" transcripts.

Guarantees: all entry points read conversations here, so that each part of a message becomes the
same part of a turn, whatever its format. A part that no judge is shown (audio, a file, an image
where the caller passes none on) is an `UnseenPart`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias, cast

from pydantic import BaseModel, ConfigDict

from judgegym.judges.conversations import images as pictures
from judgegym.judges.conversations.turns import (
    CALL_FIELDS,
    REASONING,
    REASONING_FIELDS,
    UNNUMBERED,
    ToolCall,
    Turn,
    UnseenPart,
    completion_text,
    number_images,
    render_transcript,
    render_turn,
    text_turn,
)
from judgegym.llm import wire
from judgegym.llm.wire import JSON, Image

_SPELLINGS = {
    "human": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "function": "tool",
    "observation": "tool",
    "tool_response": "tool",
}
"""Other words for a role; each role is written in one way."""
_SILENT_PARTS = frozenset(
    {"refusal", "reasoning", "thinking", "think", "redacted_thinking", "summary_text"}
)
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_CALLS = frozenset({"tool_use", "tool_call", "function_call"})
_RESULTS = frozenset({"tool_result", "tool_response", "function_call_output"})
_RESULT_IDS = ("tool_use_id", "tool_call_id", "call_id")
_PART_OF_OUTPUT = re.compile(r"text|image|audio|video|file|document")
_SECRET = secrets.token_hex(8)
_PLACEHOLDER = f"<{_SECRET}>"
"""Stands for an image until lookalikes of marks are broken up; no outside text can contain it."""
_NO_NAME = re.compile(r"[^\w.\-]+")
_LONGEST_NAME = 64
_PRESERVED_FIELDS = (*CALL_FIELDS, "tool_call_id", "name", *REASONING_FIELDS)
_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):")


class ChatTurn(BaseModel):
    """Message of a conversation, as in OpenAI's chat API."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: str
    content: str | list[dict[str, object]] | None = None
    name: object = None
    tool_calls: list[dict[str, object]] | None = None
    function_call: dict[str, object] | None = None
    tool_call_id: object = None
    reasoning_content: object = None
    reasoning: object = None
    is_error: object = None
    error: object = None
    status: object = None


TextOrMessages: TypeAlias = str | list[ChatTurn]


def parse_turns(value: object) -> tuple[Turn, ...] | None:
    """Parse a list of messages, or one message, as turns; `None` if the value is neither.

    A message is one of OpenAI's chat API (`role`, `content`, `tool_calls`, `name`) or of ShareGPT
    (`from`, `value`).

    Raises:
        UnseenPart: a message has a part that no judge is shown.
    """
    messages = [value] if isinstance(value, Mapping) else value
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence) or not messages:
        return None
    turns: list[Turn] = []
    for message in messages:
        pieces: Sequence[object] = [message]
        if isinstance(message, Mapping):
            pieces = _split_tool_results(message)
        for piece in pieces:
            turn = None
            if isinstance(piece, Mapping):
                turn = _parse_turn(piece)
            if turn is None:
                return None
            turns.append(turn)
    return number_images(name_tool_results(turns))


def name_tool_results(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return the turns with each tool result named after the call that it answers.

    A result also gets that call's id.

    A result names its call by id. Without an id it answers the first call before it that has no
    result yet, or the first such call with the result's own name.
    """
    waiting: list[ToolCall] = []
    names: dict[str, str] = {}
    named_turns: list[Turn] = []
    for turn in turns:
        if turn.calls:
            if not named_turns or named_turns[-1].role != "assistant":
                waiting = []
            waiting = [*waiting, *turn.calls]
            names |= {call.id: _heading_name(call.name) for call in turn.calls if call.id}
        elif turn.role == "tool":
            reference = (turn.answers, turn.name)
            if reference[0]:
                fits = [candidate for candidate in waiting if candidate.id == reference[0]]
            else:
                fits = [
                    candidate
                    for candidate in waiting
                    if reference[1] in ("", _heading_name(candidate.name))
                ]
            call = fits[0] if fits else ToolCall("", "")
            waiting = [pending for pending in waiting if pending is not call]
            name = turn.name or _heading_name(call.name) or names.get(turn.answers, "")
            turn = replace(turn, name=name, answers=turn.answers or call.id)
        named_turns.append(turn)
    return tuple(named_turns)


def parse_transcript(text: str) -> tuple[Turn, ...] | None:
    r"""Parse a "\n\nHuman: …\n\nAssistant: …" transcript; `None` if the text is not one.

    An empty last turn of the assistant is left out.
    """
    _, *pieces = _SPEAKER.split(text.strip())
    if len(pieces) < 4 or pieces[0] != "Human":
        return None
    turns = [
        text_turn(_normalize_role(who), content.strip())
        for who, content in zip(pieces[::2], pieces[1::2], strict=True)
    ]
    if turns[-1] == text_turn("assistant", ""):
        turns = turns[:-1]
    return tuple(turns)


def render_conversation(conversation: TextOrMessages) -> str:
    """Render a prompt as one text: its only turn, or all turns with their roles.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    if isinstance(conversation, str):
        return conversation
    return render_transcript(completion_turns(conversation))


def render_completion(conversation: TextOrMessages) -> str:
    """Render a completion as one text.

    It is empty if the policy wrote neither a text nor a tool call.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    if isinstance(conversation, str):
        return conversation
    return completion_text(completion_turns(conversation))


def completion_turns(conversation: TextOrMessages) -> tuple[Turn, ...]:
    """Return the turns of a completion; none for a text.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    if isinstance(conversation, str):
        return ()
    # A tool result without `is_error` does not say that there was no error.
    return (
        parse_turns(
            [{"content": None, **turn.model_dump(exclude_unset=True)} for turn in conversation]
        )
        or ()
    )


def parse_items(items: Sequence[Mapping[str, object]]) -> tuple[Turn, ...]:
    """Parse a Responses API list as turns.

    The items of one response (reasoning, text, calls) are one turn.

    Raises:
        UnseenPart: a message has a part that no judge is shown.
    """
    messages: list[dict[str, object]] = []
    for item in items:
        kind = item.get("type")
        last = messages[-1] if messages else {}
        message: dict[str, object] = {"role": "assistant", "content": ""}
        if kind == "function_call":
            before = message
            if last.get("role") == "assistant":
                before = messages.pop()
            calls = cast("Sequence[object]", before.get("tool_calls") or ())
            call = {"name": item.get("name"), "arguments": item.get("arguments")}
            # The call in the form of chat messages.
            chat_call = {"id": item.get("call_id"), "type": "function", "function": call}
            message = {**before, "tool_calls": [*calls, chat_call]}
        elif kind == "function_call_output":
            output = item.get("output")
            content = output if _are_parts(output) else _to_text(output)
            message = {"role": "tool", "content": content, "tool_call_id": item.get("call_id")}
        elif kind == "reasoning":
            message["reasoning"] = _reasoning_text(item) or REASONING
        elif kind in (None, "message") or "role" in item:
            is_begun = last.keys() == {*message, "reasoning"} and last["content"] == ""
            if is_begun:
                message |= messages.pop()
            message |= {name: item[name] for name in item if item[name] is not None}
        else:
            name = _heading_name(kind)
            message["content"] = f"[{name}]"
        messages.append(message)
    return parse_turns(messages) or ()


def _split_tool_results(message: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Split a user's message in Anthropic's form.

    Each tool result that names its call becomes a message; the rest follows as one.
    """
    content = message.get("content")
    parts: Sequence[object] = ()
    if isinstance(content, list | tuple):
        role = _normalize_role(str(message.get("role")))
        parts = content if role in ("user", "tool") else ()
    remaining, results = list[object](), list[Mapping[str, object]]()
    for part in parts:
        fields = part if isinstance(part, Mapping) and part.get("type") in _RESULTS else {}
        answers = next((fields[name] for name in _RESULT_IDS if fields.get(name)), None)
        if answers is None:
            remaining.append(part)
            continue
        output = fields.get("content", fields.get("output"))
        result = {
            "role": "tool",
            "tool_call_id": answers,
            "content": output if _are_parts(output) else _to_text(output),
        }
        if "is_error" in fields:
            result["is_error"] = fields["is_error"]
        results.append(result)
    if not results:
        return [message]
    if remaining:
        results.append({**message, "content": remaining})
    return results


def _parse_tool_calls(value: object) -> list[Mapping[str, object]]:
    """Parse the calls in a field `tool_calls`: a list, one call, or either as JSON text.

    Raises:
        UnseenPart: it holds something else.
    """
    if hasattr(value, "tolist"):  # an array from a data frame
        value = value.tolist()
    if isinstance(value, str):
        try:
            value = wire.loads(value) if value.strip() else None
        except ValueError:
            value = object()
    if not value or isinstance(value, Mapping):
        if isinstance(value, Mapping) and value:
            return [value]
        return []
    if isinstance(value, list | tuple):
        return [*chain.from_iterable(map(_parse_tool_calls, value))]
    raise UnseenPart(
        "a message has tool_calls that cannot be read; expected a list of calls with names and "
        "arguments"
    )


def _parse_turn(message: Mapping[str, object]) -> Turn | None:
    """Parse a message as a turn; `None` if it is none."""
    speaker = message.get("role") or message.get("from")
    content = message.get("value") if message.get("content") is None else message["content"]
    if (
        not isinstance(speaker, str)
        or not speaker
        or not (content is None or isinstance(content, Sequence))
    ):
        return None
    calls = [
        *_parse_tool_calls(message.get("tool_calls")),
        *_parse_tool_calls(message.get("function_call")),
    ]
    if not calls and content is None and not {"content", "value"} & message.keys():
        return None
    images = list[Image]()
    thoughts = [
        str(message[field]) for field in REASONING_FIELDS if isinstance(message.get(field), str)
    ][:1]
    text, shown, written = _read_parts(content, images, thoughts)
    role = _normalize_role(speaker)
    # ShareGPT with tools: the text is the call, or a list of calls.
    if speaker == "function_call":
        text, shown, written = "", "", _parse_calls_text(shown)
    error = message.get("error")
    # An error of inspect.
    if role == "tool" and isinstance(error, Mapping) and str(error.get("message")) not in text:
        reason = error.get("message")
        text, shown = (f"{before}\n{reason}".strip() for before in (text, shown))
    written += [_parse_call(call) for call in calls]
    name = _heading_name(message.get("name"))
    if not name and role == "tool":
        name = _heading_name(message.get("function"))
    more = {field: cast(JSON, message[field]) for field in _PRESERVED_FIELDS if message.get(field)}
    answers = ""
    if role == "tool":
        answers = str(message.get("tool_call_id") or "")
    reasoning = "\n".join(thoughts)
    whole = render_turn(shown, written, reasoning).replace(_PLACEHOLDER, UNNUMBERED)
    is_error = None
    if role == "tool":
        is_error = _is_error(message)
    return Turn(
        role, text, whole, name, tuple(written), answers, reasoning, tuple(images), is_error, more
    )


def _is_error(message: Mapping[str, object]) -> bool | None:
    """Return whether a tool's message is an error.

    It is read from `is_error`, `error` (inspect) or `status` (LangChain).
    """
    if isinstance(message.get("is_error"), bool):
        return message["is_error"] is True
    if "error" in message:
        return bool(message["error"])
    return {"error": True, "success": False}.get(str(message.get("status")))


def _reasoning_text(value: object) -> str:
    """Return the texts in a reasoning item, or in parts of one."""
    if isinstance(value, Mapping):
        texts = (
            _reasoning_text(value.get(name))
            for name in ("text", "reasoning", "thinking", "summary", "content")
        )
        return next(filter(None, texts), "")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(filter(None, map(_reasoning_text, value)))
    if not isinstance(value, str):
        return ""
    return value


def _parse_calls_text(text: str) -> list[ToolCall]:
    """Parse ShareGPT's text of calls: an object with name and arguments, or a list of them.

    Any other text becomes one call without a name.
    """
    try:
        value = wire.loads(text)
    except ValueError:
        value = None
    calls = value if isinstance(value, list) else [value]
    mappings = [call for call in calls if isinstance(call, Mapping)]
    parsed = [_parse_call(call) for call in mappings if isinstance(call.get("name"), str)]
    if len(parsed) == len(calls) > 0:
        return parsed
    return [ToolCall("", text)]


def _normalize_role(word: str) -> str:
    """Normalize a role: lower case, one spelling."""
    plain = _NO_NAME.sub("_", word.strip().lower())[:_LONGEST_NAME]
    return _SPELLINGS.get(plain, plain)


def _heading_name(value: object) -> str:
    """Return a name that cannot end the heading in which it stands."""
    if not isinstance(value, str):
        return ""
    return _NO_NAME.sub("_", value)[:_LONGEST_NAME]


def _parse_call(call: Mapping[str, object]) -> ToolCall:
    """Parse a tool call of OpenAI's chat API, of verifiers (flat) or of inspect.

    In inspect, `function` is the name.
    """
    function = call.get("function")
    called = function if isinstance(function, Mapping) else call
    name = function if isinstance(function, str) else called.get("name")
    return ToolCall(
        _to_text(name),
        _to_text(called.get("arguments", called.get("input"))),
        _to_text(call.get("id")),
    )


def _read_parts(
    content: object, images: list[Image], thoughts: list[str]
) -> tuple[str, str, list[ToolCall]]:
    """Return a message's text, the text with its other parts rendered, and its tool calls.

    Images are added to `images`, with placeholders in the written text; reasoning is added to
    `thoughts`.

    Raises:
        UnseenPart: a part is neither text nor a tool call, nor reasoning, nor an image.
    """
    if isinstance(content, str) or not isinstance(content, Sequence):
        text = content if isinstance(content, str) else ""
        return text, text, []
    texts: list[str] = []
    shown: list[str] = []
    calls: list[ToolCall] = []
    for part in content:
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        if not isinstance(part, Mapping):
            kind = type(part).__name__
            raise UnseenPart(f"a message has a part of {kind}; expected text")
        kind, words = _part_type(part), part.get("text")
        if isinstance(words, str) and kind not in _SILENT_PARTS:
            texts.append(words)
            shown.append(words)
        elif kind in _CALLS:
            calls.append(_parse_call(part))
        elif kind in _RESULTS:
            output = part.get("content", part.get("output"))
            if _are_parts(output):
                shown.append(_read_parts(output, images, [])[1])
            else:
                shown.append(_to_text(output))
        elif kind in pictures.KINDS:
            images.append(pictures.read_image(part, len("".join(texts))))
            shown.append(_PLACEHOLDER)
        elif kind in _SILENT_PARTS:
            if kind != "refusal":
                thoughts.append(_reasoning_text(part) or REASONING)
        elif kind and kind not in _TEXT_PARTS:
            raise UnseenPart(
                f"a message has a part of type {kind}, which no judge is shown: it would judge "
                "blind; leave the row out, or replace the part by a text"
            )
    return "".join(texts), "".join(shown), calls


def _part_type(part: Mapping[str, object]) -> str:
    """Return the type of a part, or else the first field with a value."""
    kind = part.get("type")
    if isinstance(kind, str):
        return kind
    return next((name for name, value in part.items() if value is not None), "")


def _are_parts(output: object) -> bool:
    """Return whether a tool has returned parts of a message."""
    return (
        isinstance(output, list)
        and bool(output)
        and all(
            isinstance(part, Mapping) and _PART_OF_OUTPUT.search(str(part.get("type")))
            for part in output
        )
    )


def _to_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return wire.dumps(value).decode()  # type: ignore[arg-type]  # parsed from JSON
    except TypeError:  # a number beyond JSON's range, or too deep nesting
        return "…"
