"""JSON objects in a judge's text, found among prose, code fences and stray signs.

Guarantees: never raises. The work is bounded on any text: only the end of a long one is read, and
only text from a closed brace on is decoded. No object at all is found in a text that would need
more decoding than `MOST_DECODED`.

`find_final_object` finds the JSON object with which a judge ends its text: the other way to write a
verdict (`verdict_form`). An object that the judge only quotes in a sentence, or after which it says
more, is not found. A name that an object has twice has no value.

`find_outermost_objects` also finds malformed objects: where one may extend, no verdict is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, cast

from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.judges.parsing.verdict_parser import CRITIQUE, Place
from judgegym.llm import wire
from judgegym.llm.wire import JSON, scrub

CHARACTERS_READ = 20_000
"""Characters at the end of a text that are read: a verdict is at the end, and usually shorter."""
MOST_DECODED = 20 * CHARACTERS_READ
"""Characters that are decoded at most, also those behind braces at which no object begins."""
FAILED_ATTEMPT = 200
"""A brace at which no object begins costs as much as decoding this many characters."""

MOST_NESTED = 100
"""Most levels of an object; a deeper one is no verdict, even if Python can decode it."""

_OPENED_FENCE = re.compile(r"```\w*\s*\Z")
# Accepts line breaks in strings, which judges do not escape; orjson does not.
_DECODER = json.JSONDecoder(strict=False)
_SIGN = re.compile(r'\\.|["{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class TextObject:
    """A JSON object in a text.

    Attributes:
        fields: its fields, with names in lower case.
        at: its start and end in the text.
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
        """Return the text of a field, or `None`."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            return None
        return scrub(value).strip() or None


@lru_cache(maxsize=16)  # a judge reads several things in one text, one after the other
def find_objects(text: str, read: int = CHARACTERS_READ) -> tuple[TextObject, ...]:
    """Return the outermost JSON objects of a text, the last one first.

    The result is empty if they cannot be found with bounded work.

    Args:
        text: any text.
        read: number of characters read at the end of the text.
    """
    looked_at = text[-read:]
    # A single brace, the usual case, is decoded whether it is closed or not.
    if looked_at.count("{") == 1:
        closed = [looked_at.index("{")]
    else:
        closed = _find_closed_braces(looked_at)
    position, decoded, unread = 0, 0, len(text) - len(looked_at)
    objects: list[TextObject] = []
    for start in closed:
        if start < position:
            continue
        if decoded > MOST_DECODED:
            return ()
        try:
            value, position = _DECODER.raw_decode(looked_at, start)
        except json.JSONDecodeError as error:
            decoded += error.pos - start + FAILED_ATTEMPT
        # A number has thousands of digits, or brackets are nested too deeply.
        except (ValueError, RecursionError):
            decoded += len(looked_at) - start
        else:
            decoded += position - start
            if wire.is_nested_beyond(value, MOST_NESTED):
                continue
            fields = {name.lower(): inner for name, inner in cast("dict[str, JSON]", value).items()}
            objects.append(TextObject(fields, (start + unread, position + unread), text))
    return tuple(reversed(objects))


def _find_closed_braces(text: str) -> list[int]:
    """Return the opening braces that a JSON decoder starting there would find closed, in order.

    Which parts are strings depends on where reading begins, but at any place there are only two
    possibilities: it is within quotation marks, or not. So all beginnings are followed at once:
    those for which the place is outside of strings, and those for which it is inside. Both are
    stacks of open braces, the last one on top; beginnings that agree from some place on share a
    level.
    """
    closed: list[int] = []
    outside: list[list[int]] = []
    inside: list[list[int]] = []
    for match in _SIGN.finditer(text):
        sign = match[0]
        if sign == '"':
            outside, inside = inside, outside
        # Outside a string the backslash has no meaning: a string begins.
        elif sign == '\\"':
            outside, inside = [], _join_stacks(outside, inside)
        elif sign[-1] == "{":
            outside.append([match.end() - 1])
        elif sign[-1] == "}" and outside:
            closed += outside.pop()
    return sorted(closed)


def _join_stacks(first: list[list[int]], second: list[list[int]]) -> list[list[int]]:
    """Join two stacks: levels at the same distance from the top become one.

    This takes time in the size of the smaller one.
    """
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    for distance in range(1, len(shorter) + 1):
        here, there = longer[-distance], shorter[-distance]
        if len(here) < len(there):
            here, there = there, here
        here += there
        longer[-distance] = here
    return longer


def prose_before(text: str, name: str) -> str:
    """Return the text before the last object with a field `name`, without its code fence.

    Without such an object, return the whole text.
    """
    match = next((match for match in find_objects(text) if name in match.fields), None)
    return (_OPENED_FENCE.sub("", text) if match is None else match.before).strip()


_FENCE = "```"
_ON_ITS_OWN_LINE = re.compile(r"(?:\A|\n)[ \t]*(?:```\w*[ \t]*)?\Z")
_STRICT_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=lambda pairs: _drop_repeated_names(pairs)
)


def find_final_object(own_text: str, name: str) -> TextObject | None:
    """Return the object with a field `name` at the end of a judge's text.

    It must be on lines of its own; `None` without one.

    It may stand in a code fence. A name that occurs twice has no value.
    """
    at = None
    if "}" in own_text:
        at = find_object_at_end(own_text)
    fields = None
    if at is not None and is_on_its_own_line(own_text, at[0]):
        fields = decode_object(own_text[slice(*at)])
    if at is None or fields is None or name not in fields:
        return None
    return TextObject(fields, at, own_text)


@lru_cache(maxsize=16)  # a judge reads several things in one text, one after the other
def find_object_at_end(own_text: str) -> Place | None:
    """Return the place of the object that ends a text, perhaps in a code fence.

    It may be the whole text, of any length, or the last object.
    """
    whole = find_whole_object(own_text)
    if whole is not None:
        return whole
    end = find_text_end(own_text)
    match = None
    if own_text.endswith("}", 0, end):
        match = next(iter(find_objects(own_text[:end])), None)
    if match is None or match.at[1] != end:
        return None
    return match.at


def find_whole_object(own_text: str) -> Place | None:
    """Return the place of an object that is all of a text, perhaps in a code fence."""
    end = find_text_end(own_text)
    head = re.match(r"\s*(?:```\w*\s*)?", own_text)
    start = 0
    if head is not None:
        start = head.end()
    is_one = (
        own_text.startswith("{", start)
        and own_text.endswith("}", 0, end)
        and decode_object(own_text[start:end]) is not None
    )
    if not is_one:
        return None
    return start, end


def find_text_end(own_text: str) -> int:
    """Return where a text ends before white space and the end of a code fence."""
    return len(own_text.rstrip().removesuffix(_FENCE).rstrip())


def is_on_its_own_line(own_text: str, start: int) -> bool:
    """Return whether only a code fence precedes this place in its line."""
    return (
        _ON_ITS_OWN_LINE.search(own_text, max(0, own_text.rfind("\n", 0, start)), start) is not None
    )


def split_explanation(text: str, name: str = "verdict") -> tuple[str, str]:
    """Return the critique and the explanation of a verdict.

    They are two fields of an object, or otherwise both are the whole text.

    `name` is the field of the verdict in an object.

    Text outside an object does not separate reasons from critique.
    """
    written = find_final_object(cut_thinking(text), name)
    if written is None:
        return text, text
    return written.text(CRITIQUE) or written.before, written.text("explanation") or text


def extract_critique(own_text: str, name: str) -> str:
    """Return the critique before a verdict with this name: a field, or the text before it."""
    written = find_final_object(own_text, name)
    if written is None:
        return prose_before(own_text, name)
    return written.text(CRITIQUE) or written.before


@lru_cache(maxsize=16)  # a judge reads several things in one text, one after the other
def decode_object(text: str) -> Mapping[str, JSON] | None:
    """Decode an object; names are in lower case, and a repeated name has the value `None`."""
    try:
        fields = _STRICT_DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or wire.is_nested_beyond(fields, MOST_NESTED):
        return None
    return fields


def _drop_repeated_names(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for name, value in pairs:
        lowered = name.lower()
        fields[lowered] = None if lowered in fields else value
    return fields


_QUOTE = "\\\\?[\"'\u2018\u2019\u201c\u201d]?"
NAMES_OF_FIELDS = (
    "critique|explanation|feedback|reason|reasoning|verdict|scores?|rating|grade|label|winner|"
    "choice|result|judge?ment|decision"
)


class ObjectSigns(NamedTuple):
    """Signs of an object that is malformed, or within a string.

    Attributes:
        begun: how it begins.
        named: matches one of its fields, if its beginning is missing.
    """

    begun: re.Pattern[str]
    named: re.Pattern[str]

    @classmethod
    def from_fields(cls, names: str, first: str | None = None) -> ObjectSigns:
        """Return the signs of objects with these fields.

        `first` is a pattern of further quoted names with which an object may begin.
        """
        others = ""
        if first is not None:
            others = rf"|\\?[\"'](?:{first})\\?[\"']\s*:"
        return cls(
            re.compile(
                rf"\{{\s*(?:{_QUOTE}(?:{names}){_QUOTE}\s*:"
                rf"|[\"'](?:{names})[\"']\s*(?=[=\"'\d-]){others})",
                re.IGNORECASE,
            ),
            re.compile(rf"[\"'](?:{names})\\?[\"']\s*:", re.IGNORECASE),
        )

    @classmethod
    def from_name(cls, name: str) -> ObjectSigns:
        """Return the signs of an object whose verdict has this name, with any other fields."""
        field_name = re.escape(name)
        return cls.from_fields(f"{NAMES_OF_FIELDS}|{field_name}", r"[^\"'\\{}\n:]{1,60}")


USUAL_SIGNS = ObjectSigns.from_fields(NAMES_OF_FIELDS)


BLANK = "\ufffd"
"""In place of each sign of an object; white space would join the words around it."""

_BRACE = re.compile(r"[{}]")
_MOST_FAILED = 10
"""Malformed objects whose ends are looked for; a later one extends perhaps to the last brace."""


@dataclass(frozen=True, slots=True)
class OutermostObject:
    """Outermost object: decoded with its fields, or malformed, perhaps closed by a brace."""

    at: Place
    fields: Mapping[str, JSON] | None = None
    is_closed: bool = True


def find_outermost_objects(
    text: str, signs: ObjectSigns
) -> tuple[list[OutermostObject], list[Place]]:
    """Return the outermost objects in order, and where malformed ones may extend.

    A malformed object extends to the brace that closes it, or perhaps to the last brace, since its
    texts may have braces; without any brace, perhaps to the end of its line.
    """
    if "}" not in text and "{" not in text:
        return [], []
    sound = {match.at[0]: match for match in find_objects(text, len(text)) if match.fields}
    begun = {match.start(): match.end() for match in signs.begun.finditer(text)}
    objects: list[OutermostObject] = []
    doubtful: list[Place] = []
    last, failed = text.rfind("}") + 1, 0
    for start in sorted({*sound, *begun}):
        if objects and start < objects[-1].at[1]:
            continue
        if start in sound:
            objects.append(OutermostObject(sound[start].at, sound[start].fields))
            continue
        closing, furthest = None, last
        if begun[start] > last:
            line_end = text.find("\n", begun[start])
            furthest = len(text) if line_end < 0 else line_end
        elif failed < _MOST_FAILED:
            closing, failed = (
                next((end for depth, end in brace_depths(text, start) if depth == 0), None),
                failed + 1,
            )
        if closing is None:
            objects.append(OutermostObject((start, begun[start]), is_closed=False))
        else:
            objects.append(OutermostObject((start, closing)))
        if not doubtful or start >= doubtful[-1][1]:
            doubtful.append((start, furthest))
    cut = _find_cut_end(blank_objects(text, [outermost.at for outermost in objects]), signs.named)
    if cut:
        doubtful = [(0, cut), *((max(start, cut), end) for start, end in doubtful if end > cut)]
    return objects, doubtful


def _find_cut_end(words: str, name: re.Pattern[str]) -> int:
    """Return where an object ends whose beginning is missing, such as after cut thinking.

    0 without one.
    """
    named = name.search(words)
    if named is None:
        return 0
    depth = 0
    for brace in _BRACE.finditer(words):
        depth += 1 if brace[0] == "{" else -1
        if depth < 0 and brace.start() > named.start():
            return brace.end()
        depth = max(depth, 0)
    return 0


def brace_depths(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield after each brace from `start` how many are open, and where the brace ends."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        yield depth, brace.end()


def blank_objects(text: str, objects: list[Place]) -> str:
    """Return the text with blanks in place of objects, so that all else keeps its place."""
    parts, end = [], 0
    for start, until in objects:
        parts += [text[end:start], BLANK * (until - start)]
        end = until
    return "".join([*parts, text[end:]])
