"""Graders of OpenAI's evals and reinforcement fine-tuning.

`label_model` and `score_model` become prompt files, `string_check` and `python` a rule's function
in a file beside the card, `multi` a composite judge. Source: `openai.types.graders`, read in
November 2026. The form of a model's reply is no part of a grader's file, so the card's own is asked
for, as a JSON object.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from judgegym.cli.judge_cards.formulas import convert_formula
from judgegym.cli.judge_cards.imports import (
    RULE_FUNCTION,
    FieldNames,
    ImportedJudge,
    ImportNotes,
    NotCarriedError,
    name_rule,
    require_object,
)
from judgegym.cli.judge_cards.templates import Piece, make_prompt, split_template
from judgegym.judges.parts.composite import CompositeJudgeSettings
from judgegym.judges.rules.settings import RuleSettings
from judgegym.judges.scorers.registry import built_in_kind

_PLACEHOLDER = re.compile(r"\{\{\s*(?P<name>[^{}]*?)\s*\}\}")
_TEXT_TYPES = ("text", "input_text", "output_text")
_COMMON = ("type", "name")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SAMPLING = ("top_p", "seed", "reasoning_effort")
_OPERATIONS = {
    "eq": "text == reference",
    "ne": "text != reference",
    "like": "reference in text",
    "ilike": "reference.lower() in text.lower()",
}


def is_grader(values: object) -> bool:
    """Return whether a JSON value is a grader."""
    return isinstance(values, Mapping) and str(values.get("type")) in _IMPORTERS


def import_grader(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    """Import a grader.

    Raises:
        NotCarriedError: it has no equal counterpart.
    """
    require_object(values)
    kind = values.get("type")
    importer = _IMPORTERS.get(str(kind))
    if importer is None:
        expected = ", ".join(_IMPORTERS)
        raise NotCarriedError(f"type: {kind!r} is no type of a grader; expected {expected}")
    return importer(values, fields, notes)


def _require(values: Mapping[str, Any], name: str, expected: type | tuple[type, ...]) -> Any:
    value = values.get(name)
    if not isinstance(value, expected):
        raise NotCarriedError(f"{name}: missing, or not of the type that a grader has there")
    return value


def _names(fields: FieldNames) -> FieldNames:
    columns = {f"item.{column}": placeholder for column, placeholder in fields.items()}
    return {"sample.output_text": "response", **columns}


def _import_label(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    notes.check_names(
        values, (*_COMMON, "input", "labels", "passing_labels", "model", "sampling_params"), ""
    )
    labels = _require(values, "labels", list)
    passing = _require(values, "passing_labels", list)
    wrong = [label for label in labels if not isinstance(label, str)]
    if wrong:
        raise NotCarriedError(f"labels: expected texts, found {wrong[0]!r}")
    unknown = [label for label in passing if label not in labels]
    if unknown:
        raise NotCarriedError(f"passing_labels: {unknown[0]!r} is none of the labels")
    scale = {label: float(label in passing) for label in labels}
    return _import_model(values, fields, notes, scale=scale, verdict="label")


def _import_score(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    notes.check_names(values, (*_COMMON, "input", "model", "range", "sampling_params"), "")
    low, high = _read_range(values)
    if high - low < 2 or low != int(low) or high != int(high):
        raise NotCarriedError(
            f"range: [{low:g}, {high:g}]: a prompt file's scale has whole numbers; expected such a "
            "range, such as [0, 10], of a prompt that asks for it"
        )
    notes.not_carried.append("range: a score that is no whole number is no verdict, asked again")
    return _import_model(values, fields, notes, scale=[int(low), int(high)], verdict="score")


def _read_range(values: Mapping[str, Any]) -> tuple[float, float]:
    ends = values.get("range", [0, 1])
    is_pair = isinstance(ends, list) and len(ends) == 2
    if not is_pair or not all(map(_is_number, ends)) or ends[0] >= ends[1]:
        raise NotCarriedError(f"range: expected [LOWEST, HIGHEST], found {ends!r}")
    return float(ends[0]), float(ends[1])


def _is_number(value: object) -> bool:
    """Return whether a value is a number that is finite as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max


def _import_model(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes, *, scale: Any, verdict: str
) -> ImportedJudge:
    messages = _require(values, "input", list)
    system, pieces = _read_messages(messages, fields, notes)
    prompt = {
        "prompt": make_prompt(pieces, notes),
        "scale": scale,
        "verdict": {"field": verdict},
    }
    if system:
        prompt["system"] = system
    notes.differs.append(
        f'reply: asked for as a JSON object with "{verdict}"; a grader\'s file has no form of its '
        "own"
    )
    endpoint = {"model": _require(values, "model", str), **_read_sampling(values, notes)}
    return ImportedJudge(
        str(values.get("name", "")),
        prompt,
        {"judge_output": "json_schema", "endpoint": endpoint},
    )


def _read_sampling(values: Mapping[str, Any], notes: ImportNotes) -> dict[str, Any]:
    sampling = values.get("sampling_params") or {}
    if not isinstance(sampling, Mapping):
        raise NotCarriedError("sampling_params: expected an object")
    known_names = ("temperature", "max_completions_tokens", *_SAMPLING)
    notes.check_names(sampling, known_names, "sampling_params.")
    for name in known_names[:2]:
        value = sampling.get(name)
        if value is not None and (not _is_number(value) or value < 0):
            problem = f"expected a number of at least 0, found {value!r}"
            raise NotCarriedError(f"sampling_params.{name}: {problem}")
    options = {
        "temperature": sampling.get("temperature"),
        "max_tokens": sampling.get("max_completions_tokens"),
        "extra_body": {
            name: sampling[name] for name in _SAMPLING if sampling.get(name) is not None
        },
    }
    return {name: value for name, value in options.items() if value not in (None, {})}


def _read_messages(
    messages: list[Any], fields: FieldNames, notes: ImportNotes
) -> tuple[str, list[Piece]]:
    """Return the system message, and the pieces of the prompt."""
    system: list[str] = []
    pieces: list[Piece] = []
    users = 0
    for number, message in enumerate(messages):
        path = f"input[{number}]"
        if not isinstance(message, Mapping):
            raise NotCarriedError(f"{path}: expected a message with role and content")
        role, text = message.get("role"), _read_content(message.get("content"), path)
        message_pieces = split_template(text, _PLACEHOLDER, _names(fields))
        is_plain = all(isinstance(piece, str) for piece in message_pieces)
        if role in ("system", "developer") and is_plain and not pieces:
            system.append(text)
        elif role in ("system", "developer", "user"):
            if role != "user":
                notes.differs.append(f"{path}: the {role} message stands in the prompt")
            users += 1
            pieces += [*(["\n\n"] if pieces else []), *message_pieces]
        else:
            raise NotCarriedError(f"{path}: a message of the role {role!r} has no counterpart")
    if users > 1:
        notes.differs.append(f"input: {users} messages are one prompt, with blank lines between")
    if not any(piece == ("response",) for piece in pieces):
        raise NotCarriedError("input: no message shows {{ sample.output_text }}")
    return "\n\n".join(system), pieces


def _read_content(content: object, path: str) -> str:
    """Return the text of a message."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        raise NotCarriedError(f"{path}.content: expected a text")
    texts: list[str] = []
    for item in content:
        kind = item.get("type") if isinstance(item, Mapping) else type(item).__name__
        if isinstance(item, str):
            texts.append(item)
        elif (
            isinstance(item, Mapping) and kind in _TEXT_TYPES and isinstance(item.get("text"), str)
        ):
            texts.append(item["text"])
        else:
            raise NotCarriedError(f"{path}.content: {kind} has no counterpart")
    return "\n\n".join(texts)


def _import_check(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    notes.check_names(values, (*_COMMON, "input", "reference", "operation"), "")
    operation = values.get("operation")
    if not isinstance(operation, str) or operation not in _OPERATIONS:
        expected = ", ".join(_OPERATIONS)
        raise NotCarriedError(f"operation: expected one of {expected}, found {operation!r}")
    text = _write_expression(_require(values, "input", str), fields)
    reference = _write_expression(_require(values, "reference", str), fields)
    code = f"""\
def {RULE_FUNCTION}(response, task):
    text = {text}
    reference = {reference}
    if text is None or reference is None:
        return None
    return {_OPERATIONS[operation]}
"""
    return _make_rule(values, code)


def _write_expression(text: str, fields: FieldNames) -> str:
    """Write a template as a Python expression, `None` if the row lacks one of its texts."""
    pieces = split_template(text, _PLACEHOLDER, _names(fields))
    unusable = [piece[0] for piece in pieces if piece in (("rubric",), ("baseline",))]
    if unusable:
        raise NotCarriedError(f"{unusable[0]}: a rule's function has no such text")
    terms = [repr(piece) if isinstance(piece, str) else _attribute(piece[0]) for piece in pieces]
    attributes = [_attribute(piece[0]) for piece in pieces if isinstance(piece, tuple)]
    joined = " + ".join(terms) or '""'
    if not attributes:
        return joined
    return f"None if None in ({', '.join(attributes)},) else {joined}"


def _attribute(name: str) -> str:
    return "response" if name == "response" else f"task.{name}"


def _import_python(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    notes.check_names(values, (*_COMMON, "source", "image_tag"), "")
    source = _require(values, "source", str)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotCarriedError(f"source: no Python: {error}") from None
    if not any(isinstance(node, ast.FunctionDef) and node.name == "grade" for node in tree.body):
        raise NotCarriedError("source: there is no function grade(sample, item)")
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)}
    names |= {node.asname or node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}
    if RULE_FUNCTION in names:
        raise NotCarriedError(
            f"source: {RULE_FUNCTION} is the name of the rule's function beside it; rename it there"
        )
    if values.get("image_tag") is not None:
        notes.not_carried.append("image_tag: the function runs in the user's own Python")
    notes.not_carried.append("sample: has output_text and output_json only")
    columns = {
        column: placeholder
        for column, placeholder in fields.items()
        if placeholder not in ("response", "rubric", "baseline")
    }
    notes.not_carried.append(f"item: has {', '.join(columns)} only")
    item = ", ".join(f"{column!r}: task.{name}" for column, name in columns.items())
    code = f"""\
{source.rstrip()}


def {RULE_FUNCTION}(response, task):
    import json

    try:
        output_json = json.loads(response)
    except ValueError:
        output_json = None
    item = {{{item}}}
    item = {{name: value for name, value in item.items() if value is not None}}
    return grade({{"output_text": response, "output_json": output_json}}, item)
"""
    return _make_rule(values, code)


def _make_rule(values: Mapping[str, Any], code: str) -> ImportedJudge:
    section = {"kind": built_in_kind(RuleSettings), "rule": name_rule()}
    return ImportedJudge(str(values.get("name", "")), {}, section, {"": code})


def _import_similarity(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    metric = values.get("evaluation_metric")
    raise NotCarriedError(f"evaluation_metric: {metric}: there is no rule that measures it")


def _import_multi(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    notes.check_names(values, (*_COMMON, "graders", "calculate_output"), "")
    graders = _require(values, "graders", Mapping)
    ranges = {name: _find_range(grader) for name, grader in graders.items()}
    combination = convert_formula(_require(values, "calculate_output", str), ranges)
    parts: dict[str, Any] = {}
    code: dict[str, str] = {}
    for name, weight in combination.weights.items():
        part = _import_part(name, graders[name], fields, notes)
        settings = part.part
        if part.code:
            code[name] = part.code[""]
            settings["rule"] = name_rule(name)
        if combination.combine == "weighted_sum":
            settings["weight"] = weight
        parts[name] = settings
    idle_names = [name for name in graders if name not in combination.weights]
    notes.not_carried += [f"graders.{name}: the formula does not read it" for name in idle_names]
    section = {
        "kind": built_in_kind(CompositeJudgeSettings),
        "combine": combination.combine,
        "reward": parts,
    }
    return ImportedJudge(str(values.get("name", "")), {}, section, code)


def _find_range(values: object) -> tuple[float, float]:
    """Return the lowest and the highest score that a formula reads of a grader."""
    if isinstance(values, Mapping) and values.get("type") == "score_model":
        return _read_range(values)
    return 0.0, 1.0


def _import_part(
    name: str, values: object, fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    path = f"graders.{name}"
    if not isinstance(values, Mapping) or values.get("type") == "multi":
        raise NotCarriedError(f"{path}: expected a grader that is not multi")
    part_notes = ImportNotes()
    try:
        judge = import_grader(values, fields, part_notes)
    except NotCarriedError as error:
        raise NotCarriedError(f"{path}.{error}") from None
    notes.add(part_notes, f"{path}.")
    return judge


_Importer = Callable[[Mapping[str, Any], FieldNames, ImportNotes], ImportedJudge]
_IMPORTERS: Mapping[str, _Importer] = {
    "label_model": _import_label,
    "score_model": _import_score,
    "string_check": _import_check,
    "python": _import_python,
    "text_similarity": _import_similarity,
    "multi": _import_multi,
}
