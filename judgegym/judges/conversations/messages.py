"""The turns of conversations as data sets, trainers and the server hold them: chat messages and the like.

Formats: messages of OpenAI's chat API, items of the Responses API, ShareGPT, "Human: … Assistant:
…" transcripts.
Guarantees: all doors read conversations here, so that each part of a message becomes the same part
of a turn, whatever its format. A part that no judge is shown (audio, a file, an image where the
caller passes none on) is an `UnseenPart`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    answer_text,
    numbered,
    shown_text,
    text_turn,
    transcript,
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
_PLACEHOLDER = f"<{secrets.token_hex(8)}>"
"""What stands for an image in a text until lookalikes of marks are broken up; no text from outside can have it."""
_NO_NAME = re.compile(r"[^\w.\-]+")
_LONGEST_NAME = 64
_KEPT = (*CALL_FIELDS, "tool_call_id", "name", *REASONING_FIELDS)
_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):")


class ChatTurn(BaseModel):
    """A message of a conversation, as OpenAI's chat API has it."""

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
    """The turns of a list of messages, or of one message; `None` if the value is neither.

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
        for each in _apart(message) if isinstance(message, Mapping) else [message]:
            turn = _turn(each) if isinstance(each, Mapping) else None
            if turn is None:
                return None
            turns.append(turn)
    return numbered(name_tool_results(turns))


def name_tool_results(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns, in which a tool's result has the name of the call that it answers, and that call's id.

    A result names its call by id. One without an id answers the first call of the turns before it
    that has no result yet, or the first with its own name.
    """
    waiting: list[ToolCall] = []
    names: dict[str, str] = {}
    found: list[Turn] = []
    for turn in turns:
        if turn.calls:
            waiting = [*(waiting if found and found[-1].role == "assistant" else ()), *turn.calls]
            names |= {call.id: _name(call.name) for call in turn.calls if call.id}
        elif turn.role == "tool":
            said = (turn.answers, turn.name)
            fits = [
                one
                for one in waiting
                if (one.id == said[0] if said[0] else said[1] in ("", _name(one.name)))
            ]
            call = fits[0] if fits else ToolCall("", "")
            waiting = [one for one in waiting if one is not call]
            name = turn.name or _name(call.name) or names.get(turn.answers, "")
            turn = replace(turn, name=name, answers=turn.answers or call.id)
        found.append(turn)
    return tuple(found)


def parse_transcript(text: str) -> tuple[Turn, ...] | None:
    r"""The turns of a "\n\nHuman: …\n\nAssistant: …" transcript; `None` if the text is not one.

    An empty last turn of the assistant is left out.
    """
    _, *pieces = _SPEAKER.split(text.strip())
    if len(pieces) < 4 or pieces[0] != "Human":
        return None
    turns = [
        text_turn(_role(who), said.strip())
        for who, said in zip(pieces[::2], pieces[1::2], strict=True)
    ]
    return tuple(turns[:-1] if turns[-1] == text_turn("assistant", "") else turns)


def render_conversation(conversation: TextOrMessages) -> str:
    """A prompt as one text: its only turn, or all turns with their roles.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    return conversation if isinstance(conversation, str) else transcript(answer_turns(conversation))


def render_completion(conversation: TextOrMessages) -> str:
    """A completion as one text: empty if the policy wrote neither a text nor a tool call in it.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    return (
        conversation if isinstance(conversation, str) else answer_text(answer_turns(conversation))
    )


def answer_turns(conversation: TextOrMessages) -> tuple[Turn, ...]:
    """The turns of a completion; none of a text.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    if isinstance(conversation, str):
        return ()
    # Of a result, a field that is not there does not say that there was no error.
    return (
        parse_turns(
            [{"content": None, **turn.model_dump(exclude_unset=True)} for turn in conversation]
        )
        or ()
    )


def parse_items(items: Sequence[Mapping[str, object]]) -> tuple[Turn, ...]:
    """The turns of a Responses API list: what one response of the model holds (reasoning, text, calls) is one turn.

    Raises:
        UnseenPart: a message has a part that no judge is shown.
    """
    messages: list[dict[str, object]] = []
    for item in items:
        kind, last = item.get("type"), messages[-1] if messages else {}
        said: dict[str, object] = {"role": "assistant", "content": ""}
        if kind == "function_call":
            before = messages.pop() if last.get("role") == "assistant" else said
            calls = cast("Sequence[object]", before.get("tool_calls") or ())
            call = {"name": item.get("name"), "arguments": item.get("arguments")}
            made = {
                "id": item.get("call_id"),
                "type": "function",
                "function": call,
            }  # as chat messages have it
            said = {**before, "tool_calls": [*calls, made]}
        elif kind == "function_call_output":
            output = item.get("output")
            content = output if _are_parts(output) else _plain(output)
            said = {"role": "tool", "content": content, "tool_call_id": item.get("call_id")}
        elif kind == "reasoning":
            said["reasoning"] = _thoughts(item) or REASONING
        elif kind in (None, "message") or "role" in item:
            is_begun = last.keys() == {*said, "reasoning"} and last["content"] == ""
            said |= (messages.pop() if is_begun else {}) | {
                name: item[name] for name in item if item[name] is not None
            }
        else:
            said["content"] = f"[{_name(kind)}]"
        messages.append(said)
    return parse_turns(messages) or ()


def _apart(message: Mapping[str, object]) -> list[Mapping[str, object]]:
    """A user's message in Anthropic's form as several: one of each tool result that names its call, then the rest."""
    content = message.get("content")
    parts = (
        content
        if isinstance(content, list | tuple) and _role(str(message.get("role"))) in ("user", "tool")
        else ()
    )
    rest, found = list[object](), list[Mapping[str, object]]()
    for part in parts:
        fields = part if isinstance(part, Mapping) and part.get("type") in _RESULTS else {}
        answers = next((fields[name] for name in _RESULT_IDS if fields.get(name)), None)
        if answers is None:
            rest.append(part)
            continue
        output = fields.get("content", fields.get("output"))
        said = {
            "role": "tool",
            "tool_call_id": answers,
            "content": output if _are_parts(output) else _plain(output),
        }
        found.append({**said, **({"is_error": fields["is_error"]} if "is_error" in fields else {})})
    return [*found, *([{**message, "content": rest}] if rest else [])] if found else [message]


def _made_calls(value: object) -> list[Mapping[str, object]]:
    """The calls in a field `tool_calls`: a list, one call, or either as JSON text.

    Raises:
        UnseenPart: it holds something else.
    """
    value = (
        value.tolist() if hasattr(value, "tolist") else value
    )  # an array, as a data frame has it
    if isinstance(value, str):
        try:
            value = wire.loads(value) if value.strip() else None
        except ValueError:
            value = object()
    if not value or isinstance(value, Mapping):
        return [value] if isinstance(value, Mapping) and value else []
    if isinstance(value, list | tuple):
        return [call for each in value for call in _made_calls(each)]
    raise UnseenPart(
        "a message has tool_calls that cannot be read; expected a list of calls with names and "
        "arguments"
    )


def _turn(message: Mapping[str, object]) -> Turn | None:
    """The turn of a message, or `None`."""
    said_by = message.get("role") or message.get("from")
    content = message.get("value") if message.get("content") is None else message["content"]
    if (
        not isinstance(said_by, str)
        or not said_by
        or not (content is None or isinstance(content, Sequence))
    ):
        return None
    calls = [*_made_calls(message.get("tool_calls")), *_made_calls(message.get("function_call"))]
    if not calls and content is None and not {"content", "value"} & message.keys():
        return None
    images = list[Image]()
    thoughts = [
        str(message[field]) for field in REASONING_FIELDS if isinstance(message.get(field), str)
    ][:1]
    text, shown, written = _parts(content, images, thoughts)
    role = _role(said_by)
    if (
        said_by == "function_call"
    ):  # of ShareGPT with tools: the text is the call, or a list of calls
        text, shown, written = "", "", _parse_calls_text(shown)
    error = message.get("error")
    if (
        role == "tool" and isinstance(error, Mapping) and str(error.get("message")) not in text
    ):  # of inspect
        text, shown = (f"{before}\n{error.get('message')}".strip() for before in (text, shown))
    written += [_parse_call(call) for call in calls]
    name = _name(message.get("name")) or (_name(message.get("function")) if role == "tool" else "")
    more = {field: cast(JSON, message[field]) for field in _KEPT if message.get(field)}
    answers = str(message.get("tool_call_id") or "") if role == "tool" else ""
    reasoning = "\n".join(thoughts)
    whole = shown_text(shown, written, reasoning).replace(_PLACEHOLDER, UNNUMBERED)
    is_error = _is_error(message) if role == "tool" else None
    return Turn(
        role, text, whole, name, tuple(written), answers, reasoning, tuple(images), is_error, more
    )


def _is_error(message: Mapping[str, object]) -> bool | None:
    """Whether a tool's message says that it is an error: `is_error`, `error` (inspect), `status` (LangChain)."""
    if isinstance(message.get("is_error"), bool):
        return message["is_error"] is True
    if "error" in message:
        return bool(message["error"])
    return {"error": True, "success": False}.get(str(message.get("status")))


def _thoughts(value: object) -> str:
    """The texts in a reasoning item, or in parts of one."""
    if isinstance(value, Mapping):
        found = (
            _thoughts(value.get(name))
            for name in ("text", "reasoning", "thinking", "summary", "content")
        )
        return next(filter(None, found), "")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(filter(None, map(_thoughts, value)))
    return value if isinstance(value, str) else ""


def _parse_calls_text(text: str) -> list[ToolCall]:
    """The calls that a text is in ShareGPT: an object with name and arguments, or a list of them; else the text."""
    try:
        value = wire.loads(text)
    except ValueError:
        value = None
    calls = value if isinstance(value, list) else [value]
    named = [
        _parse_call(call)
        for call in calls
        if isinstance(call, Mapping) and isinstance(call.get("name"), str)
    ]
    return named if len(named) == len(calls) > 0 else [ToolCall("", text)]


def _role(word: str) -> str:
    """A role as it is written: in lower case, and in one spelling."""
    plain = _NO_NAME.sub("_", word.strip().lower())[:_LONGEST_NAME]
    return _SPELLINGS.get(plain, plain)


def _name(value: object) -> str:
    """A name as it stands in a heading, which it cannot end."""
    return _NO_NAME.sub("_", value)[:_LONGEST_NAME] if isinstance(value, str) else ""


def _parse_call(call: Mapping[str, object]) -> ToolCall:
    """A tool call: of OpenAI's chat API, of verifiers (flat), or of inspect (`function` is the name)."""
    function = call.get("function")
    called = function if isinstance(function, Mapping) else call
    name = function if isinstance(function, str) else called.get("name")
    return ToolCall(
        _plain(name), _plain(called.get("arguments", called.get("input"))), _plain(call.get("id"))
    )


def _parts(
    content: object, images: list[Image], thoughts: list[str]
) -> tuple[str, str, list[ToolCall]]:
    """The text of a message's content, the text with its other parts written out, and the tool calls among them.

    Images are added to `images`, with placeholders in the text that is written out, and reasoning
    to `thoughts`.

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
            raise UnseenPart(f"a message has a part of {type(part).__name__}; expected text")
        kind, words = _kind(part), part.get("text")
        if isinstance(words, str) and kind not in _SILENT_PARTS:
            texts.append(words)
            shown.append(words)
        elif kind in _CALLS:
            calls.append(_parse_call(part))
        elif kind in _RESULTS:
            output = part.get("content", part.get("output"))
            shown.append(_parts(output, images, [])[1] if _are_parts(output) else _plain(output))
        elif kind in pictures.KINDS:
            images.append(pictures.read_image(part, len("".join(texts))))
            shown.append(_PLACEHOLDER)
        elif kind in _SILENT_PARTS:
            thoughts += [_thoughts(part) or REASONING] if kind != "refusal" else []
        elif kind and kind not in _TEXT_PARTS:
            raise UnseenPart(
                f"a message has a part of type {kind}, which no judge is shown: what is said of it "
                "would be judged "
                "blind; leave the row out, or put a text in place of the part"
            )
    return "".join(texts), "".join(shown), calls


def _kind(part: Mapping[str, object]) -> str:
    """The type of a part; without one, the first field that holds something."""
    kind = part.get("type")
    if isinstance(kind, str):
        return kind
    return next((name for name, value in part.items() if value is not None), "")


def _are_parts(output: object) -> bool:
    """Whether a tool has returned parts of a message."""
    return (
        isinstance(output, list)
        and bool(output)
        and all(
            isinstance(part, Mapping) and _PART_OF_OUTPUT.search(str(part.get("type")))
            for part in output
        )
    )


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return wire.dumps(value).decode()  # type: ignore[arg-type]  # parsed from JSON
    except TypeError:  # a number that JSON cannot hold, or nested too deeply
        return "…"
