"""Texts that hold thinking: all markers that JudgeGym knows, in all shapes, and the drafts of each kind of judge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from judgegym.judges import parsing
from judgegym.offline.answers import load_known_prompts, make_answers
from judgegym.offline.request import parse_request
from tests.scripted import Json

FAMILIES: list[dict[str, Any]] = json.loads(
    (Path(parsing.__file__).parent / "thinking_markers.json").read_text(encoding="utf-8")
)["families"]

PROMPT_FILE = Path(__file__).with_name("judge.yaml")
DRAFTS: Mapping[str, str] = {
    "rubric": "[FEEDBACK] Perhaps. [SCORE] 5",
    "aspect": 'Perhaps {"reason": "fine", "verdict": 1}',
    "checklist": '{"result": [{"id": "Perhaps", "reason": "x", "verdict": "met"}]}',
    "peer": 'Perhaps {"reasoning": "fine", "score": 100}',
    "prompt": "Perhaps SCORE: 5",
    "arena_hard": "Perhaps so: [[A>>B]]",
    "choice": "Perhaps [[A]]",
    "listwise": '{"scores": [{"id": "Perhaps", "explanation": "x", "score": 1}]}',
}
"""A first thought of a judge, which is not its verdict."""


def around(family: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The pairs of markers of a family; no end where a stripped one leaves none."""
    yield from ((begin, end) for begin in family["begin"] for end in family["end"])
    stripped = family.get("stripped", {"begin": [], "end": []})
    begins, ends = stripped["begin"] or family["begin"], stripped["end"] or [None]
    yield from (
        (begin, end) for begin in begins for end in ends if stripped["begin"] or stripped["end"]
    )


def thoughts(thought: str) -> Iterator[tuple[str, bool]]:
    """A thought in every marker and shape at the start of a text, and whether it has ended."""
    for family in FAMILIES:
        for begin, end in around(family):
            is_tag = not begin[
                0
            ].isalpha()  # others are words, behind which the thought follows without a space
            yield f"{begin}{thought}", False
            yield f"{begin}\n{thought}\n" if is_tag else f"\n{begin}{thought}", False
            if end is None:
                continue
            yield f"{begin}{thought}{end}", True
            if is_tag:
                yield f"{begin}\n{thought}\n{end}\n\n", True
            if family.get("alone", True):
                yield f"{thought}{end}", True
                yield f"{thought}\n{end}\n\n", True


def stand_in(request: Json) -> str:
    """The verdict of a judge that does not think: of the stand-in, the same for the same request."""
    known = load_known_prompts({"judge": str(PROMPT_FILE)})
    return make_answers(parse_request(json.dumps(request).encode()), known, judge_only=True)[0]
