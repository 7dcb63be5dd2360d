"""The yes or no of an aspect's judge, and its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from judgegym.judges.parsing.candidates import VerdictCandidate, VerdictKind, last_candidate
from judgegym.judges.parsing.json_objects import decoded
from judgegym.judges.parsing.near_misses import NOTHING, NUMBER, NUMBER_WORD, NamedValues, folded, number_lists
from judgegym.judges.parsing.verdict_form import VerdictForm, integer, text_field
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser
from judgegym.llm.wire import JSON, scrub

_YES_NO = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}

ASPECT_FORM = VerdictForm("aspect_verdict", {"reason": text_field("one or two sentences"), "verdict": integer(0, 1)})

_NAMED = NamedValues(
    r"verdict|judge?ment|decision|score|rating|final\sanswer",
    rf"{NUMBER}|{NUMBER_WORD}|{NOTHING}|(?:yes|no|true|false|pass(?:ed)?|fail(?:ed)?)\b",
    "verdict",
)


@verdict_parser
def binary_verdict(own: str) -> ParsedVerdict[bool] | None:
    """The verdict of an aspect's judge, in a JSON object `{"reason", "verdict"}`: the last candidate of the text.

    1/0, "1"/"0", true/false and "yes"/"no" in any case are verdicts; 0.7, 2, −1, null and all other values are not.

    Returns:
        `True` for yes; `None` also if the object may be a quotation (`judgegym.judges.parsing.candidates`).
    """
    return last_candidate(own, _KIND)


def yes_or_no(value: JSON) -> bool | None:
    """A verdict given as a JSON value: 1/0, true/false, "1"/"0", "yes"/"no" or "true"/"false" in any case."""
    if isinstance(value, str):
        return _YES_NO.get(value.strip().lower())
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def verdict_reason(text: str) -> str | None:
    """The reason of the object that `binary_verdict` reads, `None` if there is none."""
    found = binary_verdict.find(text)
    fields = None if found is None or found.at is None else decoded(text[slice(*found.at)])
    reason = None if fields is None else fields.get("reason")
    return scrub(reason) if isinstance(reason, str) else None


def _of_fields(fields: Mapping[str, JSON]) -> bool | None:
    return yes_or_no(fields["verdict"])


def _in_words(words: str) -> Iterator[VerdictCandidate[bool]]:
    plain = folded(words)
    yield from number_lists(plain)
    yield from _NAMED.in_words(plain, yes_or_no)


_KIND = VerdictKind("verdict", _of_fields, _in_words)
