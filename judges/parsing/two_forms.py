"""The verdict of a judge that may write it in words or as an object at the end (`judges.parsing.written_object`).

Guarantees: words within an object are no verdict, also where the object is malformed or more text follows it, because
its reasons may quote what is judged; nor is an object within a malformed one. An object at the end after other words
with another verdict may be quoted from what is judged: then there is no verdict. Linear time on any text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from judges.llm.wire import JSON
from judges.parsing.found import Found, Place
from judges.parsing.written_object import written_object

ValueT = TypeVar("ValueT")

_QUOTE = "\\\\?[\"'\u2018\u2019\u201c\u201d]?"
_NAMES = "critique|explanation|feedback|reason|reasoning|verdict|score|rating"
_BEGUN = re.compile(rf"\{{\s*{_QUOTE}(?:{_NAMES}){_QUOTE}\s*:", re.IGNORECASE)
"""How an object of a form begins, also one that is malformed or within a string."""
_BLANK = "\ufffd"
"""In place of each sign of an object; white space would join the words around it."""
_DECODER = json.JSONDecoder(strict=False)


def verdict_in_either(
    own: str,
    name: str,
    of_value: Callable[[JSON], ValueT | None],
    in_words: Callable[[str], Found[ValueT] | None],
    *,
    earlier: Callable[[str], Found[ValueT] | None] | None = None,
) -> Found[ValueT] | None:
    """The verdict in a judge's own text.

    Args:
        own: the judge's own text.
        name: the field that the object has it in.
        of_value: the verdict that a field's value is.
        in_words: finds it in a text.
        earlier: finds it in the words before an object, where that is another search.
    """
    objects = list(_objects(own))
    words = _without(own, objects)
    written = written_object(own, name)
    if written is None:
        return in_words(words)
    start = written.at[0]
    value = of_value(written.fields[name])
    if value is None or any(begin < start < end for begin, end in objects):
        return None
    before = (earlier or in_words)(words[:start])
    return None if before is not None and before.value != value else Found(value, written.at)


def _objects(own: str) -> Iterator[Place]:
    """The objects of a form; one that is malformed may extend to the last brace, or else to the end of its line."""
    covered, last = 0, own.rfind("}") + 1
    for begun in _BEGUN.finditer(own):
        start = begun.start()
        if start < covered:
            continue
        if begun.end() > last:
            line_end = own.find("\n", begun.end())
            covered = len(own) if line_end < 0 else line_end
        else:
            try:
                _, covered = _DECODER.raw_decode(own, start)
            except (ValueError, RecursionError):
                covered = last
        yield start, covered


def _without(own: str, objects: list[Place]) -> str:
    """The text with blanks in place of objects, so that all else keeps its place."""
    parts, end = [], 0
    for start, until in objects:
        parts += [own[end:start], _BLANK * (until - start)]
        end = until
    return "".join([*parts, own[end:]])
