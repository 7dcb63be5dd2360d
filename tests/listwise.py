"""Planted listwise judges: read the answers of a prompt with their ids, and write scores as the real ones do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tests.scripted import Json

_ANSWER = re.compile(r"^\[Start of answer ([a-z]+)( [0-9a-f]+)?\]\n(.*?)\n\[End of answer \1(?(2)\2)\]$", re.M | re.S)


class Shown(NamedTuple):
    """An answer as the judge is shown it."""

    id: str
    text: str


def shown_answers(request: Json) -> list[Shown]:
    """The answers of the prompt that a request ends or begins with, in their order."""
    content = next(message["content"] for message in request["messages"] if message["role"] == "user")
    return [Shown(match[1], match[3]) for match in _ANSWER.finditer(content)]


def verdict(scores: Mapping[str, float] | Sequence[tuple[str, object]], **more: object) -> str:
    """The judge's JSON object with a score for each id."""
    pairs = scores.items() if isinstance(scores, Mapping) else scores
    return json.dumps(
        {"scores": [{"id": name, "explanation": f"So is {name}.", "score": s, **more} for name, s in pairs]}
    )


def judging(score: Callable[[str, int], float]) -> Callable[[Json, int], str]:
    """A judge that gives each answer `score(text, place)`, with places from 1."""

    def reply(request: Json, number: int) -> str:
        answers = enumerate(shown_answers(request), start=1)
        return verdict({shown.id: score(shown.text, place) for place, shown in answers})

    return reply
