"""The prompt and the responses of a row as turns, which the judge was shown as texts.

Guarantee: written as a text, the turns are what the judge saw. Messages of the row stay messages, with their system
turns and the turns of tools; a text is one turn. What is no message in the row (columns that are joined, for example)
is one turn with the text that the judge saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from judgegym.data.preference_schemas import turns_of_prompt
from judgegym.data.rows import value_at
from judgegym.judges.core.turns import Turn, answer_text, text_turn, transcript, turns_of, turns_of_transcript
from judgegym.llm.wire import JSON

Turns: TypeAlias = "tuple[Turn, ...]"


@dataclass(frozen=True, slots=True)
class PromptWithResponses:
    """A prompt and its responses, each as turns."""

    prompt: Turns
    responses: tuple[Turns, ...]


def as_turns(
    values: Mapping[str, JSON], columns: Sequence[str], prompt: str, texts: Sequence[str], turns: Turns = ()
) -> PromptWithResponses:
    """Find the turns of a row's prompt and responses.

    Args:
        values: the row's columns.
        columns: those that hold prompt and responses, in this order.
        prompt: the prompt as the judge saw it.
        texts: the responses.
        turns: of the prompt, if they are known.
    """
    found = [value for column in columns if (value := value_at(values, column)) is not None]
    asked = turns or _prompt(found, prompt)
    conversations = tuple(_conversations(found))
    return PromptWithResponses(asked, tuple(_response(conversations, text) for text in texts))


def _prompt(values: Sequence[JSON], prompt: str) -> Turns:
    """The turns that say the prompt: a column's, the first ones of a conversation, or those of a column and these."""
    explicit: Turns = ()
    for value in values:
        for turns in filter(None, (_asked(value), _talked(value))):
            for before in (explicit, ()) if explicit else ((),):
                said = _beginning((*before, *turns), prompt)
                if said is not None:
                    return said
        explicit = explicit or _asked(value) or ()
    return (text_turn("user", prompt),)


def _beginning(turns: Turns, prompt: str) -> Turns | None:
    """The first turns that say the prompt; `None` if none do."""
    length = sum(len(turn.shown) for turn in turns)
    for end in range(len(turns), 0, -1):
        if length <= len(prompt) and transcript(turns[:end]) == prompt:
            return turns[:end]
        length -= len(turns[end - 1].shown)
    return None


def _asked(value: JSON) -> Turns | None:
    return turns_of_prompt(value) if isinstance(value, str | Sequence | Mapping) else None


def _talked(value: JSON) -> Turns | None:
    return turns_of_transcript(value) if isinstance(value, str) else None


def _conversations(values: Sequence[JSON]) -> Iterator[Turns]:
    """All conversations of several turns in the columns, or in the lists that they hold."""
    for value in values:
        several = [] if isinstance(value, str | Mapping) or not isinstance(value, Sequence) else value
        for each in (value, *several):
            turns = turns_of_transcript(each) if isinstance(each, str) else turns_of(each)
            if turns and len(turns) > 1:
                yield turns


def _response(conversations: Sequence[Turns], text: str) -> Turns:
    """The turns that say a response: a whole conversation, or the end of one; or the text as one turn."""
    for turns in conversations:
        length, first = 0, len(turns)
        while first > 0 and length <= len(text):
            first -= 1
            length += len(turns[first].shown)
            rest = turns[first:]
            if len(rest) > 1 and length <= len(text) and answer_text(rest) == text:
                return rest
    return (text_turn("assistant", text),)
