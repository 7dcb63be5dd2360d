"""The scores that a listwise judge gives the answers of a group, each with the answer's id, in one JSON object.

Guarantee: a score belongs to the id that it was written with. A text with an id too few, too many, twice or unknown,
with anything else than a number from 0 to 1 as a score, or with a name twice in one object, has no verdict at all.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

from judgegym.judges.parsing.candidates import VerdictCandidate, VerdictKind, last_candidate
from judgegym.judges.parsing.json_objects import last_first
from judgegym.judges.parsing.near_misses import NUMBER, NamedValues, folded, number_lists
from judgegym.judges.parsing.thinking import OPENED, after_thinking
from judgegym.judges.parsing.verdict_form import VerdictForm, entries, number, text_field
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser
from judgegym.llm.wire import JSON, scrub

LOOKED_AT = 40_000
"""Characters at the end of a text that are read: the object has an entry with an explanation for each answer."""
OF_AN_ENTRY = 1_000
"""Of a group so large that this for each answer is more, so many are read."""

_ENTRY = {
    "id": text_field("id of an answer"),
    "explanation": text_field("why"),
    "score": number("number from 0 to 1"),
}
LISTWISE_FORM = VerdictForm("listwise_scores", {"scores": entries(_ENTRY)})
"""Without the ids of a call, which would make each schema a new one: the parser counts them, a repair names them."""

_MOST_NAMED = 5
_LONGEST_NAMED = 30
_AMBIGUOUS = "there is a verdict before `<think>` and another one after it"
_NOT_THE_LAST = "the JSON object is not the last thing in the text that could be a verdict"


class ScoredAnswer(NamedTuple):
    """What a judge says of one answer: a score from 0 to 1, and why."""

    score: float
    explanation: str


ListwiseScores: TypeAlias = Mapping[str, ScoredAnswer]
"""By id."""


@verdict_parser
def listwise_scores(own: str, ids: Sequence[str]) -> ParsedVerdict[ListwiseScores] | None:
    """The scores of a JSON object `{"scores": [{"id", "explanation", "score"}, …]}`: the last candidate of the text.

    Args:
        own: the judge's own text.
        ids: the ids of all answers that the judge was shown.

    Returns:
        A score for every id; `None` also if the object may be a quotation (`judgegym.judges.parsing.candidates`).
    """
    return last_candidate(own, _kind(ids))


def listwise_fault(text: str, ids: Sequence[str]) -> str:
    """What is wrong with a text in which `listwise_scores` finds no verdict, in words that the judge understands."""
    own = after_thinking(text)
    objects = last_first(own, _most_read(ids))
    match = next((match for match in objects if "scores" in match.fields), None)
    if match is None:
        return 'there is no JSON object with the field "scores"'
    try:
        scores = _of_fields(_STRICT.decode(match.written), ids)
    except _DoubledName as error:
        return f"a JSON object has the field {error} twice"
    if isinstance(scores, str):
        return scores
    return _AMBIGUOUS if OPENED.search(own) else _NOT_THE_LAST


def _kind(ids: Sequence[str]) -> VerdictKind[ListwiseScores]:
    def of_fields(fields: Mapping[str, JSON]) -> ListwiseScores | None:
        scores = _of_fields(fields, ids)
        return None if isinstance(scores, str) else scores

    def in_words(words: str) -> Iterator[VerdictCandidate[ListwiseScores]]:
        plain = folded(words)
        yield from number_lists(plain)
        yield from _named(tuple(ids)).in_words(plain, lambda _: None)

    return VerdictKind("scores", of_fields, in_words, read=_most_read(ids), decode=_decoded)


def _decoded(written: str) -> Mapping[str, JSON] | None:
    try:
        fields: Mapping[str, JSON] = _STRICT.decode(written)
    except _DoubledName:
        return None
    return fields


@lru_cache(maxsize=16)
def _named(ids: tuple[str, ...]) -> NamedValues:
    return NamedValues("|".join(("scores?", *map(re.escape, ids))), NUMBER, "scores?")


def _most_read(ids: Sequence[str]) -> int:
    return max(LOOKED_AT, OF_AN_ENTRY * len(ids))


class _DoubledName(ValueError):
    """An object has a name twice, and nobody knows which value is meant."""


def _of_fields(fields: Mapping[str, JSON], ids: Sequence[str]) -> ListwiseScores | str:
    """The scores of an object, or what is wrong with it."""
    entries = fields["scores"]
    if not isinstance(entries, list):
        return '"scores" is not a list'
    if not all(isinstance(entry, dict) and isinstance(entry.get("id"), str) for entry in entries):
        return 'an entry of "scores" is not a JSON object with the "id" of an answer'
    shown, given = {*ids}, Counter(cast("str", entry["id"]) for entry in entries)
    unscored = dict.fromkeys(entry["id"] for entry in entries if not _is_score(entry.get("score")))
    faults = (
        ("these ids are missing: ", [name for name in ids if name not in given]),
        ("these ids occur more than once: ", [name for name in ids if given[name] > 1]),
        ("these are not ids of answers: ", [_quoted(name) for name in given if name not in shown]),
        ("the scores of these ids are not numbers from 0 to 1: ", [name for name in ids if name in unscored]),
    )
    wrong = [what + _listed(which) for what, which in faults if which]
    if wrong:
        return "; ".join(wrong)
    return {entry["id"]: ScoredAnswer(float(entry["score"]), _explanation(entry)) for entry in entries}


def _is_score(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1  # false for NaN


def _explanation(entry: Mapping[str, JSON]) -> str:
    explanation = entry.get("explanation")
    return scrub(explanation).strip() if isinstance(explanation, str) else ""


def _quoted(unknown: str) -> str:
    short = unknown if len(unknown) <= _LONGEST_NAMED else f"{unknown[:_LONGEST_NAMED]}…"
    return json.dumps(scrub(short), ensure_ascii=False)


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + rest


def _each_once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for name, value in pairs:
        lowered = name.lower()
        if lowered in fields:
            raise _DoubledName(_quoted(name))
        fields[lowered] = value
    return fields


_STRICT = json.JSONDecoder(strict=False, object_pairs_hook=_each_once)
