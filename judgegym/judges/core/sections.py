"""Parses a prompt's sections: the inverse of the markers that `judgegym.judges.core.delimiters` writes.

A marker is a line `<|title|>`, `[title]`, `### title` or `title:`; the markers of one prompt are of one style, and all
of them carry one tag or none. Every other line is text. A title may be followed by an id, where a prompt has several
sections of a kind: `[Start of answer ghjkm]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_STYLES = ("<|", "[", "### ", "")
_TAG = re.compile(r"[0-9a-f]+")
_ID = re.compile(r"[a-z]+")


class MarkerLine(NamedTuple):
    """A line that looks like a marker: its opening signs, the text inside, and its place in the prompt."""

    style: str
    text: str
    start: int
    end: int


class PromptSections(NamedTuple):
    """Where the first section of a prompt begins, and the texts of all sections by title, in their order."""

    start: int
    texts: Mapping[str, str]


def marker_lines(content: str, titles: Collection[str] = (), with_id: Collection[str] = ()) -> Iterator[MarkerLine]:
    """All lines that look like a marker, in order; with titles, those of a marker with one of them.

    A text may have very many lines that look like a marker, and few with a title.

    Args:
        content: a prompt.
        titles: the titles.
        with_id: titles that an id follows.
    """
    for match in _marker(frozenset(titles), frozenset(with_id)).finditer(content):
        style = match.lastindex
        assert style is not None  # each alternative has a group
        yield MarkerLine(_STYLES[style - 1], match[style], match.start(), match.end())


@lru_cache
def _marker(titles: frozenset[str], with_id: frozenset[str]) -> re.Pattern[str]:
    known = [re.escape(title) for title in sorted(titles)]
    known += [f"{re.escape(title)} {_ID.pattern}" for title in sorted(with_id)]
    inside = f"(?:{'|'.join(known)})(?: {_TAG.pattern})?" if known else ".+"
    return re.compile(rf"^(?:<\|({inside})\|>|\[({inside})\]|### ({inside})|({inside}):)$", re.MULTILINE)


def read_sections(
    content: str,
    lines: Sequence[MarkerLine],
    required: Collection[str],
    optional: Collection[str] = (),
    with_id: Collection[str] = (),
) -> PromptSections | None:
    """The sections with these titles; `None` if a required one is missing. `lines` are the content's `marker_lines`.

    If the prompt has several kinds of markers (a kind is a style with a tag), the first kind that has all required
    titles counts: a section may quote another prompt.

    Args:
        content: a prompt.
        lines: the lines that look like a marker with one of the titles.
        required: titles that every prompt has.
        optional: further titles.
        with_id: titles that an id follows, of each of which every prompt has at least one.
    """
    titles = {*required, *optional}
    by_kind: dict[tuple[str, str], dict[str, MarkerLine]] = {}
    for line in lines:
        title, tag = _title_and_tag(line.text, titles, with_id)
        if title:
            by_kind.setdefault((line.style, tag), {}).setdefault(title, line)
    markers = next((found for found in by_kind.values() if _is_complete(found, required, with_id)), None)
    if markers is None:
        return None
    starts = [line.start for line in markers.values()]
    ends = zip(markers.items(), [*starts[1:], len(content)], strict=True)
    return PromptSections(starts[0], {title: content[line.end : end].strip("\n") for (title, line), end in ends})


def _is_complete(found: Collection[str], required: Collection[str], with_id: Collection[str]) -> bool:
    return {*found} >= {*required} and {title.rpartition(" ")[0] for title in found} >= {*with_id}


def _title_and_tag(text: str, titles: Collection[str], with_id: Collection[str]) -> tuple[str, str]:
    """A marker's title, with its id, and its tag; both empty if the title is not one of those that are looked for."""
    if _is_title(text, titles, with_id):
        return text, ""
    title, _, tag = text.rpartition(" ")
    return (title, tag) if _is_title(title, titles, with_id) and _TAG.fullmatch(tag) else ("", "")


def _is_title(text: str, titles: Collection[str], with_id: Collection[str]) -> bool:
    title, _, own = text.rpartition(" ")
    return text in titles or (title in with_id and _ID.fullmatch(own) is not None)
