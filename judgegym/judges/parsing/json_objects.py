"""Finds the JSON objects in a judge's text, among prose, code fences and stray braces and quotation marks.

Guarantees: never raises; bounded work on any text: reads only the end of a long one, decodes only what begins at a
brace that is closed, and finds no object at all in a text that would need more decoding than `MOST_DECODED`.

The JSON object with which a judge ends its text: the other way to write a verdict (`verdict_form`).

Guarantee: an object that the judge only quotes in a sentence, or after which it says more, is not found. A name that an
object has twice has no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_parser import CRITIQUE, Place
from judgegym.llm import wire
from judgegym.llm.wire import JSON, scrub

LOOKED_AT = 20_000
"""Characters at the end of a text that are read: a verdict is at the end, and usually shorter."""
MOST_DECODED = 20 * LOOKED_AT
"""Characters that are decoded at most, also those behind braces at which no object begins."""
FAILED_ATTEMPT = 200
"""A brace at which no object begins costs as much as decoding this many characters."""

MOST_NESTED = 100
"""Levels of an object; a deeper one is no verdict, also where this version of Python can decode it."""

_OPENED_FENCE = re.compile(r"```\w*\s*\Z")
_DECODER = json.JSONDecoder(strict=False)  # accepts line breaks within strings, which judges do not escape; orjson not
_SIGN = re.compile(r'\\.|["{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class TextObject:
    """A JSON object in a text.

    Attributes:
        fields: its fields, with names in lower case.
        at: from where to where it stands in the text.
        source: the text.
    """

    fields: Mapping[str, JSON]
    at: Place
    source: str

    @property
    def written(self) -> str:
        """The object as it is written."""
        return self.source[slice(*self.at)]

    @property
    def before(self) -> str:
        """The text before it, without its code fence."""
        return _OPENED_FENCE.sub("", self.source[: self.at[0]]).strip()

    def text(self, name: str) -> str | None:
        """The text of a field, `None` if there is none."""
        value = self.fields.get(name)
        return scrub(value).strip() or None if isinstance(value, str) else None


@lru_cache(maxsize=16)  # a judge reads several things in one text, one after the other
def last_first(text: str, read: int = LOOKED_AT) -> tuple[TextObject, ...]:
    """The outermost JSON objects of a text, the last one first; none if they cannot be found with bounded work.

    Args:
        text: any text.
        read: how many characters at its end are read.
    """
    looked_at = text[-read:]
    # A single brace, the usual case, is decoded whether it is closed or not.
    closed = [looked_at.index("{")] if looked_at.count("{") == 1 else _closed_braces(looked_at)
    position, decoded, unread = 0, 0, len(text) - len(looked_at)
    found: list[TextObject] = []
    for start in closed:
        if start < position:
            continue
        if decoded > MOST_DECODED:
            return ()
        try:
            value, position = _DECODER.raw_decode(looked_at, start)
        except json.JSONDecodeError as error:
            decoded += error.pos - start + FAILED_ATTEMPT
        except (ValueError, RecursionError):  # a number of thousands of digits; brackets in brackets in …
            decoded += len(looked_at) - start
        else:
            decoded += position - start
            if wire.is_nested_beyond(value, MOST_NESTED):
                continue
            fields = {name.lower(): inner for name, inner in cast("dict[str, JSON]", value).items()}
            found.append(TextObject(fields, (start + unread, position + unread), text))
    return tuple(reversed(found))


def _closed_braces(text: str) -> list[int]:
    """The opening braces, in order, that a JSON decoder which begins at them would find closed.

    What is a string depends on where one begins to read, but from any place on there are only two possibilities: it is
    within quotation marks, or not. So all beginnings are followed at once: those for which the place is outside of
    strings, and those for which it is inside. Both are stacks of braces that are still open, the last one on top;
    beginnings that agree from some place on share a level.
    """
    closed: list[int] = []
    outside: list[list[int]] = []
    inside: list[list[int]] = []
    for match in _SIGN.finditer(text):
        sign = match[0]
        if sign == '"':
            outside, inside = inside, outside
        elif sign == '\\"':  # outside of a string the backslash means nothing, and a string begins
            outside, inside = [], _joined(outside, inside)
        elif sign[-1] == "{":
            outside.append([match.end() - 1])
        elif sign[-1] == "}" and outside:
            closed += outside.pop()
    return sorted(closed)


def _joined(one: list[list[int]], other: list[list[int]]) -> list[list[int]]:
    """Two stacks as one: levels at the same distance from the top become one level. Takes time in the smaller one."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    for distance in range(1, len(shorter) + 1):
        here, there = longer[-distance], shorter[-distance]
        if len(here) < len(there):
            here, there = there, here
        here += there
        longer[-distance] = here
    return longer


def prose_before(text: str, name: str) -> str:
    """The text before the last object with a field `name`, without its code fence; the whole text if there is none."""
    match = next((match for match in last_first(text) if name in match.fields), None)
    return (_OPENED_FENCE.sub("", text) if match is None else match.before).strip()


_FENCE = "```"
_ON_ITS_OWN_LINE = re.compile(r"(?:\A|\n)[ \t]*(?:```\w*[ \t]*)?\Z")
_STRICT_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=lambda pairs: _each_once(pairs))


def written_object(own: str, name: str) -> TextObject | None:
    """The object with a field `name` that stands at the end of a judge's own text, on lines of its own; else `None`.

    It may stand in a code fence. A name that occurs twice has no value.
    """
    at = object_at_the_end(own) if "}" in own else None
    fields = None if at is None or not is_on_its_own_line(own, at[0]) else decoded(own[slice(*at)])
    return TextObject(fields, at, own) if at is not None and fields is not None and name in fields else None


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


def explained(text: str, name: str = "verdict") -> tuple[str, str]:
    """The critique and the explanation of a verdict in a judge's text: two fields, or the text as both.

    `name` is the field of the verdict in an object.

    A text outside of an object does not separate its reasons from the critique.
    """
    written = written_object(after_thinking(text), name)
    if written is None:
        return text, text
    return written.text(CRITIQUE) or written.before, written.text("explanation") or text


def critique_before(own: str, name: str) -> str:
    """The critique before a verdict under this name, which is an object in both forms: a field, or the text before."""
    written = written_object(own, name)
    return prose_before(own, name) if written is None else written.text(CRITIQUE) or written.before


@lru_cache(maxsize=16)  # a judge reads several things in one text, one after the other
def decoded(text: str) -> Mapping[str, JSON] | None:
    """The fields of an object, with names in lower case; `None` for a name that occurs twice."""
    try:
        fields = _STRICT_DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and not wire.is_nested_beyond(fields, MOST_NESTED) else None


def _each_once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for name, value in pairs:
        lowered = name.lower()
        fields[lowered] = None if lowered in fields else value
    return fields
