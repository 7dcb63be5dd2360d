"""Prompt formats for the offline stand-in: a judge's prompt sections and a plausible reply.

A judge declares one `PromptFormat` beside its prompt. The stand-in finds the sections by the
markers of `judgegym.judges.core.delimiters`, computes the merit of each judged text from its words,
and calls `reply`.

`read_sections` parses a prompt's sections: the inverse of what `judgegym.judges.core.delimiters`
writes.

A marker is a line `<|title|>`, `[title]`, `### title` or `title:`. The markers of one prompt have
one style, and all carry the same tag or none. Every other line is text. If a prompt has several
sections of a kind, an id follows the title: `[Start of answer ghjkm]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import NamedTuple

from judgegym.judges.parsing.json_objects import find_objects
from judgegym.llm.wire import JSON

PREVIOUS_EVALUATION = "YOUR PREVIOUS EVALUATION"
"""The section that turns a prompt into a critique request; the reply then follows the critique."""


def object_fields(reply: str) -> Mapping[str, JSON] | None:
    """Return the fields of the last JSON object of a reply."""
    last = next(iter(find_objects(reply)), None)
    if last is None:
        return None
    return last.fields


def bracketed_fields(reply: str) -> Mapping[str, JSON] | None:
    """Return the fields of a reply that ends with its verdict in double brackets."""
    explanation, _, verdict = reply.rpartition("[[")
    if explanation:
        return {"explanation": explanation.strip(), "verdict": verdict.strip().removesuffix("]]")}
    return None


@dataclass(frozen=True, slots=True)
class StandInPrompt:
    """A judge's prompt as the stand-in has parsed it.

    Attributes:
        instructions: the system prompt, and the part of the user message before the first section.
        sections: the texts of the sections by title; optional ones only if the prompt has them.
        merits: the merit of each judged section, between 0 and 1, with small differences between
            votes and critiques.
        rng: seeded with the prompt without the judged text, so that a better text never gets a
            worse verdict.
    """

    instructions: str
    sections: Mapping[str, str]
    merits: Mapping[str, float]
    rng: Random

    @property
    def merit(self) -> float:
        """The merit of the first judged section, for judges of one text."""
        return next(iter(self.merits.values()))


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """The format of a judge's prompt: how to recognise it, and a plausible reply to it.

    Attributes:
        sections: the titles that every prompt has; a prompt with all of them is this judge's.
        judged: the judged sections; a title of `with_id` stands for all sections of that kind.
        reply: makes a reply in the prompt's format, without thinking tags.
        optional: further titles that a prompt may have.
        with_id: titles followed by an id of small letters; every prompt has one or more of each. In
            `ParsedPrompt` the id belongs to the title.
        question: the section that the judged text answers; words that both share add to the merit.
        references: sections to compare the judged text with; the first one that the prompt has
            counts.
        ending: the text of the prompt after its last section.
        fields: returns a reply's fields, for requests of an object; by default those of the JSON
            object at its end. `None` if it has none.

    Raises:
        ValueError: a judged section is not among the titles, or no section is judged.
    """

    sections: tuple[str, ...]
    judged: tuple[str, ...]
    reply: Callable[[StandInPrompt], str]
    optional: tuple[str, ...] = ()
    with_id: tuple[str, ...] = ()
    question: str = ""
    references: tuple[str, ...] = ()
    ending: str = ""
    fields: Callable[[str], Mapping[str, JSON] | None] = object_fields

    def __post_init__(self) -> None:
        """Check that at least one section can be judged."""
        if isinstance(self.sections, str) or isinstance(self.judged, str):
            raise ValueError("'sections' and 'judged' are tuples of titles, not one string")
        always = (*self.sections, *self.with_id)
        unknown = [title for title in self.judged if title not in (*always, *self.optional)]
        if unknown or not set(self.judged) & set(always):
            raise ValueError(
                f"'judged' must name at least one of the sections {always}, not {self.judged}"
            )

    def select_judged(self, titles: Iterable[str]) -> list[str]:
        """Return the titles under judgment, in the order of `judged`."""
        stems = [(title, title.rpartition(" ")[0]) for title in titles]
        selected: list[str] = []
        for judged in self.judged:
            if judged in self.with_id:
                selected += [title for title, stem in stems if stem == judged]
            else:
                selected += [title for title, _ in stems if title == judged]
        return selected


_STYLES = ("<|", "[", "### ", "")
_TAG = re.compile(r"[0-9a-f]+")
_ID = re.compile(r"[a-z]+")


class MarkerLine(NamedTuple):
    """A line that looks like a marker: opening signs, inner text, and position."""

    style: str
    text: str
    start: int
    end: int


class PromptSections(NamedTuple):
    """The start of a prompt's first section, and the texts of all sections by title, in order."""

    start: int
    texts: Mapping[str, str]


def find_marker_lines(
    content: str, titles: Collection[str] = (), with_id: Collection[str] = ()
) -> Iterator[MarkerLine]:
    """Yield the lines that look like a marker, in order; with titles, only theirs.

    A text may have very many lines that look like a marker, but few with a title.

    Args:
        content: a prompt.
        titles: the titles.
        with_id: titles that an id follows.
    """
    for match in _marker_pattern(frozenset(titles), frozenset(with_id)).finditer(content):
        style = match.lastindex
        assert style is not None  # each alternative has a group
        yield MarkerLine(_STYLES[style - 1], match[style], match.start(), match.end())


@lru_cache
def _marker_pattern(titles: frozenset[str], with_id: frozenset[str]) -> re.Pattern[str]:
    patterns = [re.escape(title) for title in sorted(titles)]
    patterns += [f"{re.escape(title)} {_ID.pattern}" for title in sorted(with_id)]
    inside = f"(?:{'|'.join(patterns)})(?: {_TAG.pattern})?" if patterns else ".+"
    return re.compile(
        rf"^(?:<\|({inside})\|>|\[({inside})\]|### ({inside})|({inside}):)$", re.MULTILINE
    )


def read_sections(
    content: str,
    lines: Sequence[MarkerLine],
    required: Collection[str],
    optional: Collection[str] = (),
    with_id: Collection[str] = (),
) -> PromptSections | None:
    """Return the sections with these titles; `None` if a required one is missing.

    If the prompt has several kinds of markers (a kind is a style with a tag), the first kind with
    all required titles counts: a section may quote another prompt.

    Args:
        content: a prompt.
        lines: the content's `find_marker_lines` with one of the titles.
        required: titles that every prompt has.
        optional: further titles.
        with_id: titles followed by an id; every prompt has at least one of each.
    """
    titles = {*required, *optional}
    by_kind: dict[tuple[str, str], dict[str, MarkerLine]] = {}
    for line in lines:
        title, tag = _split_title_and_tag(line.text, titles, with_id)
        if title:
            by_kind.setdefault((line.style, tag), {}).setdefault(title, line)
    markers = next(
        (candidate for candidate in by_kind.values() if _is_complete(candidate, required, with_id)),
        None,
    )
    if markers is None:
        return None
    starts = [line.start for line in markers.values()]
    ends = zip(markers.items(), [*starts[1:], len(content)], strict=True)
    return PromptSections(
        starts[0], {title: content[line.end : end].strip("\n") for (title, line), end in ends}
    )


def _is_complete(
    titles: Collection[str], required: Collection[str], with_id: Collection[str]
) -> bool:
    return {*titles} >= {*required} and {title.rpartition(" ")[0] for title in titles} >= {*with_id}


def _split_title_and_tag(
    text: str, titles: Collection[str], with_id: Collection[str]
) -> tuple[str, str]:
    """Return a marker's title, with its id, and its tag; both empty for an unknown title."""
    if _is_title(text, titles, with_id):
        return text, ""
    title, _, tag = text.rpartition(" ")
    if _is_title(title, titles, with_id) and _TAG.fullmatch(tag):
        return (title, tag)
    return ("", "")


def _is_title(text: str, titles: Collection[str], with_id: Collection[str]) -> bool:
    title, _, identifier = text.rpartition(" ")
    return text in titles or (title in with_id and _ID.fullmatch(identifier) is not None)
