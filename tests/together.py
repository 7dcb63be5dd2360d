"""A planted judge of groups, listwise or game by game: how good an answer is stands in its text."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.listwise import shown_answers, verdict
from tests.scripted import Json

_GAME = re.compile(r"<\|The Start of Assistant [AB]'s Answer[^|]*\|>\n(.*?)\n<\|The End", re.DOTALL)

Quality = Callable[[str], float]
"""How good a text is, from 0 to 1."""


def compared(request: Json) -> list[str]:
    """The answers that a request shows, in its order: all of a listwise call, or the two of a game."""
    listed = [shown.text for shown in shown_answers(request)]
    content = next(
        message["content"] for message in request["messages"] if message["role"] == "user"
    )
    return listed or _GAME.findall(content)


def comparing(quality: Quality) -> Callable[[Json, int], str]:
    """A judge of groups that is always right."""

    def reply(request: Json, number: int) -> str:
        listed = shown_answers(request)
        if listed:
            return verdict({shown.id: quality(shown.text) for shown in listed})
        one, other = map(quality, compared(request))
        return "[[A>B]]" if one > other else "[[B>A]]" if other > one else "[[A=B]]"

    return reply
