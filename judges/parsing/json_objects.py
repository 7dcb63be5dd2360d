"""Finds the JSON objects in a judge's text, among prose, code fences and stray braces and quotation marks.

Guarantees: never raises; reads only the end of a long text, so that the time is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from judges.llm.wire import JSON

LOOKED_AT = 20_000
"""Characters at the end of a text that are read: a verdict is at the end, and shorter."""

_QUOTES = "\"'\u2018\u2019\u201c\u201d"
_DECODER = json.JSONDecoder(strict=False)  # accepts line breaks within strings, which judges do not escape


@dataclass(frozen=True, slots=True)
class ObjectMatch:
    """A JSON object in a text.

    Attributes:
        fields: its fields, with names in lower case.
        before: the text before it, as far as it is read.
        gap: the part of `before` that follows the previous object.
        prose: the text after it that is in no other object.
    """

    fields: Mapping[str, JSON]
    before: str
    gap: str
    prose: str

    def is_contested(self, name: str) -> bool:
        """Whether the object may be a quotation, and the verdict a malformed object after it.

        True if the text after it has `name` with a value, in quotation marks of any kind or without any after a brace,
        or a closing brace without an opening one. Text before the object does not contest it.
        """
        quoted = rf"[{_QUOTES}]{re.escape(name)}[{_QUOTES}]\s*:\s*\S"
        bare = rf"\{{[^{{}}]*\b{re.escape(name)}\s*:\s*\S"
        if re.search(f"{quoted}|{bare}", self.prose, re.IGNORECASE) is not None:
            return True
        gap, prose = self.gap.rstrip(), self.prose.lstrip()
        while gap.endswith("{") and prose.startswith("}"):  # doubled braces, which some models write
            gap, prose = gap[:-1].rstrip(), prose[1:].lstrip()
        return _closes_more_than_it_opens(prose)


def _closes_more_than_it_opens(text: str) -> bool:
    depth = 0
    for brace in re.findall(r"[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return True
    return False


def last_first(text: str) -> Iterator[ObjectMatch]:
    """The outermost JSON objects of a text, the last one first."""
    looked_at = text[-LOOKED_AT:]
    spans: list[tuple[dict[str, JSON], int, int]] = []
    position = looked_at.find("{")
    while position >= 0:
        try:
            value, end = _DECODER.raw_decode(looked_at, position)
        except (ValueError, RecursionError):  # no object begins here; a number of thousands of digits is a ValueError
            end = position + 1
        else:
            spans.append((cast("dict[str, JSON]", value), position, end))
        position = looked_at.find("{", end)
    prose, until = "", len(looked_at)
    ends = [0, *(end for _, _, end in spans)]
    for number in range(len(spans) - 1, -1, -1):
        fields, start, end = spans[number]
        prose = looked_at[end:until] + prose
        until = start
        lowered = {name.lower(): value for name, value in fields.items()}
        yield ObjectMatch(lowered, looked_at[:start], looked_at[ends[number] : start], prose)


def prose_before(text: str, name: str) -> str:
    """The text before the last object with a field `name`, without its code fence; the whole text if there is none."""
    match = next((match for match in last_first(text) if name in match.fields), None)
    return re.sub(r"```\w*\s*$", "", text if match is None else match.before).strip()
