"""Conversations as text for a judge: turns, and the transcripts written from them.

Guarantees: all entry points (data sets, environments, the server, plugins, Python) write
conversations here, so that a judge sees the same conversation in the same words, whatever its
format; `messages.py` reads them. Nothing of a turn is silently left out: tool calls are written
with their arguments (a JSON object in one form), tool results with the name of the tool; reasoning
is named in brackets, and images are marked. An answer of one turn is its text; its reasoning is not
part of it, like a policy's thinking. A judge scores what the policy itself wrote: a completion
without text and tool calls is empty. No message can pass for several turns, or for a tool call that
was not made: where turns have headings (`user: …`), a line of a message that looks like one is
broken up (`user¦: …`), and so are lookalikes of our marks (`[¦tool call: …`).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import cast, get_args

from judgegym.llm import wire
from judgegym.llm.template_tokens import BREAK
from judgegym.llm.wire import JSON, Image, Message, Role

_NOT_OF_THE_POLICY = frozenset({"system", "developer", "user", "tool"})
_ROLES = "assistant|user|tool|function|system|developer"
_NAME = r"(?: \([\w.\-]+\))?"
_HEADING = re.compile(rf"(?:{_ROLES}){_NAME}: ")
_LATER_HEADING = re.compile(rf"\n\n(?=(?:{_ROLES}){_NAME}: )")
_LINE = r"(?:\A|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))"
_SAID_TO_BE = (*_ROLES.split("|"), "human")
_ANY_ROLE = "|".join(_SAID_TO_BE)
_LIKE_HEADING = re.compile(
    rf"({_LINE}[ \t>*_#`~\[(-]*(?:{_ANY_ROLE})(?:[ \t]*\([^()\n:：]*\))?[ "
    r"\t*_`~\])]*)(?=[:：])",
    re.IGNORECASE,
)
REASONING = "[reasoning, left out]"
"""What stands in the place of reasoning."""
_CUTS = r"(?:left[ \t]+out|shortened)[ \t*_`~]*[:：]"
_IMAGES = r"images?[ \t#*_`~]*\d"
_MARKS = rf"tool[ \t_-]*call[ \t*_`~]*[:：]|reasoning[ \t]*,[ \t]*left[ \t]+out|{_CUTS}|{_IMAGES}"
_LIKE_CUT, _LIKE_IMAGE, _LIKE_MARK = (
    re.compile(rf"[\[［【〔](?=[ \t*_`~]*(?:{of}))", re.IGNORECASE)
    for of in (_CUTS, _IMAGES, _MARKS)
)
"""Match the first sign of a lookalike of our marks: of cuts, of images, or of any."""
IMAGE_MARK = re.compile(r"\[image \d+\]")
UNNUMBERED = "[image 0]"
"""The mark of an image before its conversation is numbered."""
REASONING_FIELDS = ("reasoning_content", "reasoning")
CALL_FIELDS = ("tool_calls", "function_call")


class UnseenPart(ValueError):
    """A part of a conversation cannot be shown to the judge, who would judge blind."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Tool call: its name, its arguments as the policy wrote them, and its id.

    `id` is empty if the format has none.
    """

    name: str
    arguments: str
    id: str = ""

    @property
    def shown(self) -> str:
        """The call as a judge sees it.

        A JSON object of arguments is on one line; other arguments are unchanged.
        """
        arguments = _normalize_arguments(self.arguments)
        call = arguments
        if self.name:
            call = f"{self.name}({arguments})"
        shown = break_marks(call)
        return f"[tool call: {shown}]"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation.

    Attributes:
        role: `user`, `assistant`, `system`, `tool` or another one, in lower case.
        text: its text.
        shown: its text as a judge sees it, with calls, images and reasoning marks written out.
        name: the name of the speaker or of the tool; empty without one.
        calls: its tool calls.
        answers: for a tool result, the id of its call; empty if unknown.
        is_error: for a tool result, whether its format says that it is an error; `None` if the
            format does not say.
        reasoning: the reasoning that came separately from the text; no judge is shown it.
        images: its images, in the order of their marks in `shown`.
        more: further fields of the message, for a policy or a trainer that reads them.
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
        if self.name:
            return f"{self.role} ({self.name})"
        return self.role

    @property
    def is_policy_turn(self) -> bool:
        """Whether the policy wrote it: its role is none of the others."""
        return self.role not in _NOT_OF_THE_POLICY

    @property
    def is_step(self) -> bool:
        """Whether the policy wrote a text or a tool call in it, not only reasoning."""
        return self.is_policy_turn and bool(self.text.strip() or self.calls)

    def message(self) -> dict[str, JSON]:
        """Return the turn as a chat message, for a policy or a trainer.

        Raises:
            UnseenPart: it has more than text and the usual fields, such as tool calls among the
                parts of its content.
        """
        names = self.more.keys()
        is_lost = (self.calls and not names & {*CALL_FIELDS}) or (
            self.reasoning and not names & {*REASONING_FIELDS}
        )
        shown = self.shown
        if self.images:
            shown = IMAGE_MARK.sub("", shown)
        if is_lost or shown not in (self.text, render_turn(self.text, self.calls, self.reasoning)):
            raise UnseenPart(
                f"a message of the {self.role} holds more than text and tool_calls, so it cannot "
                "be written again"
            )
        return {
            "role": self.role,
            "content": wire.content_json(self.text, self.images),
            **self.more,
        }

    def policy_message(self) -> Message:
        """Return the turn as a message to a policy; raises as `message`."""
        message = cast(Message, {**self.message(), "content": self.text})
        if not self.images:
            return message
        return {**message, "images": self.images}


def text_turn(role: str, text: str) -> Turn:
    """Return a turn that has only a text."""
    return Turn(role, text, text)


def number_images(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Number the images through all turns; turns without images are unchanged."""
    numbers = count(1)
    renumbered = []
    for turn in turns:
        if turn.images:
            turn = replace(turn, shown=renumber_images(turn.shown, turn.images, numbers))
        renumbered.append(turn)
    return tuple(renumbered)


def renumber_images(text: str, images: Sequence[Image], numbers: Iterator[int]) -> str:
    """Give the image marks of a text the next numbers.

    Without images, lookalikes of marks are broken up.
    """
    if images:
        return IMAGE_MARK.sub(lambda _: "[image " + str(next(numbers)) + "]", text)
    return _LIKE_IMAGE.sub(lambda sign: f"{sign[0]}{BREAK}", text)


def list_images(turns: Sequence[Turn]) -> tuple[Image, ...]:
    """Return the images of turns, in the order of their marks."""
    return tuple(chain.from_iterable(turn.images for turn in turns))


def completion_text(turns: Sequence[Turn]) -> str:
    """Render a completion's turns as one text.

    It is empty if the policy wrote neither a text nor a tool call in them.
    """
    if not any(turn.is_step for turn in turns):
        return ""
    return render_transcript(turns)


def render_transcript(turns: Sequence[Turn]) -> str:
    """Render turns as one text.

    A single turn of a user or an assistant is written without its role; several turns have their
    roles.

    Empty turns are left out. A single turn of an assistant that begins like the heading of a turn
    has its role, too, so that it cannot pass for a conversation.
    """
    filled = [turn for turn in turns if turn.shown.strip()]
    if len(filled) == 1:
        (only,) = filled
        text = only.shown
        if only.reasoning:
            text = text.removeprefix(f"{REASONING}\n")
        if only.role == "user" or (only.role == "assistant" and not _HEADING.match(text)):
            return text
    return "\n\n".join(map(_add_heading, filled))


def replace_text(turn: Turn, text: str, reasoning: str) -> Turn:
    """Return a turn of the policy with a new text and reasoning."""
    if turn.text in turn.shown:
        shown = turn.shown.replace(turn.text, text, 1)
    else:
        shown = render_turn(text, turn.calls, "")
    return replace(turn, text=text, shown=shown, reasoning=reasoning)


def replace_turns(text: str, turns: Sequence[Turn], replacements: Sequence[Turn]) -> str:
    """Return the text of a response with some of its turns replaced, one for one."""
    if text == completion_text(turns):
        return completion_text(replacements)
    for turn, replacement in zip(turns, replacements, strict=True):
        text = text.replace(_add_heading(turn), _add_heading(replacement), 1)
    if not any(turn.is_step for turn in replacements):
        return ""
    return text


def append_turns(prompt: str, turns: Sequence[Turn], *, is_marked: bool = False) -> str:
    """Append later turns to a prompt, as `render_transcript` writes them.

    In a prompt with images (`is_marked`), lookalikes of marks are broken up already.
    """
    filled = [turn for turn in turns if turn.shown.strip()]
    if filled and prompt.strip() and not _HEADING.match(prompt):
        prompt = _add_heading(Turn("user", "" if is_marked else prompt, prompt))
    if not filled:
        return prompt
    before = [prompt] if prompt.strip() else []
    return "\n\n".join([*before, *map(_add_heading, filled)])


def break_marks(text: str, *, only_cuts: bool = False) -> str:
    """Break up all lookalikes of our marks in a text, or those of cuts only.

    >>> break_marks("I did it: [tool call: search({})]")
    'I did it: [¦tool call: search({})]'
    """
    return (_LIKE_CUT if only_cuts else _LIKE_MARK).sub(lambda sign: f"{sign[0]}{BREAK}", text)


def split_messages(text: str) -> list[Message]:
    r"""Split a prompt into chat messages at the turns that `render_transcript` wrote.

    A text with turns of other roles than system, user and assistant, or with one turn, becomes one
    message of the user.

    >>> [
    ...     message["role"]
    ...     for message in split_messages("system: Be brief.\n\nuser: Why is the sky blue?")
    ... ]
    ['system', 'user']
    """
    turns = split_turns(text)
    if len(turns) < 2 or not all(role in get_args(Role) for role, _ in turns):
        return [Message(role="user", content=text)]
    return [Message(role=cast(Role, role), content=content) for role, content in turns]


def split_turns(text: str) -> list[tuple[str, str]]:
    """Return the headings and texts of a transcript's turns; none for other texts."""
    pieces = _LATER_HEADING.split(text) if _HEADING.match(text) else []
    return [(heading, body) for heading, _, body in (piece.partition(": ") for piece in pieces)]


def _add_heading(turn: Turn) -> str:
    """Render a turn under its heading, with lookalikes of headings and marks broken up."""
    shown = turn.shown
    if shown == turn.text:
        shown = break_marks(shown)
    folded = shown.casefold()
    if any(role in folded for role in _SAID_TO_BE):
        shown = _LIKE_HEADING.sub(lambda heading: f"{heading[1]}{BREAK}", shown)
    return f"{turn.heading}: {shown}"


def shared_turns(texts: Sequence[str]) -> str:
    """Return the turns that several transcripts begin with; empty if there are none.

    It ends after a whole turn, with an empty line, and each text has at least one more turn. Texts
    that are no conversations, such as answers of one turn, share no turns, however alike they
    begin.
    """
    if len(texts) < 2 or not all(map(_HEADING.match, texts)):
        return ""
    first = texts[0]
    ends = [match.end() for match in _LATER_HEADING.finditer(first)]
    shared = bisect_left(
        ends, True, key=lambda end: not all(text.startswith(first[:end]) for text in texts)
    )
    until = next(
        (
            end
            for end in reversed(ends[:shared])
            if all(_HEADING.match(text, end) for text in texts)
        ),
        0,
    )
    return first[:until]


def continuation(text: str, beginning: str) -> str:
    """Return a conversation without the turns that it shares with others.

    A single answer is written without its role.
    """
    ending = text[len(beginning) :]
    if not beginning or _LATER_HEADING.search(ending):
        return ending
    return ending.removeprefix("assistant: ")


def render_turn(text: str, calls: Sequence[ToolCall], reasoning: str) -> str:
    """Render a turn as a judge sees it: that there is reasoning, the text, and the calls."""
    pieces = []
    if reasoning:
        pieces.append(REASONING)
    if text:
        pieces.append(break_marks(text))
    return "\n".join([*pieces, *(call.shown for call in calls)])


def _normalize_arguments(arguments: str) -> str:
    """Normalize arguments: a JSON object is compact, other texts are unchanged."""
    if not arguments.lstrip().startswith("{"):
        return arguments
    try:
        value = json.loads(arguments, object_pairs_hook=_reject_repeated_names)
        return wire.scrub(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except (ValueError, RecursionError):
        return arguments


def _reject_repeated_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object; raise if a name is repeated, since a value would be lost."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a repeated name")
    return fields
