"""Prompts of other tools: their placeholders become sections of a prompt file.

A template whose placeholders stand alone in their lines is carried as it is. Otherwise each text
has a section below the template, and the section's title takes the placeholder's place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from judgegym.cli.judge_cards.imports import ImportNotes, NotCarriedError
from judgegym.judges.prompt_files.lines import PlaceholderName, TemplateError
from judgegym.judges.prompt_files.template import parse_template

_TITLES: Mapping[PlaceholderName, str] = {
    "prompt": "Question",
    "context": "Context",
    "reference": "Reference",
    "rubric": "Rubric",
    "baseline": "Baseline",
    "response": "Answer",
}
"""The titles of added sections, in their order."""
_BRACED = re.compile(r"(?<!\{)\{([A-Za-z_]\w*)\}(?!\})")

Piece: TypeAlias = "str | tuple[PlaceholderName]"
"""A text of a template, or a placeholder."""


def split_template(
    text: str, pattern: re.Pattern[str], names: Mapping[str, PlaceholderName]
) -> list[Piece]:
    """Split a template into its texts and placeholders.

    Args:
        text: the template.
        pattern: matches a placeholder; its group `name` is the foreign name.
        names: our placeholders by foreign names.

    Raises:
        NotCarriedError: a placeholder has no counterpart.
    """
    pieces: list[Piece] = []
    end = 0
    for match in pattern.finditer(text):
        name = match["name"].strip()
        if name not in names:
            column = name.removeprefix("item.")
            hint = ""
            if re.fullmatch(r"\w+", column):
                hint = f"; --field {column}=reference takes the reference, for example"
            raise NotCarriedError(f"{match[0]}: no text of a task is known by this name{hint}")
        pieces += [text[end : match.start()], (names[name],)]
        end = match.end()
    pieces.append(text[end:])
    return [piece for piece in pieces if piece]


def make_prompt(pieces: list[Piece], notes: ImportNotes) -> str:
    """Make the prompt of a prompt file.

    Raises:
        NotCarriedError: the template has no response, or cannot be delimited.
    """
    plain = _join(pieces, {name: f"{{{name}}}" for name in _TITLES})
    try:
        template = parse_template(plain)
    except TemplateError:
        return _move_placeholders(pieces, notes)
    notes.differs += template.notes
    return plain


def _move_placeholders(pieces: list[Piece], notes: ImportNotes) -> str:
    shown = {piece[0] for piece in pieces if isinstance(piece, tuple)}
    names = [name for name in _TITLES if name in shown]
    sentence = _join(pieces, {name: f'"{title}"' for name, title in _TITLES.items()})
    sections = "\n\n".join(
        f"[{_TITLES[name]}]\n{{{name}}}\n[End of {_TITLES[name]}]" for name in names
    )
    prompt = f"{sentence.rstrip()}\n\n{sections}"
    try:
        parse_template(prompt)
    except TemplateError as error:
        raise NotCarriedError(f"prompt: {error}") from None
    moved = ", ".join(f"{{{name}}} ({_TITLES[name]})" for name in names)
    notes.differs.append(f"prompt: the wording differs; sections below hold {moved}")
    return prompt


def _join(pieces: list[Piece], replacements: Mapping[Any, str]) -> str:
    texts = [
        _BRACED.sub(r"{{\1}}", piece) if isinstance(piece, str) else replacements[piece[0]]
        for piece in pieces
    ]
    return "".join(texts)
