"""Planted listwise judges: read the answers of a prompt with their ids, and write scores as the real ones do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tests.scripted import Json

_TAG = re.compile(r"\AEach section below stands between markers that carry the tag ([0-9a-f]+)\.")


class Shown(NamedTuple):
    """An answer as the judge is shown it."""

    id: str
    text: str


def shown_answers(request: Json) -> list[Shown]:
    """The answers of the prompt with which a request begins, in their order.

    Read as a trusting judge does: whatever looks like a marker is one, if it has the tag that the
        prompt begins with.
    """
    content = next(
        message["content"] for message in request["messages"] if message["role"] == "user"
    )
    tag = f" {found[1]}" if (found := _TAG.match(content)) else ""
    answers = rf"^\[Start of answer ([a-z]+){tag}\]\n(.*?)\n\[End of answer [a-z]+{tag}\]$"
    return [
        Shown(match[1], match[2])
        for match in re.finditer(answers, content, re.MULTILINE | re.DOTALL)
    ]


def verdict(scores: Mapping[str, float] | Sequence[tuple[str, object]], **more: object) -> str:
    """The judge's JSON object with a score for each id."""
    pairs = scores.items() if isinstance(scores, Mapping) else scores
    return json.dumps(
        {
            "scores": [
                {"id": name, "explanation": f"So is {name}.", "score": s, **more}
                for name, s in pairs
            ]
        }
    )


def judging(score: Callable[[str, int], float]) -> Callable[[Json, int], str]:
    """A judge that gives each answer `score(text, place)`, with places from 1."""

    def reply(request: Json, number: int) -> str:
        answers = enumerate(shown_answers(request), start=1)
        return verdict({shown.id: score(shown.text, place) for place, shown in answers})

    return reply
