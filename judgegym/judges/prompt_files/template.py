"""A prompt as a text with placeholders, each of which stands in a delimited section of its own.

A section is a marker line (`[Question]`, `### Question`, `<|Question|>` or `Question:`) with a placeholder below it. A
placeholder without a marker gets one, and a section that is followed by other words than a marker gets one at its end.
If a text could be mistaken for a marker, all markers carry a tag that occurs in no text
(`judgegym.judges.core.delimiters`); otherwise the prompt is the template with the texts in it, byte for byte.

Guarantee: no text is read as a template, and none can end its own section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from judgegym.judges.core.delimiters import Delimiters, Lookalikes, Prompt, delimit

PlaceholderName = Literal["prompt", "response", "reference", "rubric", "context", "baseline"]
PLACEHOLDERS: tuple[PlaceholderName, ...] = get_args(PlaceholderName)
"""What a template can show: fields of a task, and its response."""

MarkerStyle: TypeAlias = Literal["<|{}|>", "[{}]", "### {}", "{}:"]
_STYLES: tuple[MarkerStyle, ...] = get_args(MarkerStyle)
_OPENINGS: Mapping[MarkerStyle, str] = {"<|{}|>": "<|", "[{}]": "[", "### {}": "#", "{}:": ""}
_MARKER = re.compile(r"<\|([^\n|]+)\|>|\[([^\n\[\]{}]+)\]|### ([^\n{}]+)|((?!\s)[^\n:{}]{1,60}):")
_ALONE = re.compile(r"[ \t]*\{(\w+)\}[ \t]*")
_LABELLED = re.compile(r"[ \t]*(#{1,6} )?\**(?P<label>[^\s{}:*#][^{}:\n*]{0,59}?)\**:\**[ \t]*\{(?P<name>\w+)\}[ \t]*")
_NAMED = re.compile(r"(?<!\{)\{([A-Za-z_]\w*)\}(?!\})")
_ESCAPED = re.compile(r"\{(\{[A-Za-z_]\w*\})\}")
_TAG = re.compile(r"</?([A-Za-z][\w-]*)>")


class TemplateError(ValueError):
    """A template that cannot be used.

    Attributes:
        line: the number of its line, from 1.
    """

    def __init__(self, line: int, problem: str) -> None:
        """Say what is wrong with a line."""
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class TemplateSection:
    """A placeholder between its markers.

    Attributes:
        name: of the placeholder.
        title: of its marker.
        gap: what stands between the marker and the text: one or more line breaks.
        ending: the title of the marker behind the text; `None` where the next section begins or the template ends.
        end_gap: what stands between the text and that marker.
        line: the number of the placeholder's line, from 1.
    """

    name: PlaceholderName
    title: str
    gap: str
    ending: str | None
    end_gap: str
    line: int


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A template in its parts.

    Attributes:
        parts: texts of the template itself, and sections, in their order, to be joined by line breaks.
        style: how all markers are written.
        lookalikes: what a text needs to look like one of the markers.
        notes: what was changed, one line each, for the user.
    """

    parts: tuple[str | TemplateSection, ...]
    style: MarkerStyle
    lookalikes: Lookalikes
    notes: tuple[str, ...] = ()

    @property
    def sections(self) -> tuple[TemplateSection, ...]:
        """The sections in their order."""
        return tuple(part for part in self.parts if isinstance(part, TemplateSection))

    @property
    def names(self) -> tuple[PlaceholderName, ...]:
        """The placeholders in their order."""
        return tuple(section.name for section in self.sections)

    def fill(self, texts: Mapping[str, str], *, system: str | None = None) -> Prompt:
        """Make the prompt.

        Args:
            texts: by placeholder; the section of one that is left out is left out, too.
            system: the system message.
        """
        shown = [section for section in self.sections if section.name in texts]
        shared = [section.name for section in shown if section.name != "response"]
        order = [*shared, *(section.name for section in shown if section.name == "response")]
        delimited = delimit([texts[name] for name in order], self.lookalikes, shared=len(shared))
        by_name: dict[str, str] = dict(zip(order, delimited.texts, strict=True))
        user = delimited.markers.notice + self._joined(by_name, delimited.markers)
        return Prompt.of(system, user, delimited.suspects)

    def _joined(self, texts: Mapping[str, str], markers: Delimiters) -> str:
        lines: list[str] = []
        is_behind_gap = False
        for part in self.parts:
            if isinstance(part, TemplateSection):
                is_behind_gap = part.name not in texts
                if not is_behind_gap:
                    lines.append(self._section(part, texts[part.name], markers))
            elif not is_behind_gap or part:  # of the blank lines around a section that is left out, one is enough
                lines.append(part.removeprefix("\n") if is_behind_gap else part)
        return "\n".join(lines)

    def _section(self, section: TemplateSection, text: str, markers: Delimiters) -> str:
        tag = f" {markers.tag}" if markers.tag else ""
        opening = self.style.format(section.title + tag)
        if section.ending is None:
            return f"{opening}{section.gap}{text}"
        return f"{opening}{section.gap}{text}{section.end_gap}{self.style.format(section.ending + tag)}"


def parse_template(text: str, *, first_line: int = 1) -> PromptTemplate:
    """Parse a template.

    Args:
        text: the user message with placeholders such as `{response}`; `{{name}}` stands for `{name}` itself.
        first_line: the number of its first line in its file, for messages.

    Raises:
        TemplateError: it has no response, an unknown placeholder, one within a sentence, one twice, or two sections of
            one title.
    """
    lines, notes = _with_labels_apart(text.rstrip("\n").split("\n"), first_line)
    _check_placeholders(lines)
    style = _first_style(lines)
    parts: list[str | TemplateSection] = []
    position = 0
    while position < len(lines):
        end = _section_end(lines, position)
        if end is None:
            parts.append(_ESCAPED.sub(r"\1", lines[position].text))
            position += 1
            continue
        section, notes_of_section = _section_at(lines, position, end)
        parts.append(section)
        notes += notes_of_section
        position = end
    _check_titles([part for part in parts if isinstance(part, TemplateSection)])
    return PromptTemplate(tuple(_joined_texts(parts)), style, _lookalikes(parts, style), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    number: int

    @property
    def placeholder(self) -> str | None:
        """The placeholder that stands alone in the line."""
        match = _ALONE.fullmatch(self.text)
        return None if match is None else match[1]

    @property
    def marker(self) -> tuple[MarkerStyle, str] | None:
        """The style and the title of a marker."""
        match = _MARKER.fullmatch(self.text.rstrip())
        if match is None or match.lastindex is None:
            return None
        return _STYLES[match.lastindex - 1], match[match.lastindex].strip()

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


def _with_labels_apart(texts: Sequence[str], first_line: int) -> tuple[list[_Line], list[str]]:
    """The lines, with `Label: {name}` as a marker and a placeholder; and a note on each of these."""
    lines, notes = list[_Line](), list[str]()
    for number, text in enumerate(texts, start=first_line):
        match = _LABELLED.fullmatch(text)
        if match is None:
            lines.append(_Line(text, number))
            continue
        label = match["label"].strip()
        marker = f"### {label}" if match[1] else f"{label}:"
        lines += [_Line(marker, number), _Line(f"{{{match['name']}}}", number)]
        notes.append(f"line {number}: {{{match['name']}}} has become a section of its own, titled {label!r}")
    return lines, notes


def _check_placeholders(lines: Sequence[_Line]) -> None:
    seen: dict[str, int] = {}
    for line in lines:
        for name in _NAMED.findall(line.text):
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                raise TemplateError(
                    line.number,
                    f"{{{name}}}: unknown placeholder; expected {known}, or {{{{{name}}}}} for the text {{{name}}}",
                )
            if line.placeholder is None:
                raise TemplateError(
                    line.number,
                    f"{{{name}}} stands within a line, where a text could pass for the prompt's own words; "
                    f"expected it alone in a line, or behind a label: Label: {{{name}}}",
                )
            if name in seen:
                raise TemplateError(line.number, f"{{{name}}} is in line {seen[name]} already; expected it once")
            seen[name] = line.number
    if "response" not in seen:
        raise TemplateError(lines[0].number, "there is no {response}: a prompt needs the text that is judged")


def _first_style(lines: Sequence[_Line]) -> MarkerStyle:
    """The style of the first marker above a placeholder; brackets without one."""
    for position, line in enumerate(lines):
        if line.placeholder is not None:
            above = _marker_above(lines, position)
            if above is not None and lines[above].marker is not None:
                return lines[above].marker[0]  # type: ignore[index]  # it has one
    return "[{}]"


def _marker_above(lines: Sequence[_Line], position: int) -> int | None:
    """The number of the marker line above a placeholder, which blank lines may part; not of words before a colon."""
    above = position - 1
    while above >= 0 and lines[above].is_blank:
        above -= 1
    marker = lines[above].marker if above >= 0 else None
    is_near = above == position - 1 or (marker is not None and marker[0] != "{}:")
    return above if marker is not None and is_near else None


def _section_end(lines: Sequence[_Line], position: int) -> int | None:
    """Where the section ends that begins at a line, marker or placeholder; `None` if none begins there."""
    if lines[position].placeholder is not None:
        placeholder = position
    else:
        placeholder = position + 1
        while placeholder < len(lines) and lines[placeholder].is_blank:
            placeholder += 1
        if placeholder >= len(lines) or lines[placeholder].placeholder is None:
            return None
        if _marker_above(lines, placeholder) != position:
            return None
    below = placeholder + 1
    while below < len(lines) and lines[below].is_blank:
        below += 1
    return below + 1 if below < len(lines) and _is_end(lines, below) else placeholder + 1


def _is_end(lines: Sequence[_Line], position: int) -> bool:
    """Whether the line behind a placeholder is its end: a marker that begins no section."""
    marker = lines[position].marker
    if marker is None or _section_end(lines, position) is not None:
        return False
    return marker[0] != "{}:" or marker[1].lower().startswith("end")


def _section_at(lines: Sequence[_Line], position: int, end: int) -> tuple[TemplateSection, list[str]]:
    """The section of these lines, with notes on markers that it lacks."""
    places = range(position, end)
    placeholder = next(place for place in places if lines[place].placeholder is not None)
    name = lines[placeholder].placeholder
    notes: list[str] = []
    if placeholder == position:
        title, gap = f"{name}".capitalize(), "\n"
        notes.append(f"line {lines[placeholder].number}: {{{name}}} has become a section of its own, titled {title!r}")
    else:
        marker = lines[position].marker
        assert marker is not None  # a section begins with one
        title, gap = marker[1], "\n" * (placeholder - position)
    last = lines[end - 1]
    if end - 1 > placeholder:
        ending = last.marker[1]  # type: ignore[index]  # it is a marker
        end_gap = "\n" * (end - 1 - placeholder)
    else:
        follower = next((line for line in lines[end:] if not line.is_blank), None)
        place = end + next((number for number, line in enumerate(lines[end:]) if not line.is_blank), 0)
        begins_section = follower is not None and _section_end(lines, place) is not None
        ending = None if follower is None or begins_section else f"End of {title}"
        end_gap = "\n"
    section = TemplateSection(name, title, gap, ending, end_gap, lines[placeholder].number)  # type: ignore[arg-type]  # checked
    return section, notes


def _check_titles(sections: Sequence[TemplateSection]) -> None:
    seen: dict[str, int] = {}
    for section in sections:
        for title in filter(None, (section.title, section.ending)):
            lowered = title.lower()
            if lowered in seen:
                raise TemplateError(section.line, f"two markers have the title {title!r}; expected titles that differ")
            seen[lowered] = section.line


def _joined_texts(parts: Sequence[str | TemplateSection]) -> Iterator[str | TemplateSection]:
    """The parts with neighbouring lines of text as one."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, str):
            lines.append(part)
            continue
        if lines:
            yield "\n".join(lines)
        lines = []
        yield part
    if lines:
        yield "\n".join(lines)


def _lookalikes(parts: Sequence[str | TemplateSection], style: MarkerStyle) -> Lookalikes:
    """Of all titles, and of tags such as `<response>` that the template writes itself."""
    forms: dict[str, None] = {}
    for part in parts:
        if isinstance(part, str):
            forms.update(dict.fromkeys(f"<{name.lower()}" for name in _TAG.findall(part)))
            continue
        for title in filter(None, (part.title, part.ending)):
            colon = ":" if style == "{}:" else ""
            forms[f"{_OPENINGS[style]}{title.lower()}{colon}"] = None
    if style == "<|{}|>":
        forms["<|"] = None
    return Lookalikes(*forms)
