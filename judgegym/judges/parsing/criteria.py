"""Parse verdicts on several criteria: a JSON object with an entry for each criterion.

Guarantee: a verdict belongs to the id that it was written with. A text has no verdict at all if an
id is missing, surplus, repeated or unknown, if a word is not allowed by the criterion, or if an
object repeats a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from judgegym.judges.parsing.candidates import (
    NamedValues,
    VerdictCandidate,
    VerdictKind,
    last_candidate,
)
from judgegym.judges.parsing.json_objects import decode_object, find_objects
from judgegym.judges.parsing.labels import parse_yes_no
from judgegym.judges.parsing.scores import entry_text, reading_limit
from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.judges.parsing.verdict_parser import (
    ParsedVerdict,
    VerdictForm,
    entries,
    text_field,
    verdict_parser,
)
from judgegym.llm.wire import JSON, scrub

MET, UNMET, CANNOT_ASSESS = "met", "unmet", "cannot_assess"
"""The words of a criterion without options; the last one only where it is offered."""

Words: TypeAlias = Mapping[str, "float | None"]
"""A criterion's allowed words with their values from 0 to 1; `None` is "cannot assess"."""

_ENTRY = {
    "id": text_field("id of a criterion"),
    "reason": text_field("one or two sentences"),
    "quote": text_field("the words of the submission that decide it, or nothing"),
    "verdict": text_field("met or unmet, or one of its options"),
}
CRITERIA_FORM = VerdictForm("criteria", {"result": entries(_ENTRY)})
"""Without ids and options, which would make each schema a new one: the parser checks them."""

_MOST_NAMED = 5


class CriterionVerdict(NamedTuple):
    """A judge's verdict on one criterion: the word, its value, and why.

    A decision model's has the probability of the word, and the expected value.
    """

    word: str
    value: float | None
    reason: str
    quote: str
    probability: float | None = None


CriteriaVerdicts: TypeAlias = Mapping[str, CriterionVerdict]
"""By id."""


@verdict_parser
def criteria_verdicts(
    own_text: str, words: Mapping[str, Words]
) -> ParsedVerdict[CriteriaVerdicts] | None:
    """Return the verdicts of `{"result": [{"id", "reason", "quote", "verdict"}, …]}`.

    The text's last candidate counts.

    Args:
        own_text: the judge's own text.
        words: the allowed verdicts of each criterion of the call, by its id. For `met` and `unmet`,
            also true and false, yes and no, 1 and 0 are accepted.

    Returns:
        A verdict for every id; `None` also if the object may be a quotation
        (`judgegym.judges.parsing.candidates`).
    """

    def parse_fields(fields: Mapping[str, JSON]) -> CriteriaVerdicts | None:
        verdicts = _parse_fields(fields, words)
        if isinstance(verdicts, str):
            return None
        return verdicts

    def find_in_words(text: str) -> Iterator[VerdictCandidate[CriteriaVerdicts]]:
        return _named_values(tuple(words)).find_with_lists(text, lambda _: None)

    return last_candidate(
        own_text,
        VerdictKind(
            "result", parse_fields, find_in_words, characters_read=reading_limit(len(words))
        ),
    )


def criteria_fault(text: str, words: Mapping[str, Words]) -> str:
    """Describe why `criteria_verdicts` finds no verdict in a text."""
    objects = find_objects(cut_thinking(text), reading_limit(len(words)))
    match = next((match for match in objects if "result" in match.fields), None)
    if match is None:
        return 'there is no JSON object with the field "result"'
    verdicts = _parse_fields(decode_object(match.written) or {}, words)
    if isinstance(verdicts, str):
        return verdicts
    return "the JSON object is not the only verdict in the text"


@lru_cache(maxsize=16)
def _named_values(ids: tuple[str, ...]) -> NamedValues:
    return NamedValues(
        "|".join(map(re.escape, ids)), r"(?:(?:un)?met|yes|no|true|false|cannot[ _]assess)\b"
    )


def _parse_fields(fields: Mapping[str, JSON], words: Mapping[str, Words]) -> CriteriaVerdicts | str:
    """Return the verdicts of an object, or what is wrong with it."""
    result = fields.get("result")
    if not isinstance(result, list):
        return '"result" is not a list'
    objects = [entry for entry in result if isinstance(entry, Mapping)]
    named_entries = [(str(entry["id"]), entry) for entry in objects if "id" in entry]
    if len(named_entries) < len(result):
        return 'an entry of "result" is not a JSON object with the "id" of a criterion'
    counts = Counter(name for name, _ in named_entries)
    verdicts = {name: _parse_verdict(entry, words.get(name, {})) for name, entry in named_entries}
    unread = {name for name, verdict in verdicts.items() if verdict is None}
    faults = (
        ("these ids are missing: ", [name for name in words if name not in counts]),
        ("these ids occur more than once: ", [name for name in words if counts[name] > 1]),
        (
            "there are ids of no criterion: ",
            [scrub(name[:20]) for name in counts if name not in words],
        ),
        ("these ids have no verdict that is allowed: ", [name for name in words if name in unread]),
    )
    wrong = [fault + ", ".join(which[:_MOST_NAMED]) for fault, which in faults if which]
    return "; ".join(wrong) or {
        name: verdict for name, verdict in verdicts.items() if verdict is not None
    }


def _parse_verdict(entry: Mapping[str, JSON], words: Words) -> CriterionVerdict | None:
    written = entry.get("verdict")
    plain = written
    if isinstance(plain, str):
        plain = plain.strip().casefold()
    word = next((word for word in words if word.casefold() == plain), None)
    if word is None and MET in words and (yes := parse_yes_no(written)) is not None:
        word = MET if yes else UNMET
    reason, quote = entry_text(entry, "reason"), entry_text(entry, "quote")
    if word is None:
        return None
    return CriterionVerdict(word, words[word], reason, quote)
