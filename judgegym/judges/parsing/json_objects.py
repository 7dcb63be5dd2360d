"""Finds the JSON objects in a judge's text, among prose, code fences and stray braces and quotation marks.

Guarantees: never raises; bounded work on any text: reads only the end of a long one, decodes only what begins at a
brace that is closed, and finds no object at all in a text that would need more decoding than `MOST_DECODED`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from judgegym.llm import wire
from judgegym.llm.wire import JSON

LOOKED_AT = 20_000
"""Characters at the end of a text that are read: a verdict is at the end, and usually shorter."""
MOST_DECODED = 20 * LOOKED_AT
"""Characters that are decoded at most, also those behind braces at which no object begins."""
FAILED_ATTEMPT = 200
"""A brace at which no object begins costs as much as decoding this many characters."""

MOST_NESTED = 100
"""Levels of an object; a deeper one is no verdict, also where this version of Python can decode it."""

_DECODER = json.JSONDecoder(strict=False)  # accepts line breaks within strings, which judges do not escape; orjson not
_SIGN = re.compile(r'\\.|["{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class ObjectMatch:
    """A JSON object in a text.

    Attributes:
        fields: its fields, with names in lower case.
        text: the text, as far as it is read.
        spans: the places of all its outermost objects, in order.
        number: which of them this is.
        unread: how many characters before `text` are not read.
    """

    fields: Mapping[str, JSON]
    text: str
    spans: tuple[tuple[int, int], ...]
    number: int
    unread: int = 0

    @property
    def at(self) -> tuple[int, int]:
        """From where to where it stands in the whole text."""
        start, end = self.spans[self.number]
        return start + self.unread, end + self.unread

    @property
    def written(self) -> str:
        """The object as it is written."""
        start, end = self.spans[self.number]
        return self.text[start:end]

    @property
    def before(self) -> str:
        """The text before it, as far as it is read."""
        return self.text[: self.spans[self.number][0]]


@lru_cache(maxsize=16)  # a judge reads several things in one text, one after the other
def last_first(text: str, read: int = LOOKED_AT) -> tuple[ObjectMatch, ...]:
    """The outermost JSON objects of a text, the last one first; none if they cannot be found with bounded work.

    Args:
        text: any text.
        read: how many characters at its end are read.
    """
    looked_at = text[-read:]
    # A single brace, the usual case, is decoded whether it is closed or not.
    closed = [looked_at.index("{")] if looked_at.count("{") == 1 else _closed_braces(looked_at)
    position, decoded = 0, 0
    found: list[dict[str, JSON]] = []
    spans: list[tuple[int, int]] = []
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
            found.append(cast("dict[str, JSON]", value))
            spans.append((start, position))
    places = tuple(spans)
    lowered = [{name.lower(): value for name, value in fields.items()} for fields in found]
    unread = len(text) - len(looked_at)
    return tuple(
        ObjectMatch(lowered[number], looked_at, places, number, unread) for number in reversed(range(len(places)))
    )


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
    return re.sub(r"```\w*\s*\Z", "", text if match is None else match.before).strip()
