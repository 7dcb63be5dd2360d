"""Verdicts at random, in the form that a prompt or a JSON schema asks for; a policy's text where nothing is judged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

_WORDS = (
    "the tide",
    "turns",
    "because",
    "water follows",
    "what pulls it",
    "and 42 boats wait",
    "for no clear reason",
)
_COMPARED = re.compile(r"\[\[(A>>B|A>B|A=B|B>A|B>>A|[A-Z])\]\]")
_SCALE = re.compile(r"an integer (?:number )?between (-?\d+) and (-?\d+)")
_IDS = re.compile(r"^The ids are ([a-z, ]+)\.", re.MULTILINE)
_CRITERION = re.compile(r"^\[Criterion ([a-z]+)(?: [0-9a-f]+)?\]$", re.MULTILINE)
_OPTIONS = re.compile(r"^Options: (\[.+\])$", re.MULTILINE)
_SELDOM = 0.04


def verdict_of(body: Mapping[str, Any], shown: str, rng: Random) -> str:
    """A verdict.

    Args:
        body: the request.
        shown: all that its messages say.
        rng: makes the choice.
    """
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    if schema is not None:
        return json.dumps(_of_schema(schema, shown, rng, ""), ensure_ascii=False)
    return next((write for asks, write in _FORMS if re.search(asks, shown)), text_of)(shown, rng)


def text_of(shown: str, rng: Random) -> str:
    """A policy's answer."""
    return f"{' '.join(rng.choices(_WORDS, k=rng.randint(4, 30)))}."


def _reason(rng: Random) -> str:
    return rng.choice(
        [
            "It is good.",
            "It is [sic] {poor}.",
            "",
            'Because of "this".\nAnd that.',
            "Gut, ja — 1/5.",
        ]
    )


def _rubric(shown: str, rng: Random) -> str:
    low, high = map(int, found.groups()) if (found := _SCALE.search(shown)) else (1, 5)
    score = rng.randint(low, high + (rng.random() < 0.03))
    if rng.random() < 0.1:
        return json.dumps({"feedback": _reason(rng), "score": score})
    if "[RESULT]" in shown:
        return f"Feedback: {_reason(rng)} [RESULT] {score}"
    return f"[FEEDBACK] {_reason(rng)}\n[SCORE] {score}"


def _aspect(shown: str, rng: Random) -> str:
    verdict = rng.choice([0, 1, 0, 1, 0, 1, "yes", "No", 2])
    return json.dumps({"reason": _reason(rng), "verdict": verdict})


def _peer(shown: str, rng: Random) -> str:
    score = rng.choice(
        [rng.randint(0, 100), rng.randint(0, 100), 55, rng.choice([101, -1, 70.5, "80"])]
    )
    return f"{rng.choice(['', 'I went through it. '])}\n" + json.dumps(
        {"reasoning": _reason(rng), "score": score}
    )


def _listwise(shown: str, rng: Random) -> str:
    ids = _ids(shown)
    if rng.random() < 0.08:
        ids = ids[1:]
    scores = [
        {"id": each, "explanation": _reason(rng), "score": round(rng.random(), 2)} for each in ids
    ]
    return f"{_reason(rng)}\n{json.dumps({'scores': scores})}"


def _ids(shown: str) -> list[str]:
    found = _IDS.findall(shown)
    return found[-1].split(", ") if found else []


def _checklist(shown: str, rng: Random) -> str:
    return json.dumps({"result": _criteria(shown, rng)})


def _criteria(shown: str, rng: Random) -> list[Any]:
    """An entry for each criterion; now and then one is missing, or has a verdict that is not allowed."""
    _, *pieces = _CRITERION.split(shown)
    by_id = dict(zip(pieces[::2], pieces[1::2], strict=True))
    entries = [
        {"id": each, "reason": _reason(rng), "quote": "", "verdict": _met(text, shown, rng)}
        for each, text in by_id.items()
    ]
    return entries[:-1] if rng.random() < _SELDOM else entries


def _met(criterion: str, shown: str, rng: Random) -> str:
    options = _OPTIONS.search(criterion)
    words: list[str] = json.loads(options[1]) if options else ["met", "unmet"]
    if rng.random() < _SELDOM:
        return "perhaps"
    return (
        "cannot_assess"
        if "cannot_assess" in shown and rng.random() < 4 * _SELDOM
        else rng.choice(words)
    )


def _compared(shown: str, rng: Random) -> str:
    labels = sorted(set(_COMPARED.findall(shown)))
    return f"{_reason(rng)}\n\n[[{rng.choice(labels)}]]"


def _rating(shown: str, rng: Random) -> str:
    return f"{_reason(rng)}\n\n{rng.choice([*range(1, 11), 11, '**7**'])}"


def _bracketed(_shown: str, rng: Random) -> str:
    return f"{_reason(rng)}\n\nRating: [[{rng.choice([*range(1, 11), 11, 7.5])}]]"


Writer = Callable[[str, Random], str]
_FORMS: Sequence[tuple[str, Writer]] = (
    (r"The ids are [a-z]", _listwise),
    (r"(?m)^\[Criterion [a-z]+", _checklist),
    (r"(?m)^### Score Rubric", _rubric),
    (r"(?m)^\[Criteria", _aspect),
    (r'"score": <integer 0-100>', _peer),
    (r"a whole number from 1 to 10", _rating),
    (r"Rating: \[\[", _bracketed),
    (_COMPARED.pattern, _compared),
)
"""What a prompt with a form has in it."""


def _of_schema(schema: Mapping[str, Any], shown: str, rng: Random, name: str) -> Any:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        return {
            inner: _of_schema(each, shown, rng, inner)
            for inner, each in schema["properties"].items()
        }
    if kind == "array" and name == "result":
        return _criteria(shown, rng)
    if kind == "array":
        ids = _ids(shown)[rng.random() < _SELDOM :]
        return [{**_of_schema(schema["items"], shown, rng, ""), "id": each} for each in ids]
    if kind == "number":
        return round(rng.random(), 2)
    if kind == "integer":
        return rng.randint(0, 100)
    return _reason(rng)
