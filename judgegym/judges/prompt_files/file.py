"""Prompt files: YAML with a prompt, a scale, and the position of the verdict.

    prompt: |-
      Grade the answer for a customer. Reply with your reasons, then the grade in double brackets:
          [[good]] or [[bad]].

      [Question]
      {prompt}

      [Answer]
      {response}
    scale: {bad: 0, good: 1}      # or [1, 5], or yes/no
    verdict: {within: brackets}   # or {after: "SCORE:"}, or {field: NAME} of a JSON object
    system: You work for a shop.  # if left out, there is no system message
    optional: [context]           # placeholders that a row may lack; the section is then left out

Guarantee: errors name the file and the line, before the first call.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, model_validator
from typing_extensions import Self

from judgegym.judges.config.presets import YamlError, load_yaml, parse_nodes
from judgegym.judges.core import judgment
from judgegym.judges.parsing.candidates import fold_characters
from judgegym.judges.prompt_files.lines import PlaceholderName, TemplateError, find_placeholder
from judgegym.judges.prompt_files.template import PromptTemplate, parse_template
from judgegym.judges.prompt_files.verdicts import VerdictLabels, VerdictRule, check_rule

_MAX_BYTES = 1_000_000
_MAX_LEVELS = 1001
_MAX_LABELS = 100
_MAX_LABEL_LENGTH = 60
_Level = Annotated[int, Strict()]
_Unit = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
Scale: TypeAlias = tuple[_Level, _Level] | dict[str, _Unit] | Literal["yes/no"]
"""The lowest and the highest score, labels with their scores from 0 to 1, or yes/no."""
CARD_SECTIONS = ("judge", "imported", "evidence")
"""The sections that a card has beside the fields of a prompt file."""
_EXPECTED: Mapping[str, str] = {
    "prompt": "expected a text with placeholders such as {response}",
    "scale": "expected [LOWEST, HIGHEST] of whole numbers, {LABEL: SCORE FROM 0 TO 1, …} or yes/no",
    "verdict": "expected one of {after: WORD}, {within: brackets} and {field: NAME}",
    "system": "expected a text",
    "optional": "expected a list of placeholders, such as [context]",
}


class PromptFile(BaseModel):
    """A judge's prompt, scale and verdict.

    Attributes:
        prompt: the user message with placeholders, as a block (`|`).
        scale: `[LOWEST, HIGHEST]` of whole numbers; labels with scores from 0 to 1; or `yes/no` (1
            and 0).
        verdict: exactly one of `after: "SCORE:"` (the rest of the line after the last one; also
            `4/5`, `**SCORE:** 4`, `<score>4</score>`), `within: brackets` (the last `[[good]]`),
            `field: answers` (of the last JSON object).
        system: the system message; without it there is none. `--judge_system_prompt` replaces it.
        optional: placeholders that a row may lack; their sections are left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str
    scale: Scale
    verdict: VerdictRule
    system: str | None = None
    optional: tuple[PlaceholderName, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _labels_are_texts(cls, values: object) -> object:
        """Convert numbers to labels; refuse `true`, which may stand for yes, on or true."""
        scale = values.get("scale") if isinstance(values, dict) else None
        if not isinstance(values, dict) or not isinstance(scale, Mapping):
            return values
        wrong = next((label for label in scale if isinstance(label, bool)), None)
        if wrong is not None:
            raise ValueError(
                f"scale: expected labels that are texts, found {wrong}; write them in quotation "
                "marks"
            )
        return {**values, "scale": {str(label): score for label, score in scale.items()}}

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        _check_scale(self.scale)
        if (placeholder := find_placeholder(self.system or "")) is not None:
            raise ValueError(
                f"system: {placeholder} in a system message is not delimited; move it into the "
                "prompt"
            )
        try:
            template = self.template
        except TemplateError as error:
            raise ValueError(f"prompt: line {error.line}: {error}") from None
        optional_names = {*template.names} - {"response"}
        unknown = [name for name in self.optional if name not in optional_names]
        if unknown:
            raise ValueError(
                f"optional: the prompt has no section {{{unknown[0]}}} that could be left out"
            )
        check_rule(self.verdict, self.labels)
        return self

    @cached_property
    def template(self) -> PromptTemplate:
        """The parsed prompt."""
        return parse_template(self.prompt)

    @property
    def labels(self) -> VerdictLabels:
        """The labels of a verdict with their scores."""
        if isinstance(self.scale, dict):
            return VerdictLabels(scores=self.scale)
        if self.scale == "yes/no":
            return VerdictLabels(scores={"no": 0.0, "yes": 1.0})
        scale = judgment.Scale(*self.scale)
        return VerdictLabels(
            scores={str(level): scale.unit(level) for level in scale.levels}, scale=scale
        )


def _check_scale(scale: Scale) -> None:
    if isinstance(scale, tuple):
        low, high = scale
        if low >= high:
            raise ValueError(f"scale: expected a lowest and a higher score, found {low} and {high}")
        if high - low >= _MAX_LEVELS:
            raise ValueError(
                f"scale: expected at most {_MAX_LEVELS} levels, found {high - low + 1}"
            )
    elif isinstance(scale, Mapping):
        _check_labels(scale)


def _check_labels(scores: Mapping[str, float]) -> None:
    seen: dict[str, str] = {}
    for label in scores:
        if not label.strip() or not label.isprintable() or len(label) > _MAX_LABEL_LENGTH:
            excerpt = repr(label[:_MAX_LABEL_LENGTH])
            raise ValueError(
                f"scale: {excerpt} is no label; expected a word or several, of {_MAX_LABEL_LENGTH} "
                "signs at most"
            )
        earlier = seen.setdefault(
            fold_characters(unicodedata.normalize("NFKC", label)).casefold(), label
        )
        if earlier != label:
            raise ValueError(
                f"scale: the labels {earlier!r} and {label!r} differ only in upper and lower "
                "case or in looks"
            )
    if len({*scores.values()}) < 2:
        label_scores = dict(scores)
        raise ValueError(
            f"scale: expected labels with at least two different scores, found {label_scores}"
        )
    if len(scores) > _MAX_LABELS:
        label_count = len(scores)
        raise ValueError(f"scale: expected at most {_MAX_LABELS} labels, found {label_count}")


class FieldLocations(NamedTuple):
    """The lines of a file's fields, from 1.

    Attributes:
        lines: the line of each name. prompt_arguments: the location of the prompt's text, as
            arguments of `parse_template`.
        hint: a hint if YAML joins the prompt's lines.
    """

    lines: Mapping[str, int]
    prompt_arguments: Mapping[str, Any]
    hint: str = ""


class PromptSource(NamedTuple):
    """The values of a file, and where its fields are.

    Attributes:
        path: the file. values: its fields, those of a card among them. locations: their lines.
    """

    path: Path
    values: Mapping[str, Any]
    locations: FieldLocations

    @property
    def has_prompt(self) -> bool:
        """Whether it has a field of a prompt file."""
        return not self.values.keys().isdisjoint(PromptFile.model_fields)

    def parse_prompt(self) -> PromptFile:
        """Parse the prompt, its scale and the position of the verdict.

        Raises:
            ValueError: they are invalid; the message names file and line.
        """
        fields = {name: value for name, value in self.values.items() if name not in CARD_SECTIONS}
        try:
            prompt = fields.get("prompt")
            if isinstance(prompt, str):
                parse_template(prompt, **self.locations.prompt_arguments)
            return PromptFile.model_validate(fields)
        except TemplateError as error:
            location = f"{self.path}:{error.line}"
            raise ValueError(f"{location}: {error}{self.locations.hint}") from None
        except ValidationError as error:
            raise ValueError(_explain_error(self.path, error, self.locations.lines)) from None


def read_source(path: Path) -> PromptSource:
    """Read the values of a prompt file or a card.

    Raises:
        ValueError: it cannot be read, or is no YAML; the message names file and line.
    """
    data = _read_bytes(path)
    try:
        values = load_yaml(data, names_as_written=True)
    except YamlError as error:
        raise ValueError(f"{path}:{error.line or 1}: expected YAML: {error.problem}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path}:1: expected YAML with prompt, scale and verdict")
    return PromptSource(path, values, _locate_fields(data))


def load_prompt_file(path: Path) -> PromptFile:
    """Read a prompt file; the sections of a card are left out.

    Raises:
        ValueError: it cannot be read, or is invalid; the message names file and line.
    """
    return read_source(path).parse_prompt()


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: the path has a NUL
        problem = error.strerror if isinstance(error, OSError) else error
        path_text = " ".join(str(path).split())
        raise ValueError(f"{path_text}: the prompt file cannot be read: {problem}") from None
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{path}: a prompt file has at most {_MAX_BYTES:,} bytes")
    return data


def _locate_fields(data: bytes) -> FieldLocations:
    node = parse_nodes(data)
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    lines = {
        key.value: key.start_mark.line + 1 for key, _ in pairs if isinstance(key, yaml.ScalarNode)
    }
    prompt = next((value for key, value in pairs if key.value == "prompt"), None)
    if not isinstance(prompt, yaml.ScalarNode):
        return FieldLocations(lines, {})
    line = prompt.start_mark.line + 1
    if prompt.style == "|":
        return FieldLocations(lines, {"first_line": line + 1})
    is_joined = prompt.end_mark.line > prompt.start_mark.line
    if is_joined:
        hint = (
            "; the lines of this text are joined, as YAML says: write prompt: | for a text with "
            "lines"
        )
    else:
        hint = ""
    return FieldLocations(lines, {"first_line": line, "is_block": False}, hint)


def _explain_error(path: Path, error: ValidationError, lines: Mapping[str, int]) -> str:
    """Explain the first error of a file, with its line."""
    first = error.errors(include_input=False)[0]
    known_fields = {*PromptFile.model_fields, *VerdictRule.model_fields}
    location = [str(part) for part in first["loc"] if part in known_fields]
    message = first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][0]) if first["loc"] else message.partition(":")[0]
    if first["type"] == "extra_forbidden":
        if len(first["loc"]) > 1:
            expected = VerdictRule.model_fields
        else:
            expected = PromptFile.model_fields
        expected_list = ", ".join(expected)
        message = f"unknown; expected {expected_list}"
        location = [str(part) for part in first["loc"]]
    elif first["loc"] and first["type"] != "value_error":
        message = _EXPECTED.get(name, message)
    prefix = f"{'.'.join(location)}: " if location else ""
    line = lines.get(name, 1)
    return f"{path}:{line}: {prefix}{message}"
