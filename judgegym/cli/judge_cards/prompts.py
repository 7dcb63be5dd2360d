"""Prompts with placeholders in single braces: inspect_ai's `model_graded_qa`, and verifiers' judge.

inspect's template has {question}, {answer}, {criterion} and {instructions}; a reply's last
`GRADE: C`, P or I counts 1, 0.5 or 0. In a prompt of verifiers {answer} is the reference and
{response} what is judged; how a reply is read is Python there, which no file says. Sources: the
packages, read in November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from judgegym.cli.judge_cards.imports import (
    FieldNames,
    ImportedJudge,
    ImportNotes,
    NotCarriedError,
)
from judgegym.cli.judge_cards.templates import Piece, make_prompt, split_template
from judgegym.judges.prompt_files.lines import PlaceholderName

_PLACEHOLDER = re.compile(r"(?<!\{)\{(?P<name>[A-Za-z_]\w*)\}(?!\})")
_INSTRUCTIONS = "instructions"
_INSPECT_NAMES: Mapping[str, PlaceholderName] = {
    "question": "prompt",
    "answer": "response",
    "criterion": "reference",
}
_VERIFIERS_NAMES: Mapping[str, PlaceholderName] = {
    "question": "prompt",
    "answer": "reference",
    "response": "response",
}
_SPACING = r"[\s\u200b\u200c\u200d\u200e\u200f\u2060\u2063\ufeff]*"
_USUAL_PATTERNS = (
    rf"(?is).*(?<!\w)GRADE(?!\w){_SPACING}:{_SPACING}([CPI])",
    r"(?i)GRADE\s*:\s*([CPI])(.*)$",
    r"(?i)GRADE\s*:\s*([CPI])",
)
"""The pattern of the package, and those of earlier versions."""


def is_inspect(values: object) -> bool:
    """Return whether this is a template of `model_graded_qa`, or its arguments."""
    if isinstance(values, Mapping):
        template = values.get("template")
    else:
        template = values
    return isinstance(template, str) and {"answer", "criterion"} <= _list_names(template)


def import_inspect(values: Any, fields: FieldNames, notes: ImportNotes) -> ImportedJudge:
    """Import a template, or an object with the arguments.

    Raises:
        NotCarriedError: the template needs a text that the file lacks, or the pattern or the models
            have no counterpart.
    """
    arguments = values if isinstance(values, Mapping) else {"template": values}
    known_names = (
        *("template", _INSTRUCTIONS, "grade_pattern", "partial_credit", "model"),
        *("include_history", "name"),
    )
    notes.check_names(arguments, known_names, "")
    template = arguments.get("template")
    if not isinstance(template, str):
        raise NotCarriedError("template: expected a text")
    template = _insert_instructions(template, arguments.get(_INSTRUCTIONS))
    pattern = arguments.get("grade_pattern")
    if pattern is not None and pattern not in _USUAL_PATTERNS:
        raise NotCarriedError(f"grade_pattern: {pattern!r}: only GRADE: with C, P or I is carried")
    if arguments.get("include_history"):
        notes.not_carried.append("include_history: a conversation is shown as the row has it")
    scale = {"I": 0.0, "P": 0.5, "C": 1.0}
    # Instructions or a pattern of one's own allow each grade, whatever partial_credit says.
    is_own = pattern is not None or bool(arguments.get(_INSTRUCTIONS))
    if not is_own and not arguments.get("partial_credit"):
        del scale["P"]
        notes.not_carried.append("P: without partial_credit the reply is asked again")
    notes.not_carried.append("GRADE: Correct, Incorrect, Partial: no verdict, asked again")
    pieces = _split(template, {**fields, **_INSPECT_NAMES})
    prompt = {
        "prompt": make_prompt(pieces, notes),
        "scale": scale,
        "verdict": {"after": "GRADE:"},
    }
    return ImportedJudge(
        str(arguments.get("name", "")), prompt, _read_model(arguments.get("model"))
    )


def _insert_instructions(template: str, instructions: object) -> str:
    if _INSTRUCTIONS not in _list_names(template):
        return template
    if not isinstance(instructions, str):
        raise NotCarriedError(
            "instructions: the template has {instructions}, and the file has none; write the text "
            "in its place"
        )
    return template.replace(f"{{{_INSTRUCTIONS}}}", instructions)


def _read_model(model: object) -> dict[str, Any]:
    if model is None:
        return {}
    if not isinstance(model, str):
        raise NotCarriedError("model: several models are a majority; import one, and --judges")
    return {"endpoint": {"model": model}}


def is_verifiers_prompt(values: object) -> bool:
    """Return whether this is a prompt of verifiers' judge."""
    template = values.get("prompt") if isinstance(values, Mapping) else values
    return isinstance(template, str) and "response" in _list_names(template)


def import_verifiers_prompt(values: Any, fields: FieldNames, notes: ImportNotes) -> ImportedJudge:
    """Import a prompt with the scale and verdict that the user has added to its file.

    Raises:
        NotCarriedError: the file has no scale and verdict, or the prompt cannot be delimited.
    """
    if not isinstance(values, Mapping) or not {"scale", "verdict"} <= values.keys():
        raise NotCarriedError(
            "parse: how a reply is read is Python code; write prompt, scale and verdict into a "
            "YAML file, as a prompt file has them, and import that"
        )
    if not isinstance(values.get("prompt"), str):
        raise NotCarriedError("prompt: expected a text")
    for name in ("base_url", "sampling"):
        if name in values:
            notes.not_carried.append(f"{name}: give it to the command")
    known_names = ("prompt", "scale", "verdict", "model", "base_url", "sampling", "name")
    notes.check_names(values, known_names, "")
    prompt = {
        "prompt": make_prompt(_split(values["prompt"], {**fields, **_VERIFIERS_NAMES}), notes),
        "scale": values["scale"],
        "verdict": values["verdict"],
    }
    return ImportedJudge(str(values.get("name", "")), prompt, _read_model(values.get("model")))


def _split(template: str, names: Mapping[str, PlaceholderName]) -> list[Piece]:
    """Split a template of `str.format`, in which doubled braces stand for single ones."""
    pieces = split_template(template, _PLACEHOLDER, names)
    return [
        piece.replace("{{", "{").replace("}}", "}") if isinstance(piece, str) else piece
        for piece in pieces
    ]


def _list_names(template: str) -> set[str]:
    return {match["name"] for match in _PLACEHOLDER.finditer(template)}
