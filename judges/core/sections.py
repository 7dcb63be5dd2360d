"""Parses a prompt's sections: the inverse of the markers that `judges.core.delimiters` writes.

A marker is a line `<|title|>`, `[title]`, `### title` or `title:`; the markers of one prompt are of one style, and all
of them carry one tag or none. Every other line is text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_STYLES = ("<|", "[", "### ", "")
_TAG = re.compile(r"[0-9a-f]+")


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


def marker_lines(content: str, titles: Collection[str] = ()) -> Iterator[MarkerLine]:
    """All lines that look like a marker, in order; with titles, those of a marker with one of them.

    A text may have very many lines that look like a marker, and few with a title.
    """
    for match in _marker(frozenset(titles)).finditer(content):
        style = match.lastindex
        assert style is not None  # each alternative has a group
        yield MarkerLine(_STYLES[style - 1], match[style], match.start(), match.end())


@lru_cache
def _marker(titles: frozenset[str]) -> re.Pattern[str]:
    inside = f"(?:{'|'.join(map(re.escape, sorted(titles)))})(?: {_TAG.pattern})?" if titles else ".+"
    return re.compile(rf"^(?:<\|({inside})\|>|\[({inside})\]|### ({inside})|({inside}):)$", re.MULTILINE)


def read_sections(
    content: str, lines: Sequence[MarkerLine], required: Collection[str], optional: Collection[str] = ()
) -> PromptSections | None:
    """The sections with these titles; `None` if a required one is missing. `lines` are the content's `marker_lines`.

    If the prompt has several kinds of markers (a kind is a style with a tag), the first kind that has all required
    titles counts: a section may quote another prompt.
    """
    titles = {*required, *optional}
    by_kind: dict[tuple[str, str], dict[str, MarkerLine]] = {}
    for line in lines:
        title, tag = _title_and_tag(line.text, titles)
        if title:
            by_kind.setdefault((line.style, tag), {}).setdefault(title, line)
    markers = next((lines for lines in by_kind.values() if lines.keys() >= {*required}), None)
    if markers is None:
        return None
    starts = [line.start for line in markers.values()]
    ends = zip(markers.items(), [*starts[1:], len(content)], strict=True)
    return PromptSections(starts[0], {title: content[line.end : end].strip("\n") for (title, line), end in ends})


def _title_and_tag(text: str, titles: Collection[str]) -> tuple[str, str]:
    """A marker's title and tag; both empty if its title is not one of `titles`."""
    if text in titles:
        return text, ""
    title, _, tag = text.rpartition(" ")
    return (title, tag) if title in titles and _TAG.fullmatch(tag) else ("", "")
