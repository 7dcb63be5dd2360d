"""The optional fields of a task beside prompt and responses, and how they are parsed.

Guarantee: server and data sets parse these fields with the same functions, so that a request and a
    row with equal content become the same task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from judgegym.judges.aspects.prompt import Aspect, parse_aspects
from judgegym.judges.checklists.criteria import Criterion, read_criteria
from judgegym.judges.core.tasks import JudgeTask

_ASPECTS = TypeAdapter(Annotated[tuple[Aspect, ...], Field(min_length=1)])
_MAX_SCORE_LENGTH = 9


class FieldTypeError(ValueError):
    """A field's value has none of the types that the field allows."""


def make_judge_task(
    prompt: str, responses: Sequence[str], fields: Mapping[str, object]
) -> JudgeTask:
    """Make a task from a prompt, responses and fields.

    Args:
        prompt: the prompt.
        responses: the responses.
        fields: the fields' values by name; `None` for a missing one.

    Raises:
        FieldTypeError: a field's value has the wrong type.
        ValueError: a field cannot be parsed; the message begins with its name.
    """
    rubric, levels = parse_rubric(fields.get("rubric"))
    criteria = fields.get("criteria")
    baseline = _check_text("baseline", fields.get("baseline"))
    reference = fields.get("reference")
    return JudgeTask(
        prompt,
        tuple(responses),
        reference=_check_text(
            "reference", str(reference) if type(reference) in (int, float) else reference
        )
        or None,
        rubric=rubric,
        levels=levels,
        aspects=_parse_aspects(fields.get("aspects")),
        baseline=baseline if baseline and baseline.strip() else None,
        context=_parse_context(fields.get("context")),
        criteria=None if criteria is None else parse_criteria(criteria),
    )


def parse_rubric(value: object) -> tuple[str | None, tuple[tuple[int, str], ...]]:
    """Parse the criteria and levels of a rubric.

    A rubric is a text, or an object with `criteria` and `score1_description`, ….

    Raises:
        FieldTypeError: it is neither.
        ValueError: the object has no criteria, an unknown field, or a value that is not text.
    """
    if value is None or isinstance(value, str):
        return value or None, ()
    if not isinstance(value, Mapping):
        value_type = type(value).__name__
        raise FieldTypeError(
            f"rubric: expected text, or an object with criteria, found {value_type}"
        )
    levels: list[tuple[int, str]] = []
    for name, text in value.items():
        level = name.removeprefix("score").removesuffix("_description")
        is_score = level.removeprefix("-").isascii() and level.removeprefix("-").isdigit()
        if name != "criteria" and (
            f"score{level}_description" != name or not is_score or len(level) > _MAX_SCORE_LENGTH
        ):
            raise ValueError(
                f"rubric.{name}: unknown field; expected criteria and score1_description, "
                "score2_description … "
                "(the scale is a setting of the judge: --scale_min, --scale_max)"
            )
        if text is None and name != "criteria":
            continue  # in a column of objects, each has the fields of all
        if not isinstance(text, str):
            text_type = type(text).__name__
            raise ValueError(f"rubric.{name}: expected text, found {text_type}")
        if name != "criteria":
            levels.append((int(level), text))
    criteria = value.get("criteria")
    if not isinstance(criteria, str):
        raise ValueError("rubric: expected text, or an object with criteria")
    return criteria, tuple(levels)


def _parse_aspects(value: object) -> tuple[Aspect, ...] | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str | Sequence):
        value_type = type(value).__name__
        raise FieldTypeError(f"aspects: expected names or objects, found {value_type}")
    plain = value if isinstance(value, str) else [_drop_null(entry) for entry in value]
    try:
        return _ASPECTS.validate_python(parse_aspects(plain))
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(("aspects", *map(str, first["loc"])))
        raise ValueError(f"{location}: {first['msg']}") from error
    except ValueError as error:
        raise ValueError(f"aspects: {error}") from error


def parse_criteria(value: object) -> tuple[Criterion, ...] | None:
    """Parse the criteria of a request or a row; `None` without any.

    Raises:
        ValueError: they cannot be parsed.
    """
    try:
        if value is None:
            return None
        return read_criteria(value)
    except ValueError as error:
        raise ValueError(f"criteria: {error}") from error


def _drop_null(entry: object) -> object:
    """Drop the null fields of an aspect from a table, where all objects have the same fields."""
    if isinstance(entry, Mapping):
        return {name: value for name, value in entry.items() if value is not None}
    return entry


def _check_text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    value_type = type(value).__name__
    raise FieldTypeError(f"{name}: expected text, found {value_type}")


def _parse_context(value: object) -> str | None:
    """Return the context: a text, or texts joined with newlines."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        return "\n".join(map(str, value)) or None
    value_type = type(value).__name__
    raise FieldTypeError(f"context: expected text or a list of texts, found {value_type}")
