"""Groups whose answers hold their quality as a number, and scripted judges of their games."""

from __future__ import annotations

import re
from collections.abc import Callable

from judgegym.judges.core.tasks import JudgeTask
from tests.scripted import Json, Reply, Script

_SHOWN = re.compile(
    r"The Start of Assistant [AB]'s Answer[^\n]*\n(.*?)\n[<\[][|]?The End", re.DOTALL
)
DOWN = Reply(status=400, body={"error": {"message": "no such model"}})


def group(*numbers: int, anchor: int | None = None) -> JudgeTask:
    """A task with an answer for each number."""
    return JudgeTask(
        "How good?",
        tuple(map(text_of, numbers)),
        baseline=None if anchor is None else text_of(anchor),
    )


def text_of(number: int) -> str:
    """An answer of this quality."""
    return f"quality {number}"


def shown(request: Json) -> tuple[int, int]:
    """The qualities that a game shows, the first one's first."""
    one, other = (
        int(re.findall(r"\d+", text)[-1])
        for text in _SHOWN.findall(request["messages"][1]["content"])
    )
    return one, other


def by_quality(request: Json, number: int) -> str:
    """A judge for whom the higher number is the better answer."""
    one, other = shown(request)
    return "[[A>B]]" if one > other else "[[B>A]]" if other > one else "[[A=B]]"


def failing(fails: Callable[[int, int], bool], reply: Reply | str = DOWN) -> Script:
    """A judge by quality that fails in some games."""
    return lambda request, number: reply if fails(*shown(request)) else by_quality(request, number)
