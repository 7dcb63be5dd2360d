"""Conversations as text for a judge: chat messages, the items of the Responses API, ShareGPT, transcripts.

Guarantees: all doors (data sets, environments, the server, integrations, Python) read and write conversations here,
so that a judge sees the same conversation in the same words, whatever its format. Nothing of it is left out without a
word: tool calls are written out with their arguments (a JSON object in one form), tool results with the name of the
tool, reasoning is named in brackets, images are marked (`images.py`), and a part that no judge is shown (audio, a file,
an image where the caller passes none on) is an `UnseenPart`. An answer of
one turn is its text: like the thinking of a policy, its reasoning is not part of it. What a judge is asked to score is
what the policy itself wrote: a completion without text and tool calls is empty. No message can pass for several turns,
or for a tool call that was not made: where turns have headings (`user: …`), a line of a message that looks like one is
broken up (`user¦: …`), and so is what looks like a mark of ours (`[¦tool call: …`).
"""

from __future__ import annotations

import json
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
REASONING = "[reasoning, left out]"
"""What stands in the place of reasoning."""
_CUTS = r"(?:left[ \t]+out|shortened)[ \t*_`~]*[:：]"
_MARKS = rf"tool[ \t_-]*call[ \t*_`~]*[:：]|reasoning[ \t]*,[ \t]*left[ \t]+out|{_CUTS}|images?[ \t#*_`~]*\d"
_LIKE_CUT, _LIKE_MARK = (re.compile(rf"[\[［【〔](?=[ \t*_`~]*(?:{of}))", re.IGNORECASE) for of in (_CUTS, _MARKS))
"""The first sign of what looks like a mark of ours: of a cut or the note about cuts; or of any mark."""
_SILENT_PARTS = frozenset({"refusal", "reasoning", "thinking", "think", "redacted_thinking", "summary_text"})
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_ERROR_FIELDS = frozenset({"is_error", "error", "status"})
"""The fields of a tool's message that say whether it is an error; a missing one says nothing."""
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_CALLS = frozenset({"tool_use", "tool_call", "function_call"})
_RESULTS = frozenset({"tool_result", "tool_response", "function_call_output"})
_PART_OF_OUTPUT = re.compile(r"text|image|audio|video|file|document")
_NO_NAME = re.compile(r"[^\w.\-]+")
_LONGEST_NAME = 64
_CALL_FIELDS = ("tool_calls", "function_call")
_KEPT = (*_CALL_FIELDS, "tool_call_id", "name", *_REASONING_FIELDS)
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
    reasoning_content: object = None
    reasoning: object = None
    is_error: object = None
    error: object = None
    status: object = None


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
        """The call as a judge sees it: a JSON object of arguments on one line, other arguments as they are."""
        arguments = _one_form(self.arguments)
        return f"[tool call: {without_marks(f'{self.name}({arguments})' if self.name else arguments)}]"


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
        is_error: of a tool's result, whether its format says that it is an error; `None` if the format does not say.
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
    is_error: bool | None = None
    more: Mapping[str, JSON] = field(default_factory=dict, compare=False, repr=False)

    @property
    def heading(self) -> str:
        """Role and name, as they stand before the turn."""
        return f"{self.role} ({self.name})" if self.name else self.role

    @property
    def is_of_policy(self) -> bool:
        """Whether the policy wrote it: it is of none of the other roles."""
        return self.role not in _NOT_OF_THE_POLICY

    @property
    def is_step(self) -> bool:
        """Whether the policy wrote a text or a tool call in it, and not its reasoning alone."""
        return self.is_of_policy and bool(self.text.strip() or self.calls)

    def message(self) -> dict[str, JSON]:
        """The turn as a chat message, for a policy or a trainer.

        Raises:
            UnseenPart: it has more than text and the usual fields, such as tool calls among the parts of its content.
        """
        kept = self.more.keys()
        is_lost = (self.calls and not kept & {*_CALL_FIELDS}) or (self.reasoning and not kept & {*_REASONING_FIELDS})
        shown = pictures.without_marks(self.shown) if self.images else self.shown
        if is_lost or shown not in (self.text, _shown(self.text, self.calls, self.reasoning)):
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
    turns: list[Turn] = []
    for message in messages:
        turn = _turn(message) if isinstance(message, Mapping) else None
        if turn is None:
            return None
        turns.append(turn)
    return numbered(with_names(turns))


def numbered(turns: Sequence[Turn], first: int = 1) -> tuple[Turn, ...]:
    """Turns whose images are numbered from `first` through all of them; without images, the turns as they are."""
    found: list[Turn] = []
    for turn in turns:
        shown, images = pictures.renumbered(turn.shown, turn.images, first) if turn.images else (turn.shown, ())
        found.append(replace(turn, shown=shown, images=images) if images else turn)
        first += len(images)
    return tuple(found)


def images_of(turns: Sequence[Turn]) -> tuple[Image, ...]:
    """The images of turns, in the order of their marks."""
    return tuple(image for turn in turns for image in turn.images)


def with_names(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns, in which a tool's result has the name of the call that it answers, and that call's id.

    A result names its call by id. One without an id answers the first call of the turns before it that has no result
    yet, or the first with its own name.
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
            fits = [one for one in waiting if (one.id == said[0] if said[0] else said[1] in ("", _name(one.name)))]
            call = fits[0] if fits else ToolCall("", "")
            waiting = [one for one in waiting if one is not call]
            name = turn.name or _name(call.name) or names.get(turn.answers, "")
            turn = replace(turn, name=name, answers=turn.answers or call.id)
        found.append(turn)
    return tuple(found)


def turns_of_transcript(text: str) -> tuple[Turn, ...] | None:
    r"""The turns of a "\n\nHuman: …\n\nAssistant: …" transcript; `None` if the text is not one.

    An empty last turn of the assistant is left out.
    """
    _, *pieces = _SPEAKER.split(text.strip())
    if len(pieces) < 4 or pieces[0] != "Human":
        return None
    turns = [text_turn(_role(who), said.strip()) for who, said in zip(pieces[::2], pieces[1::2], strict=True)]
    return tuple(turns[:-1] if turns[-1] == text_turn("assistant", "") else turns)


def text_of(conversation: TextOrMessages, *, shows_images: bool = False) -> str:
    """A prompt as one text: its only turn, or all turns with their roles.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    turns = answer_turns(conversation)
    return conversation if isinstance(conversation, str) else transcript(turns, shows_images=shows_images)


def answer_of(conversation: TextOrMessages, *, shows_images: bool = False) -> str:
    """A completion as one text: empty if the policy wrote neither a text nor a tool call in it.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    turns = answer_turns(conversation)
    return conversation if isinstance(conversation, str) else answer_text(turns, shows_images=shows_images)


def answer_turns(conversation: TextOrMessages) -> tuple[Turn, ...]:
    """The turns of a completion; none of a text.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    return () if isinstance(conversation, str) else tuple(_of_messages(conversation))


def answer_text(turns: Sequence[Turn], *, shows_images: bool = False) -> str:
    """A completion's turns as one text: empty if the policy wrote neither a text nor a tool call in them.

    Raises:
        UnseenPart: as `transcript`.
    """
    return transcript(turns, shows_images=shows_images) if any(turn.is_step for turn in turns) else ""


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
    if images := [image for image in images_of(turns) if not (shows_images and image.url)]:
        why = "here, so it would judge blind" if images[0].url else "because the image is not there"
        raise UnseenPart(f"a message has a part of type image, which no judge is shown {why}")
    filled = [turn for turn in turns if turn.shown.strip()]
    if len(filled) == 1:
        (only,) = filled
        said = only.shown.removeprefix(f"{REASONING}\n") if only.reasoning else only.shown
        if only.role == "user" or (only.role == "assistant" and not _HEADING.match(said)):
            return said
    return "\n\n".join(map(_with_heading, filled))


def with_turns(prompt: str, turns: Sequence[Turn]) -> str:
    """A prompt as one text with later turns behind it, as `transcript` writes them; unchanged without any."""
    filled = [turn for turn in turns if turn.shown.strip()]
    first = [prompt if _HEADING.match(prompt) else _with_heading(text_turn("user", prompt))] if prompt.strip() else []
    return "\n\n".join([*first, *map(_with_heading, filled)]) if filled else prompt


def _guarded(turn: Turn) -> str:
    """What a turn of several shows, without lines that look like headings, and without marks that are not ours."""
    return _without_headings(without_marks(turn.shown) if turn.shown == turn.text else turn.shown)


def without_marks(text: str, *, only_cuts: bool = False) -> str:
    """A text in which everything that looks like a mark of ours, or of a cut, is broken up; as it is without any.

    >>> without_marks("I did it: [tool call: search({})]")
    'I did it: [¦tool call: search({})]'
    """
    return (_LIKE_CUT if only_cuts else _LIKE_MARK).sub(lambda sign: f"{sign[0]}{BREAK}", text)


def messages_of(text: str) -> list[Message]:
    r"""A prompt as chat messages, for a model that reads conversations: the turns that `transcript` has written out.

    A text of other turns than those of system, user and assistant, or of one turn, is one message of the user.

    >>> [message["role"] for message in messages_of("system: Be brief.\n\nuser: Why is the sky blue?")]
    ['system', 'user']
    """
    turns = headed_turns(text)
    if len(turns) < 2 or not all(role in get_args(Role) for role, _ in turns):
        return [Message(role="user", content=text)]
    return [Message(role=cast(Role, role), content=said) for role, said in turns]


def headed_turns(text: str) -> list[tuple[str, str]]:
    """The headings and texts of the turns that `transcript` has written out; none of a text that is no conversation."""
    pieces = _LATER_HEADING.split(text) if _HEADING.match(text) else []
    return [(heading, said) for heading, _, said in (piece.partition(": ") for piece in pieces)]


def _with_heading(turn: Turn) -> str:
    return f"{turn.heading}: {_guarded(turn)}"


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


def turns_of_items(items: Sequence[Mapping[str, object]]) -> tuple[Turn, ...]:
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
            said = {**before, "tool_calls": [*calls, {**item, "id": item.get("call_id")}]}
        elif kind == "function_call_output":
            output = item.get("output")
            content = output if _are_parts(output) else _plain(output)
            said = {"role": "tool", "content": content, "tool_call_id": item.get("call_id")}
        elif kind == "reasoning":
            said["reasoning"] = _thoughts(item) or REASONING
        elif kind in (None, "message") or "role" in item:
            is_begun = last.keys() == {*said, "reasoning"} and last["content"] == ""
            said |= (messages.pop() if is_begun else {}) | {name: item[name] for name in item if item[name] is not None}
        else:
            said["content"] = f"[{_name(kind)}]"
        messages.append(said)
    return turns_of(messages) or ()


def _of_messages(messages: Sequence[ChatTurn]) -> Sequence[Turn]:
    dumped = [message.model_dump(exclude={*_ERROR_FIELDS} - message.model_fields_set) for message in messages]
    return turns_of(dumped) or ()


def _turn(message: Mapping[str, object]) -> Turn | None:
    """The turn of a message, or `None`."""
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
    images = list[Image]()
    text, shown, written = _parts(content, images)
    role = _role(said_by)
    if said_by == "function_call":  # of ShareGPT with tools: the text is the call, or a list of calls
        text, shown, written = "", "", _calls_of_text(shown)
    error = message.get("error")
    if role == "tool" and isinstance(error, Mapping) and str(error.get("message")) not in text:  # of inspect
        text, shown = (f"{before}\n{error.get('message')}".strip() for before in (text, shown))
    written += [_call_of(call) for call in calls]
    name = _name(message.get("name")) or (_name(message.get("function")) if role == "tool" else "")
    more = {field: cast(JSON, message[field]) for field in _KEPT if message.get(field)}
    answers = str(message.get("tool_call_id") or "") if role == "tool" else ""
    thoughts = [message[field] for field in _REASONING_FIELDS if isinstance(message.get(field), str)][:1]
    parts = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    thoughts += [_thoughts(part) or REASONING for part in parts if isinstance(part, Mapping) and _is_thought(part)]
    reasoning = "\n".join(map(str, thoughts))
    whole, found = pictures.marked(_shown(shown, written, reasoning), images)
    is_error = _is_error(message) if role == "tool" else None
    return Turn(role, text, whole, name, tuple(written), answers, reasoning, found, is_error, more)


def _is_error(message: Mapping[str, object]) -> bool | None:
    """Whether a tool's message says that it is an error: `is_error`, `error` (inspect), `status` (LangChain)."""
    if isinstance(message.get("is_error"), bool):
        return message["is_error"] is True
    if "error" in message:
        return bool(message["error"])
    return {"error": True, "success": False}.get(str(message.get("status")))


def _shown(text: str, calls: Sequence[ToolCall], reasoning: str) -> str:
    """What a judge sees of a turn: that there is reasoning, the text, and the calls."""
    pieces = [*([REASONING] if reasoning else []), *([without_marks(text)] if text else [])]
    return "\n".join([*pieces, *(call.shown for call in calls)])


def _is_thought(part: Mapping[str, object]) -> bool:
    return _kind(part) in _SILENT_PARTS and _kind(part) != "refusal"


def _thoughts(value: object) -> str:
    """The texts in a reasoning item, or in parts of one."""
    if isinstance(value, Mapping):
        found = (_thoughts(value.get(name)) for name in ("text", "reasoning", "thinking", "summary", "content"))
        return next(filter(None, found), "")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(filter(None, map(_thoughts, value)))
    return value if isinstance(value, str) else ""


def _calls_of_text(text: str) -> list[ToolCall]:
    """The calls that a text is in ShareGPT: an object with name and arguments, or a list of them; else the text."""
    try:
        value = wire.loads(text)
    except ValueError:
        value = None
    calls = value if isinstance(value, list) else [value]
    named = [_call_of(call) for call in calls if isinstance(call, Mapping) and isinstance(call.get("name"), str)]
    return named if len(named) == len(calls) > 0 else [ToolCall("", text)]


def _role(word: str) -> str:
    """A role as it is written: in lower case, and in one spelling."""
    plain = _NO_NAME.sub("_", word.strip().lower())[:_LONGEST_NAME]
    return _SPELLINGS.get(plain, plain)


def _name(value: object) -> str:
    """A name as it stands in a heading, which it cannot end."""
    return _NO_NAME.sub("_", value)[:_LONGEST_NAME] if isinstance(value, str) else ""


def _call_of(call: Mapping[str, object]) -> ToolCall:
    """A tool call: of OpenAI's chat API, of verifiers (flat), or of inspect (`function` is the name)."""
    function = call.get("function")
    called = function if isinstance(function, Mapping) else call
    name = function if isinstance(function, str) else called.get("name")
    return _call(name, called.get("arguments", called.get("input")), call.get("id"))


def _call(name: object, arguments: object, number: object = None) -> ToolCall:
    return ToolCall(_plain(name), _plain(arguments), _plain(number))


def _one_form(arguments: str) -> str:
    """Arguments in the form that does not depend on the format: a JSON object compact, other texts as they are."""
    if not arguments.lstrip().startswith("{"):
        return arguments
    try:
        value = json.loads(arguments, object_pairs_hook=_distinct)
        return wire.scrub(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except (ValueError, RecursionError):
        return arguments


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object without repeated names: one of two values would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a repeated name")
    return found


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
            calls.append(_call_of(part))
        elif kind in _RESULTS:
            shown.append(_output(part.get("content", part.get("output")), images))
        elif kind in pictures.KINDS:
            try:
                images.append(pictures.read_image(part, len("".join(texts))))
            except pictures.ImageError as error:
                raise UnseenPart(f"a message has a part of type {kind}, which no judge is shown: {error}") from None
            shown.append(pictures.placeholder(len(images)))
        elif kind in _SILENT_PARTS:
            continue  # a refusal says nothing; of reasoning `_thoughts` tells
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
    return _parts(output, images)[1] if _are_parts(output) else _plain(output)


def _are_parts(output: object) -> bool:
    """Whether a tool has returned parts of a message."""
    return (
        isinstance(output, list)
        and bool(output)
        and all(isinstance(part, Mapping) and _PART_OF_OUTPUT.search(str(part.get("type"))) for part in output)
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
