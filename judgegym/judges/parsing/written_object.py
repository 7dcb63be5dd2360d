"""The JSON object with which a judge ends its text: the other way to write a verdict (`verdict_form`).

Guarantee: an object that the judge only quotes in a sentence, or after which it says more, is not found. A name that an
object has twice has no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from judgegym.judges.parsing.json_objects import MOST_NESTED, last_first, prose_before
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_form import CRITIQUE
from judgegym.judges.parsing.verdict_parser import Place
from judgegym.llm import wire
from judgegym.llm.wire import JSON, scrub

_FENCE = "```"
_ON_ITS_OWN_LINE = re.compile(r"(?:\A|\n)[ \t]*(?:```\w*[ \t]*)?\Z")
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=lambda pairs: _each_once(pairs))


@dataclass(frozen=True, slots=True)
class WrittenObject:
    """An object, and from where to where it stands in the judge's own text.

    Attributes:
        fields: its fields, with names in lower case; `None` for a name that occurs twice.
        at: its place.
        before: the text before it, without a code fence.
    """

    fields: Mapping[str, JSON]
    at: Place
    before: str = ""

    def text(self, name: str) -> str | None:
        """The text of a field, `None` if there is none."""
        value = self.fields.get(name)
        return scrub(value).strip() or None if isinstance(value, str) else None


def written_object(own: str, name: str) -> WrittenObject | None:
    """The object with a field `name` that stands at the end of a judge's own text, on lines of its own; else `None`.

    It may stand in a code fence.
    """
    at = object_at_the_end(own)
    fields = None if at is None or not is_on_its_own_line(own, at[0]) else decoded(own[slice(*at)])
    if at is None or fields is None or name not in fields:
        return None
    return WrittenObject(fields, at, re.sub(r"```\w*\s*\Z", "", own[: at[0]]).strip())


@lru_cache(maxsize=16)  # a judge reads several things in one text, one after the other
def object_at_the_end(own: str) -> Place | None:
    """The place of the object that ends a text, perhaps in a code fence: all of it, of any length, or the last one."""
    whole = whole_object(own)
    if whole is not None:
        return whole
    end = end_in_fence(own)
    match = next(iter(last_first(own[:end])), None) if own.endswith("}", 0, end) else None
    return match.at if match is not None and match.at[1] == end else None


def whole_object(own: str) -> Place | None:
    """The place of an object of any length that is all of a text, perhaps in a code fence."""
    end = end_in_fence(own)
    head = re.match(r"\s*(?:```\w*\s*)?", own)
    start = 0 if head is None else head.end()
    is_one = own.startswith("{", start) and own.endswith("}", 0, end) and decoded(own[start:end]) is not None
    return (start, end) if is_one else None


def end_in_fence(own: str) -> int:
    """Where a text ends without white space and the end of a code fence."""
    return len(own.rstrip().removesuffix(_FENCE).rstrip())


def is_on_its_own_line(own: str, start: int) -> bool:
    """Whether nothing but a code fence stands before this place in its line."""
    return _ON_ITS_OWN_LINE.search(own, max(0, own.rfind("\n", 0, start)), start) is not None


def explained(text: str) -> tuple[str, str]:
    """The critique and the explanation of a verdict in a judge's text: two fields, or the text as both.

    A text outside of an object does not separate its reasons from the critique.
    """
    written = written_object(after_thinking(text), "verdict")
    if written is None:
        return text, text
    return written.text(CRITIQUE) or written.before, written.text("explanation") or text


def critique_before(own: str, name: str) -> str:
    """The critique before a verdict under this name, which is an object in both forms: a field, or the text before."""
    written = written_object(own, name)
    return prose_before(own, name) if written is None else written.text(CRITIQUE) or written.before


def decoded(text: str) -> Mapping[str, JSON] | None:
    """The fields of an object, with names in lower case; `None` for a name that occurs twice."""
    try:
        fields = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and not wire.is_nested_beyond(fields, MOST_NESTED) else None


def _each_once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for name, value in pairs:
        lowered = name.lower()
        fields[lowered] = None if lowered in fields else value
    return fields
