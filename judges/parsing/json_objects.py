"""JSON objects in a judge's prose: between code fences, braces and quotation marks that have nothing to do with them.

Guarantees: never raises; reads only the end of a long text, so that no text takes more than a moment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from judges.llm.wire import JSON

LOOKED_AT = 20_000
"""How many characters at the end of a text are read; a verdict stands at the end, and is shorter than this."""

_QUOTES = "\"'\u2018\u2019\u201c\u201d"
_DECODER = json.JSONDecoder(strict=False)  # judges write line breaks into strings as they are


@dataclass(frozen=True, slots=True)
class ObjectMatch:
    """An object of a text.

    Attributes:
        fields: its fields; names in lower case.
        before: the text ahead of it, as far as it is read.
        gap: the end of that which is behind the object before it.
        prose: the text behind it that is in no other object.
    """

    fields: Mapping[str, JSON]
    before: str
    gap: str
    prose: str

    def is_contested(self, name: str) -> bool:
        """Whether the object may be one that a broken one only quotes.

        So it is if `name` stands behind it with a value, in quotation marks of any kind or without any behind a brace,
        or a brace that nothing there has opened. Nothing that stands only before an object contests it.
        """
        quoted = rf"[{_QUOTES}]{re.escape(name)}[{_QUOTES}]\s*:\s*\S"
        bare = rf"\{{[^{{}}]*\b{re.escape(name)}\s*:\s*\S"
        if re.search(f"{quoted}|{bare}", self.prose, re.IGNORECASE) is not None:
            return True
        gap, prose = self.gap.rstrip(), self.prose.lstrip()
        while gap.endswith("{") and prose.startswith("}"):  # some models double the braces
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
    """What stands ahead of the last object that has a field of that name, code fence aside; all of it if none has."""
    found = next((found for found in last_first(text) if name in found.fields), None)
    return re.sub(r"```\w*\s*$", "", text if found is None else found.before).strip()
