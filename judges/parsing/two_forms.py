"""The verdict of a judge that may write it in words or as an object at the end (`judges.parsing.written_object`).

Guarantees: words within an object are no verdict, also where the object is malformed or more text follows it, because
its reasons may quote what is judged; nor is an object within a malformed one. An object at the end after other words
with another verdict may be quoted from what is judged: then there is no verdict. Linear time on any text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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
_NAMED = re.compile(rf"[\"'](?:{_NAMES})\\?[\"']\s*:", re.IGNORECASE)
_BRACE = re.compile(r"[{}]")
_MOST_FAILED = 10
"""Malformed objects whose ends are looked for; a later one extends perhaps to the last brace."""
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
    objects, doubtful = _objects(own)
    words = _without(own, objects)
    fewer = words if doubtful == objects else _without(own, doubtful)
    written = written_object(own, name)
    if written is None:
        return _agreed(in_words, words, fewer)
    start = written.at[0]
    value = of_value(written.fields[name])
    if value is None or any(begin < start < end for begin, end in doubtful):
        return None
    before = (earlier or in_words)(words[:start])
    return None if before is not None and before.value != value else Found(value, written.at)


def _agreed(in_words: Callable[[str], Found[ValueT] | None], words: str, fewer: str) -> Found[ValueT] | None:
    """The verdict in the words, if it is the same without those that may be of a malformed object."""
    found = in_words(words)
    if found is None or fewer == words:
        return found
    other = in_words(fewer)
    return None if other is None or other.value != found.value else found


def _objects(own: str) -> tuple[list[Place], list[Place]]:
    """The objects of a form; and the same as far as malformed ones may extend.

    A malformed object extends to the brace that closes it; perhaps to the last one, since its texts may have braces;
    without any perhaps to the end of its line.
    """
    if "}" not in own and "{" not in own:
        return [], []
    objects: list[Place] = []
    doubtful: list[Place] = []
    last, failed = own.rfind("}") + 1, 0
    for begun in _BEGUN.finditer(own):
        start = begun.start()
        if objects and start < objects[-1][1]:
            continue
        if begun.end() > last:
            line_end = own.find("\n", begun.end())
            end, furthest = begun.end(), len(own) if line_end < 0 else line_end
        else:
            end, furthest = begun.end(), last
            if failed < _MOST_FAILED:
                try:
                    _, end = _DECODER.raw_decode(own, start)
                    furthest = end
                except (ValueError, RecursionError):
                    end, failed = _closed(own, begun), failed + 1
        objects.append((start, end))
        if not doubtful or start >= doubtful[-1][1]:
            doubtful.append((start, furthest))
    cut = _end_of_cut(_without(own, objects))
    if cut:
        doubtful = [(0, cut), *((max(start, cut), end) for start, end in doubtful if end > cut)]
    return objects, doubtful


def _end_of_cut(words: str) -> int:
    """Where an object ends whose beginning is missing, such as one that quotes the end of thinking; 0 without one."""
    named = _NAMED.search(words)
    if named is None:
        return 0
    depth = 0
    for brace in _BRACE.finditer(words):
        depth += 1 if brace[0] == "{" else -1
        if depth < 0 and brace.start() > named.start():
            return brace.end()
        depth = max(depth, 0)
    return 0


def _closed(own: str, begun: re.Match[str]) -> int:
    """Where the brace ends that closes an object; where its beginning ends, if there is none."""
    depth = 0
    for brace in _BRACE.finditer(own, begun.start()):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return begun.end()


def _without(own: str, objects: list[Place]) -> str:
    """The text with blanks in place of objects, so that all else keeps its place."""
    parts, end = [], 0
    for start, until in objects:
        parts += [own[end:start], _BLANK * (until - start)]
        end = until
    return "".join([*parts, own[end:]])
