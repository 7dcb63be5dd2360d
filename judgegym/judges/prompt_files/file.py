"""A prompt file: YAML with a prompt, a scale, and where the verdict stands.

    prompt: |-
      Grade the answer for a customer. Reply with your reasons, then the grade in double brackets: [[good]] or [[bad]].

      [Question]
      {prompt}

      [Answer]
      {response}
    scale: {bad: 0, good: 1}      # or [1, 5], or yes/no
    verdict: {within: brackets}   # or {after: "SCORE:"}, or {field: NAME} of a JSON object
    system: You work for a shop.  # if left out, there is no system message
    optional: [context]           # placeholders that a row may lack; the section is then left out

Guarantee: what is wrong is told with the file and its line, before the first call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from judgegym.judges.core import judgment
from judgegym.judges.prompt_files.template import (
    PlaceholderName,
    PromptTemplate,
    TemplateError,
    parse_template,
)
from judgegym.judges.prompt_files.verdicts import VerdictLabels, VerdictRule, check_rule

SUFFIXES = (".yaml", ".yml")
"""How the name of a prompt file ends."""
_PLACEHOLDER = re.compile(r"\{(prompt|response|reference|rubric|context|baseline)\}")
_MOST_LEVELS = 1001
_Unit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Scale: TypeAlias = tuple[int, int] | dict[str, _Unit] | Literal["yes/no"]
"""From the lowest to the highest score, labels with their scores from 0 to 1, or yes and no."""


class PromptFile(BaseModel):
    """A judge's prompt, scale and verdict.

    Attributes:
        prompt: the user message, with placeholders.
        scale: from the lowest to the highest score, both included; labels with their scores from 0 to 1; or yes/no.
        verdict: where the verdict of a reply stands.
        system: the system message; `None` for none.
        optional: placeholders that a row may lack.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str
    scale: Scale
    verdict: VerdictRule
    system: str | None = None
    optional: tuple[PlaceholderName, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _yes_and_no_are_words(cls, values: object) -> object:
        """YAML reads `yes` and `no` as true and false."""
        scale = values.get("scale") if isinstance(values, dict) else None
        if not isinstance(values, dict) or not isinstance(scale, Mapping):
            return values
        return {**values, "scale": {_label(key): score for key, score in scale.items()}}

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        _check_scale(self.scale)
        if self.system is not None and (match := _PLACEHOLDER.search(self.system)) is not None:
            raise ValueError(f"system: {match[0]} in a system message is not delimited; move it into the prompt")
        template = self.template
        unknown = [name for name in self.optional if name not in template.names or name == "response"]
        if unknown:
            raise ValueError(f"optional: the prompt has no section {{{unknown[0]}}} that could be left out")
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
        return VerdictLabels(scores={str(level): scale.unit(level) for level in scale.levels}, scale=scale)


def _label(key: object) -> str:
    """The label of a key of YAML."""
    return ("yes" if key else "no") if isinstance(key, bool) else str(key)


def _check_scale(scale: Scale) -> None:
    if isinstance(scale, tuple):
        low, high = scale
        if low >= high:
            raise ValueError(f"scale: expected a lowest and a higher score, found {low} and {high}")
        if high - low >= _MOST_LEVELS:
            raise ValueError(f"scale: expected at most {_MOST_LEVELS} levels, found {high - low + 1}")
    elif isinstance(scale, Mapping):
        wrong = next((label for label in scale if not label.strip() or "\n" in label), None)
        if wrong is not None:
            raise ValueError(f"scale: {wrong!r} is no label; expected a word or several in one line")
        if len({label.casefold() for label in scale}) < len(scale):
            raise ValueError("scale: two labels are equal but for upper and lower case")
        if len({*scale.values()}) < 2:
            raise ValueError(f"scale: expected labels with at least two different scores, found {dict(scale)}")


def load_prompt_file(path: Path) -> tuple[PromptFile, Sequence[str]]:
    """Read a prompt file.

    Returns:
        The file, and notes on what was changed in its prompt, one line each.

    Raises:
        ValueError: it cannot be read, or is wrong; the message names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None
    try:
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ValueError(f"{path}:{line}: expected YAML: {error.problem}") from None
    if not isinstance(values, dict) or not isinstance(values.get("prompt"), str):
        raise ValueError(f"{path}:1: expected YAML with prompt (a text), scale and verdict")
    lines = _lines_of_keys(text)
    first_line = _first_line_of_prompt(text, lines.get("prompt", 1))
    try:
        parse_template(values["prompt"], first_line=first_line)
        prompt_file = PromptFile.model_validate(values)
    except TemplateError as error:
        raise ValueError(f"{path}:{error.line}: {error}") from None
    except ValidationError as error:
        raise ValueError(_explained(path, error, lines)) from None
    notes = parse_template(values["prompt"], first_line=first_line).notes
    return prompt_file, [f"{path}: {note}" for note in notes]


def _lines_of_keys(text: str) -> Mapping[str, int]:
    """The line of each key of the file, from 1."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return {key.value: key.start_mark.line + 1 for key, _ in pairs}


def _first_line_of_prompt(text: str, key_line: int) -> int:
    """Where the prompt's text begins: below its key, if it is a block."""
    line = text.splitlines()[key_line - 1]
    return key_line + 1 if re.search(r":\s*[|>][-+0-9]*\s*(?:#.*)?$", line) else key_line


def _explained(path: Path, error: ValidationError, lines: Mapping[str, int]) -> str:
    """The first error of a file, with its line."""
    first = error.errors(include_input=False)[0]
    place = [str(part) for part in first["loc"] if part in PromptFile.model_fields or part in VerdictRule.model_fields]
    message = first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][0]) if first["loc"] else message.partition(":")[0]
    if first["type"] == "extra_forbidden":
        known = VerdictRule.model_fields if len(first["loc"]) > 1 else PromptFile.model_fields
        message = f"unknown; expected {', '.join(known)}"
        place = [str(part) for part in first["loc"]]
    if first["loc"] and name == "scale":
        message = "expected [LOWEST, HIGHEST], {LABEL: SCORE FROM 0 TO 1, …} or yes/no"
    shown = f"{'.'.join(place)}: " if place else ""
    return f"{path}:{lines.get(name, 1)}: {shown}{message}"
