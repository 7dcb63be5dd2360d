"""The lines of a prompt template: markers, placeholders, and labels followed by a placeholder.

Guarantee: a text that looks like a placeholder but is none is an error that names its line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

PlaceholderName = Literal["prompt", "response", "reference", "rubric", "context", "baseline"]
PLACEHOLDERS: tuple[PlaceholderName, ...] = get_args(PlaceholderName)
"""The placeholders of a template: fields of a task, and its response."""

MarkerStyle: TypeAlias = Literal["<|{}|>", "[{}]", "### {}", "{}:"]
_STYLES: tuple[MarkerStyle, ...] = get_args(MarkerStyle)
_MARKER = re.compile(r"<\|([^\n|{}]+)\|>|\[([^\n\[\]{}]+)\]|### ([^\n{}]+)|((?!\s)[^\n:{}]{1,60}):")
_NAME = r"[A-Za-z_]\w*"
_ALONE = re.compile(rf"\s*\{{({_NAME})\}}\s*")
_LABELLED = re.compile(
    rf"\s*(#{{1,6}} "
    rf")?\**(?P<label>[^\s{{}}:*#][^{{}}:\n*]{{0,59}}?)\**:\**\s*\{{(?P<name>{_NAME})\}}\s*"
)
_PLACEHOLDER = re.compile(rf"(?<!\{{)\{{({_NAME})\}}(?!\}})")
_ESCAPED = re.compile(rf"\{{(\{{{_NAME}\}})\}}")
_MISWRITTEN = re.compile(
    rf"\{{\s*({'|'.join(PLACEHOLDERS)})\s*(?:[.!\[][^\s{{}}]*|:[<>^=+\d][^\s{{}}]*|\|[^{{}}\n]*)?\}}",
    re.IGNORECASE,
)
"""Such as `{ response }`, `{response!r}` and `{response | trim}`."""


class TemplateError(ValueError):
    """A template that cannot be used.

    Attributes:
        line: the number of its line, from 1.
    """

    def __init__(self, line: int, problem: str) -> None:
        """Set the line and the problem."""
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class TemplateLine:
    """A line of a template, with its number in the file."""

    text: str
    number: int

    @property
    def placeholder(self) -> str | None:
        """The placeholder, if it stands alone in the line."""
        match = _ALONE.fullmatch(self.text)
        if match is None:
            return None
        return match[1]

    @property
    def marker(self) -> tuple[MarkerStyle, str] | None:
        """The style and the title of a marker; a title has a letter or a digit."""
        match = _MARKER.fullmatch(self.text.rstrip())
        if (
            match is None
            or match.lastindex is None
            or not any(map(str.isalnum, match[match.lastindex]))
        ):
            return None
        return _STYLES[match.lastindex - 1], match[match.lastindex].strip()

    @property
    def is_blank(self) -> bool:
        """Whether it is empty or white space."""
        return not self.text.strip()


def unescape(text: str) -> str:
    """Replace `{{name}}` by `{name}` in a text of a template."""
    return _ESCAPED.sub(r"\1", text)


def find_placeholder(text: str) -> str | None:
    """Return the first placeholder in a text, as it is written."""
    match = _PLACEHOLDER.search(text) or _MISWRITTEN.search(_ESCAPED.sub("", text))
    if match is None:
        return None
    return match[0]


def separate_labels(lines: Sequence[TemplateLine]) -> tuple[list[TemplateLine], list[str]]:
    """Split `Label: {name}` into a marker and a placeholder; return a note on each."""
    separated, notes = list[TemplateLine](), list[str]()
    for line in lines:
        match = _LABELLED.fullmatch(line.text)
        if match is None:
            separated.append(line)
            continue
        label = match["label"].strip()
        marker = f"### {label}" if match[1] else f"{label}:"
        separated += [
            TemplateLine(marker, line.number),
            TemplateLine(f"{{{match['name']}}}", line.number),
        ]
        notes.append(
            f"line {line.number}: {{{match['name']}}} has become a section of its own, titled "
            f"{label!r}"
        )
    return separated, notes


def check_placeholders(lines: Sequence[TemplateLine]) -> None:
    """Check that each placeholder is known, alone in its line, and occurs once.

    The response must be among them.

    Raises:
        TemplateError: for the first invalid line.
    """
    seen: dict[str, int] = {}
    for line in lines:
        for name in _PLACEHOLDER.findall(line.text):
            _check_placeholder(line, name, seen)
        miswritten = _MISWRITTEN.search(_PLACEHOLDER.sub("", _ESCAPED.sub("", line.text)))
        if miswritten is not None:
            placeholder = miswritten[1].lower()
            raise TemplateError(
                line.number,
                f"{miswritten[0]}: expected {{{placeholder}}}, without anything else",
            )
    if "response" not in seen:
        raise TemplateError(
            lines[0].number, "there is no {response}: a prompt needs the text that is judged"
        )


def _check_placeholder(line: TemplateLine, name: str, seen: dict[str, int]) -> None:
    if name not in PLACEHOLDERS:
        expected = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
        raise TemplateError(
            line.number,
            f"{{{name}}}: unknown placeholder; expected {expected}, or {{{{{name}}}}} for the text "
            f"{{{name}}}",
        )
    if line.placeholder is None:
        raise TemplateError(
            line.number,
            f"{{{name}}} stands within a line, where a text could pass for the prompt's own words; "
            f"expected it alone in a line, or behind a label: Label: {{{name}}}",
        )
    if name in seen:
        raise TemplateError(
            line.number, f"{{{name}}} is in line {seen[name]} already; expected it once"
        )
    seen[name] = line.number
