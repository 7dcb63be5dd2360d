"""Conversations as text for a judge: chat messages, the items of the Responses API, ShareGPT, transcripts.

Guarantees: all doors (data sets, environments, the server, integrations, Python) read and write conversations here.
Nothing of a conversation is left out without a word: tool calls are written out with their arguments, tool results with
their names, reasoning is named in brackets, images are marked (`images.py`), and a part that no judge is shown (audio,
a file, an image where the caller passes none on) is an `UnseenPart`. What a judge is asked to score is what the policy
itself wrote: a completion without text and tool calls is empty. No message can pass for several turns: where turns have
headings (`user: …`), a line of a message that looks like one is broken up (`user¦: …`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict

from judgegym.judges.conversations import images as pictures
from judgegym.llm import wire
from judgegym.llm.template_tokens import BREAK
from judgegym.llm.wire import JSON, Image, Message, Role

_NOT_OF_THE_POLICY = frozenset({"system", "developer", "user", "tool"})
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
_ROLES = "assistant|user|tool|function|system|developer"
_NAME = r"(?: \([\w.\-]+\))?"
_HEADING = re.compile(rf"(?:{_ROLES}){_NAME}: ")
_LATER_HEADING = re.compile(rf"\n\n(?=(?:{_ROLES}){_NAME}: )")
_LINE = r"(?:\A|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))"
_SAID_TO_BE = (*_ROLES.split("|"), "human")
_LIKE_HEADING = re.compile(
    rf"({_LINE}[ \t>*_#`~\[(-]*(?:{'|'.join(_SAID_TO_BE)})(?:[ \t]*\([^()\n:：]*\))?[ \t*_`~\])]*)(?=[:：])",
    re.IGNORECASE,
)
_SILENT_PARTS = frozenset({"refusal", "reasoning", "thinking", "think", "redacted_thinking", "summary_text"})
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_CALLS = frozenset({"tool_use", "tool_call", "function_call"})
_RESULTS = frozenset({"tool_result", "tool_response", "function_call_output"})
_PART_OF_OUTPUT = re.compile(r"text|image|audio|video|file|document")
_NO_NAME = re.compile(r"[^\w.\-]+")
_LONGEST_NAME = 64
_KEPT = ("tool_calls", "function_call", "tool_call_id", "name")
_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):")


class UnseenPart(ValueError):
    """A conversation has a part that no judge is shown, such as an image: judging the rest would be judging blind."""


class ChatTurn(BaseModel):
    """A message of a conversation, as OpenAI's chat API has it."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: str
    content: str | list[dict[str, object]] | None = None
    name: object = None
    tool_calls: list[dict[str, object]] | None = None
    function_call: dict[str, object] | None = None
    tool_call_id: object = None


TextOrMessages: TypeAlias = str | list[ChatTurn]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool: its name, its arguments as the policy wrote them, and the id by which its result refers to it.

    `id` is empty where the format has none.
    """

    name: str
    arguments: str
    id: str = ""

    @property
    def shown(self) -> str:
        """The call as a judge sees it."""
        return f"[tool call: {self.name}({self.arguments})]" if self.name else f"[tool call: {self.arguments}]"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation.

    Attributes:
        role: `user`, `assistant`, `system`, `tool` or another one, in lower case.
        text: its text.
        shown: its text with all else that it holds written out, as a judge sees it.
        name: whose turn it is, or which tool's; empty without one.
        calls: its tool calls.
        answers: of a tool's result, the id of the call that it answers; empty if unknown.
        reasoning: the reasoning that came apart from the text; no judge is shown it.
        images: its images, in the order of their marks in `shown`.
        more: the fields of the message beside role and content, for a policy or a trainer that reads it.
    """

    role: str
    text: str
    shown: str
    name: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    reasoning: str = ""
    images: tuple[Image, ...] = ()
    more: Mapping[str, JSON] = field(default_factory=dict, compare=False, repr=False)

    @property
    def heading(self) -> str:
        """Role and name, as they stand before the turn."""
        return f"{self.role} ({self.name})" if self.name else self.role

    def message(self) -> dict[str, JSON]:
        """The turn as a chat message, for a policy or a trainer.

        Raises:
            UnseenPart: it has more than text and the usual fields, such as tool calls among the parts of its content.
        """
        whole = "\n".join([*([self.text] if self.text else []), *(call.shown for call in self.calls)])
        plain = pictures.without_marks(self.shown)
        if whole not in (self.shown, plain) or (self.calls and not {"tool_calls", "function_call"} & self.more.keys()):
            raise UnseenPart(
                f"a message of the {self.role} holds more than text and tool_calls, so it cannot be written again"
            )
        return {"role": self.role, "content": wire.content_json(self.text, self.images), **self.more}

    def asked(self) -> Message:
        """The turn as a message that a policy is asked; raises as `message`."""
        asked = cast(Message, {**self.message(), "content": self.text})
        return {**asked, "images": self.images} if self.images else asked


def text_turn(role: str, text: str) -> Turn:
    """A turn that holds a text alone."""
    return Turn(role, text, text)


def turns_of(value: object) -> tuple[Turn, ...] | None:
    """The turns of a list of messages, or of one message; `None` if the value is neither.

    A message is one of OpenAI's chat API (`role`, `content`, `tool_calls`, `name`) or of ShareGPT (`from`, `value`).

    Raises:
        UnseenPart: a message has a part that no judge is shown.
    """
    messages = [value] if isinstance(value, Mapping) else value
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence) or not messages:
        return None
    names: dict[str, str] = {}
    turns: list[Turn] = []
    for message in messages:
        turn = _turn(message, names) if isinstance(message, Mapping) else None
        if turn is None:
            return None
        turns.append(turn)
    return numbered(turns)


def numbered(turns: Sequence[Turn], first: int = 1) -> tuple[Turn, ...]:
    """Turns whose images are numbered from `first` through all of them; without images, the turns as they are."""
    found: list[Turn] = []
    for turn in turns if any(turn.images for turn in turns) else ():
        shown, images = pictures.renumbered(turn.shown, turn.images, first)
        found.append(replace(turn, shown=shown, images=images))
        first += len(images)
    return tuple(found or turns)


def images_of(turns: Sequence[Turn]) -> tuple[Image, ...]:
    """The images of turns, in the order of their marks."""
    return tuple(image for turn in turns for image in turn.images)


def turns_of_transcript(text: str) -> tuple[Turn, ...] | None:
    r"""The turns of a "\n\nHuman: …\n\nAssistant: …" transcript; `None` if the text is not one.

    An empty last turn of the assistant is left out.
    """
    _, *pieces = _SPEAKER.split(text.strip())
    if len(pieces) < 4 or pieces[0] != "Human":
        return None
    turns = [text_turn(_role(who), said.strip()) for who, said in zip(pieces[::2], pieces[1::2], strict=True)]
    return tuple(turns[:-1] if turns[-1] == text_turn("assistant", "") else turns)


def text_of(conversation: TextOrMessages) -> str:
    """A prompt as one text: its only turn, or all turns with their roles.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    return conversation if isinstance(conversation, str) else transcript(of_messages(conversation))


def answer_of(conversation: TextOrMessages) -> str:
    """A completion as one text: empty if the policy wrote neither a text nor a tool call in it.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    return conversation if isinstance(conversation, str) else answer_text(of_messages(conversation))


def answer_text(turns: Sequence[Turn], *, shows_images: bool = False) -> str:
    """A completion's turns as one text: empty if the policy wrote neither a text nor a tool call in them.

    Raises:
        UnseenPart: as `transcript`.
    """
    own = any(turn.text.strip() or turn.calls for turn in turns if turn.role not in _NOT_OF_THE_POLICY)
    return transcript(turns, shows_images=shows_images) if own else ""


def transcript(turns: Sequence[Turn], *, shows_images: bool = False) -> str:
    """Turns as one text: the only turn of a user or an assistant without its role; several with their roles.

    Turns without anything in them are left out. A single turn of an assistant that begins like the heading of a turn
    has its role, too, so that it is no conversation.

    Args:
        turns: the turns.
        shows_images: the caller passes `images_of(turns)` on to the judge; otherwise turns with images are refused.

    Raises:
        UnseenPart: a turn has an image, and nobody would be shown it.
    """
    images = images_of(turns)
    if images and not (shows_images and all(image.url for image in images)):
        why = "which is not shown here" if all(image.url for image in images) else "and the image is not there"
        raise UnseenPart(f"a message has a part of type image, {why}: what is said of it would be judged blind")
    filled = [turn for turn in turns if turn.shown.strip()]
    if len(filled) == 1:
        (only,) = filled
        if only.role == "user" or (only.role == "assistant" and not _HEADING.match(only.shown)):
            return only.shown
    return "\n\n".join(f"{turn.heading}: {_without_headings(turn.shown)}" for turn in filled)


def messages_of(text: str) -> list[Message]:
    r"""A prompt as chat messages, for a model that reads conversations: the turns that `transcript` has written out.

    A text of other turns than those of system, user and assistant, or of one turn, is one message of the user.

    >>> [message["role"] for message in messages_of("system: Be brief.\n\nuser: Why is the sky blue?")]
    ['system', 'user']
    """
    pieces = _LATER_HEADING.split(text) if _HEADING.match(text) else []
    turns = [piece.partition(": ")[::2] for piece in pieces]
    if len(turns) < 2 or not all(role in get_args(Role) for role, _ in turns):
        return [Message(role="user", content=text)]
    return [Message(role=cast(Role, role), content=said) for role, said in turns]


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
    """An item of a Responses API list: a message, a tool call, a tool output, reasoning, or another kind.

    Raises:
        UnseenPart: a message has a part that no judge is shown.
    """
    kind = item.get("type")
    if kind == "function_call":
        call = _call(item.get("name"), item.get("arguments"), item.get("call_id"))
        return Turn("assistant", "", call.shown, calls=(call,))
    if kind == "function_call_output":
        images = list[Image]()
        output, found = pictures.marked(_output(item.get("output"), images), images)
        return Turn("tool", "", output, images=found)
    if kind == "reasoning":
        return Turn("assistant", "", "[reasoning, left out]")
    if kind in (None, "message") or "role" in item:
        role = item.get("role")
        images = list[Image]()
        text, shown, calls = _parts(item.get("content"), images)
        whole, found = pictures.marked(
            "\n".join([*([shown] if shown else []), *(call.shown for call in calls)]), images
        )
        return Turn(
            _role(role) if isinstance(role, str) else "assistant", text, whole, calls=tuple(calls), images=found
        )
    return Turn("assistant", "", f"[{kind}]")


def of_messages(messages: Sequence[ChatTurn]) -> Sequence[Turn]:
    """The turns of messages.

    Raises:
        UnseenPart: a message has a part that no judge is shown.
    """
    return turns_of([message.model_dump() for message in messages]) or ()


def _turn(message: Mapping[str, object], names: dict[str, str]) -> Turn | None:
    """The turn of a message, or `None`; `names` has the tools of earlier calls by their ids, and takes more."""
    said_by = message.get("role") or message.get("from")
    content = message.get("value") if message.get("content") is None else message["content"]
    is_text = isinstance(content, str) or content is None
    if not isinstance(said_by, str) or not said_by or not (is_text or isinstance(content, Sequence)):
        return None
    made = message.get("tool_calls")
    calls = [call for call in made if isinstance(call, Mapping)] if isinstance(made, Sequence) else []
    once = message.get("function_call")
    calls += [once] if isinstance(once, Mapping) else []
    if not calls and content is None and not {"content", "value"} & message.keys():
        return None
    names |= {str(call["id"]): _name(_called(call).get("name")) for call in calls if call.get("id")}
    images = list[Image]()
    text, shown, written = _parts(content, images)
    if said_by == "function_call":  # of ShareGPT with tools: the text is the call
        text, shown, written = "", "", [ToolCall("", shown)]
    written += [_call(_called(call).get("name"), _called(call).get("arguments"), call.get("id")) for call in calls]
    role = _role(said_by)
    name = _name(message.get("name")) or (names.get(str(message.get("tool_call_id")), "") if role == "tool" else "")
    more = {field: cast(JSON, message[field]) for field in _KEPT if message.get(field)}
    whole, found = pictures.marked("\n".join([*([shown] if shown else []), *(call.shown for call in written)]), images)
    answers = str(message.get("tool_call_id") or "")
    return Turn(role, text, whole, name, tuple(written), answers, images=found, more=more)


def _role(word: str) -> str:
    """A role as it is written: in lower case, and in one spelling."""
    plain = _NO_NAME.sub("_", word.strip().lower())[:_LONGEST_NAME]
    return _SPELLINGS.get(plain, plain)


def _name(value: object) -> str:
    """A name as it stands in a heading, which it cannot end."""
    return _NO_NAME.sub("_", value)[:_LONGEST_NAME] if isinstance(value, str) else ""


def _called(call: Mapping[str, object]) -> Mapping[str, object]:
    """What a tool call says of its function."""
    function = call.get("function")
    return function if isinstance(function, Mapping) else call


def _call(name: object, arguments: object, number: object = None) -> ToolCall:
    return ToolCall(_plain(name), _plain(arguments), _plain(number))


def _parts(content: object, images: list[Image]) -> tuple[str, str, list[ToolCall]]:
    """The text of a message's content, the text with its other parts written out, and the tool calls among them.

    Images are added to `images`, with placeholders in the text that is written out (`images.marked`).

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
            called = _called(part)
            calls.append(_call(called.get("name"), called.get("arguments", called.get("input")), part.get("id")))
        elif kind in _RESULTS:
            shown.append(_output(part.get("content", part.get("output")), images))
        elif kind in pictures.KINDS:
            try:
                images.append(pictures.read_image(part, len("".join(texts))))
            except pictures.ImageError as error:
                raise UnseenPart(f"a message has a part of type {kind} that cannot be shown: {error}") from None
            shown.append(pictures.placeholder(len(images)))
        elif kind in _SILENT_PARTS:
            shown += [] if kind == "refusal" else [f"[{kind}]"]
        elif kind and kind not in _TEXT_PARTS:
            raise UnseenPart(
                f"a message has a part of type {kind}, which no judge is shown: what is said of it would be judged "
                "blind; leave the row out, or put a text in place of the part"
            )
    return "".join(texts), "".join(shown), calls


def _kind(part: Mapping[str, object]) -> str:
    """The type of a part; without one, the first field that holds something."""
    kind = part.get("type")
    if isinstance(kind, str):
        return kind
    return next((name for name, value in part.items() if value is not None), "")


def _output(output: object, images: list[Image]) -> str:
    """What a tool has returned: a text, parts of a message, or another value as JSON."""
    are_parts = isinstance(output, list) and all(
        isinstance(part, Mapping) and _PART_OF_OUTPUT.search(str(part.get("type"))) for part in output
    )
    return _parts(output, images)[1] if output and are_parts else _plain(output)


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return wire.dumps(value).decode()  # type: ignore[arg-type]  # parsed from JSON
    except TypeError:  # a number that JSON cannot hold, or nested too deeply
        return "…"
