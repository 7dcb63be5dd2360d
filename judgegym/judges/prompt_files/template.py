"""Prompt templates: texts with placeholders, each in a delimited section.

A section is a marker line (`[Question]`, `### Question`, `<|Question|>` or `Question:`) with a
placeholder below it. A placeholder without a marker gets one. A section ends where the next one
begins, or with an end marker, which is added if needed. If a text could be mistaken for a marker or
a heading of the template, all markers carry a tag that occurs in no text
(`judgegym.judges.core.delimiters`); otherwise the prompt is the template with the texts in it, byte
for byte.

Guarantee: no text is read as a template, and no text can end its own section.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from judgegym.judges.core.delimiters import Lookalikes, Prompt
from judgegym.judges.core.message_template import MessageTemplate
from judgegym.judges.prompt_files.lines import (
    MarkerStyle,
    PlaceholderName,
    TemplateError,
    TemplateLine,
    check_placeholders,
    separate_labels,
    unescape,
)

_OPENINGS: Mapping[MarkerStyle, str] = {"<|{}|>": "<|", "[{}]": "[", "### {}": "#", "{}:": ""}
_HEADING = re.compile(r"\s*(?:#{1,6}\s*|\*\*|__)(?P<title>[^\n{}#*_][^\n{}#*]*)[#*_:\s]*")
_ENDS = re.compile(r"(?:the\s+)?end\b|/")
_TAG = re.compile(r"</?([A-Za-z][\w-]*)(?:\s[^<>\n]*)?>")


@dataclass(frozen=True, slots=True)
class TemplateSection:
    """A placeholder between its markers.

    Attributes:
        name: the placeholder's name.
        title: the marker's title.
        gap: the line breaks between the marker and the text.
        ending: the end marker's title.
        end_gap: the line breaks between the text and the end marker.
        line: the placeholder's line, from 1.
        has_ending: whether the end marker is always there; otherwise only if no other section
            follows.
    """

    name: PlaceholderName
    title: str
    gap: str
    ending: str
    end_gap: str
    line: int
    has_ending: bool


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A parsed template.

    Attributes:
        parts: the template's own texts, and sections, in order, to be joined by line breaks.
        style: the style of all markers.
        lookalikes: the patterns of texts that look like one of the markers.
        notes: the changes, one line each, for the user.
    """

    parts: tuple[str | TemplateSection, ...]
    style: MarkerStyle
    lookalikes: Lookalikes
    notes: tuple[str, ...] = ()

    @property
    def sections(self) -> tuple[TemplateSection, ...]:
        """The sections, in order."""
        return tuple(part for part in self.parts if isinstance(part, TemplateSection))

    @property
    def names(self) -> tuple[PlaceholderName, ...]:
        """The placeholders, in order."""
        return tuple(section.name for section in self.sections)

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of all markers."""
        pairs = ((section.title, section.ending) for section in self.sections)
        return tuple(chain.from_iterable(pairs))

    def fill(self, texts: Mapping[str, str], *, system: str | None = None) -> Prompt:
        """Make the prompt.

        Args:
            texts: by placeholder; the section of a missing one is left out.
            system: the system message.
        """
        shared: dict[str, str | None] = {
            name: texts.get(name) for name in self.names if name != "response"
        }
        template = MessageTemplate((self._join_parts(texts),), self.lookalikes)
        return template.fill(
            shared, {"response": texts["response"]}, wording={"brace": "{"}, system=system
        )

    def _join_parts(self, names: Collection[str]) -> str:
        """Return the text with the sections of these placeholders.

        `{brace}` stands for a literal brace of the file.
        """
        lines: list[str] = []
        is_behind_gap = False
        for position, part in enumerate(self.parts):
            if isinstance(part, TemplateSection):
                is_behind_gap = part.name not in names
                if not is_behind_gap:
                    has_ending = part.has_ending or not self._begins_section(position + 1, names)
                    lines.append(self._format_section(part, has_ending=has_ending))
            elif not is_behind_gap or (lines and not f"\n{lines[-1]}".endswith("\n")):
                lines.append(part.replace("{", "{brace}"))
            elif part:  # keep one of the blank lines around a section that is left out
                lines.append(part.removeprefix("\n").replace("{", "{brace}"))
        return "\n".join(lines)

    def _begins_section(self, position: int, names: Collection[str]) -> bool:
        """Return whether the shown parts from a position on begin with a section."""
        for part in self.parts[position:]:
            if isinstance(part, TemplateSection):
                if part.name in names:
                    return True
            elif part.strip():
                return False
        return False

    def _format_section(self, section: TemplateSection, *, has_ending: bool) -> str:
        text = f"{self.style.format(section.title + '{tag}')}{section.gap}{{{section.name}}}"
        if has_ending:
            return f"{text}{section.end_gap}{self.style.format(section.ending + '{tag}')}"
        return text


def parse_template(text: str, *, first_line: int = 1, is_block: bool = True) -> PromptTemplate:
    """Parse a template.

    Args:
        text: the user message with placeholders such as `{response}`; `{{name}}` stands for
            `{name}` itself.
        first_line: the number of its first line in its file, for messages.
        is_block: whether each of its lines is a line of the file; otherwise all of it counts as its
            first line.

    Raises:
        TemplateError: it has no response, an unknown placeholder, one within a sentence, one twice,
            or two sections with the same title.
    """
    texts = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    template_lines = [
        TemplateLine(line_text, first_line + (number if is_block else 0))
        for number, line_text in enumerate(texts)
    ]
    lines, notes = separate_labels(template_lines)
    check_placeholders(lines)
    style = _find_first_style(lines)
    parts: list[str | TemplateSection] = []
    position = 0
    while position < len(lines):
        end = _find_section_end(lines, position)
        if end is None:
            parts.append(unescape(lines[position].text))
            position += 1
            continue
        section, section_notes = _parse_section(lines, position, end)
        parts.append(section)
        notes += section_notes
        position = end
    _check_titles([part for part in parts if isinstance(part, TemplateSection)])
    return PromptTemplate(tuple(_join_texts(parts)), style, _lookalikes(parts, style), tuple(notes))


def _find_first_style(lines: Sequence[TemplateLine]) -> MarkerStyle:
    """Return the style of the first marker above a placeholder; brackets without one."""
    for position, line in enumerate(lines):
        if line.placeholder is not None:
            above = _find_marker_above(lines, position)
            if above is not None and lines[above].marker is not None:
                return lines[above].marker[0]  # type: ignore[index]  # it has one
    return "[{}]"


def _find_marker_above(lines: Sequence[TemplateLine], position: int) -> int | None:
    """Return the index of the marker line above a placeholder.

    Blank lines may be in between, except below words before a colon.
    """
    above = position - 1
    while above >= 0 and lines[above].is_blank:
        above -= 1
    marker = lines[above].marker if above >= 0 else None
    is_near = above == position - 1 or (marker is not None and marker[0] != "{}:")
    if marker is not None and is_near:
        return above
    return None


def _find_section_end(lines: Sequence[TemplateLine], position: int) -> int | None:
    """Return the end of the section that begins at a line; `None` if none begins there."""
    if lines[position].placeholder is not None:
        placeholder = position
    else:
        placeholder = position + 1
        while placeholder < len(lines) and lines[placeholder].is_blank:
            placeholder += 1
        if placeholder >= len(lines) or lines[placeholder].placeholder is None:
            return None
        if _find_marker_above(lines, placeholder) != position:
            return None
    below = placeholder + 1
    while below < len(lines) and lines[below].is_blank:
        below += 1
    marker = None if placeholder == position else lines[position].marker
    title = f"{lines[placeholder].placeholder}" if marker is None else marker[1]
    if below < len(lines) and _is_end(lines, below, title):
        return below + 1
    return placeholder + 1


def _is_end(lines: Sequence[TemplateLine], position: int, title: str) -> bool:
    """Return whether the line after a placeholder ends its section, and begins no other."""
    marker = lines[position].marker
    if marker is None or _find_section_end(lines, position) is not None:
        return False
    marker_title = marker[1].casefold()
    return _ENDS.match(marker_title) is not None or (
        marker[0] != "{}:" and title.casefold() in marker_title
    )


def _parse_section(
    lines: Sequence[TemplateLine], position: int, end: int
) -> tuple[TemplateSection, list[str]]:
    """Return the section of these lines, with notes on markers that it lacks."""
    positions = range(position, end)
    placeholder = next(index for index in positions if lines[index].placeholder is not None)
    name = lines[placeholder].placeholder
    notes: list[str] = []
    if placeholder == position:
        title, gap = f"{name}".capitalize(), "\n"
        notes.append(
            f"line {lines[placeholder].number}: {{{name}}} has become a section of its own, titled "
            f"{title!r}"
        )
    else:
        marker = lines[position].marker
        assert marker is not None  # a section begins with a marker
        title, gap = marker[1], "\n" * (placeholder - position)
    has_ending = end - 1 > placeholder
    ending, end_gap = f"End of {title}", "\n"
    if has_ending:
        marker = lines[end - 1].marker
        assert marker is not None  # it ends with a marker
        ending, end_gap = marker[1], "\n" * (end - 1 - placeholder)
    section = TemplateSection(
        name,  # type: ignore[arg-type]  # checked
        title,
        gap,
        ending,
        end_gap,
        lines[placeholder].number,
        has_ending,
    )
    return section, notes


def _check_titles(sections: Sequence[TemplateSection]) -> None:
    seen: dict[str, int] = {}
    for section in sections:
        for title in (section.title, section.ending):
            lowered = title.lower()
            if lowered in seen:
                raise TemplateError(
                    section.line,
                    f"two markers have the title {title!r}; expected titles that differ",
                )
            seen[lowered] = section.line


def _join_texts(parts: Sequence[str | TemplateSection]) -> Iterator[str | TemplateSection]:
    """Join neighbouring lines of text."""
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
    """Return lookalikes of all titles, and of the template's own headings and tags."""
    forms: dict[str, None] = {}
    for part in parts:
        if isinstance(part, str):
            forms |= dict.fromkeys(_find_forms(part))
            continue
        forms |= dict.fromkeys(_marker_form(style, title) for title in (part.title, part.ending))
    if style == "<|{}|>":
        forms["<|"] = None
    return Lookalikes(*forms)


def _find_forms(text: str) -> Iterator[str]:
    """Yield the forms of a line of the template's own text."""
    yield from (f"<{name.lower()}" for name in _TAG.findall(text))
    heading = _HEADING.fullmatch(text)
    marker = TemplateLine(text, 0).marker
    if heading is not None:
        yield _marker_form("### {}", heading["title"].strip())
    elif marker is not None:
        yield _marker_form(*marker)


def _marker_form(style: MarkerStyle, title: str) -> str:
    """Return the form of a marker for `Lookalikes`."""
    lower_title = title.lower()
    return f"{_OPENINGS[style]}{lower_title}{':' if style == '{}:' else ''}"
