"""What a task can have beside prompt and responses: how each field is read.

Guarantee: the server and data sets read these fields by the same functions, so that a request and a row that say the
same become the same task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from judgegym.judges.aspects.prompt import Aspect, aspects_of
from judgegym.judges.checklists.criteria import Criterion, read_criteria
from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm import wire

_ASPECTS = TypeAdapter(Annotated[tuple[Aspect, ...], Field(min_length=1)])
_LONGEST_SCORE = 9
USUAL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "reference": ("reference", "reference_answer"),
    "rubric": ("rubric", "score_rubric"),
    "aspects": ("aspects",),
    "baseline": ("baseline",),
    "context": ("contexts", "context"),
    "criteria": ("criteria", "rubrics", "rubric", "Rubrics", "rubric_items", "reward_model.rubrics"),
}
"""The columns in which data sets have the fields of a task, ours first; the first that holds something is read.

`score_rubric` is BiGGen-Bench's. Of criteria, `rubrics` is HealthBench's and ResearchRubrics', a `rubric` that is a
list that of Rubrics as Rewards, `Rubrics` RubricHub's, `rubric_items` HealthBench Professional's, the last one verl's.
"""


class FieldTypeError(ValueError):
    """A field holds a value of another type than any that it can have."""


def judge_task_of(prompt: str, responses: Sequence[str], given: Mapping[str, object]) -> JudgeTask:
    """A task.

    Args:
        prompt: the prompt.
        responses: the responses.
        given: the values of fields by their names; `None` is none.

    Raises:
        FieldTypeError: a field holds a value of another type.
        ValueError: a field cannot be read; the message begins with its name.
    """
    rubric, levels = rubric_of(given.get("rubric"))
    criteria = given.get("criteria")
    baseline, reference = _text("baseline", given.get("baseline")), given.get("reference")
    return JudgeTask(
        prompt,
        tuple(responses),
        reference=_text("reference", str(reference) if type(reference) in (int, float) else reference) or None,
        rubric=rubric,
        levels=levels,
        aspects=_aspects(given.get("aspects")),
        baseline=baseline if baseline and baseline.strip() else None,
        context=_context(given.get("context")),
        criteria=None if criteria is None else criteria_of(criteria),
    )


def rubric_of(value: object) -> tuple[str | None, tuple[tuple[int, str], ...]]:
    """The criteria and levels of a rubric, from text or from an object of `criteria` and `score1_description`, ….

    Raises:
        FieldTypeError: it is neither.
        ValueError: the object has no criteria, a field that is neither these nor a level, or one that is not text.
    """
    if value is None or isinstance(value, str):
        return value or None, ()
    if not isinstance(value, Mapping):
        raise FieldTypeError(f"rubric: expected text, or an object with criteria, found {type(value).__name__}")
    levels: list[tuple[int, str]] = []
    for name, text in value.items():
        level = name.removeprefix("score").removesuffix("_description")
        is_score = level.removeprefix("-").isascii() and level.removeprefix("-").isdigit()
        if name != "criteria" and (f"score{level}_description" != name or not is_score or len(level) > _LONGEST_SCORE):
            raise ValueError(
                f"rubric.{name}: unknown field; expected criteria and score1_description, score2_description … "
                "(the scale is a setting of the judge: --scale_min, --scale_max)"
            )
        if text is None and name != "criteria":
            continue  # a column of objects has the fields of all of them
        if not isinstance(text, str):
            raise ValueError(f"rubric.{name}: expected text, found {type(text).__name__}")
        if name != "criteria":
            levels.append((int(level), text))
    criteria = value.get("criteria")
    if not isinstance(criteria, str):
        raise ValueError("rubric: expected text, or an object with criteria")
    return criteria, tuple(levels)


def _aspects(value: object) -> tuple[Aspect, ...] | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str | Sequence):
        raise FieldTypeError(f"aspects: expected names or objects, found {type(value).__name__}")
    plain = value if isinstance(value, str) else [_without_null(entry) for entry in value]
    try:
        return _ASPECTS.validate_python(aspects_of(plain))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(("aspects", *map(str, first["loc"])))
        raise ValueError(f"{place}: {first['msg']}") from error
    except ValueError as error:
        raise ValueError(f"aspects: {error}") from error


def criteria_of(value: object) -> tuple[Criterion, ...] | None:
    """The criteria of a request or a row, `None` without any.

    Raises:
        ValueError: they cannot be read.
    """
    try:
        return None if value is None else read_criteria(value)
    except ValueError as error:
        raise ValueError(f"criteria: {error}") from error


def usual_column(values: Mapping[str, object], field: str) -> str | None:
    """The first of a field's usual columns that holds something of its kind; `None` without one.

    A `rubric` holds criteria where it is a list of objects, also as JSON text, else a rubric.
    """
    for column in USUAL_COLUMNS[field]:
        value = usual_value(values, column)
        is_shared = column in USUAL_COLUMNS["criteria"] and column in USUAL_COLUMNS["rubric"]
        is_empty = value in (None, "") or (column != field and value in ([], {}))  # an own empty list is a mistake
        if is_empty or (field == "criteria" and is_shared and not _is_list_of_criteria(value)):
            continue
        return column
    return None


def usual_columns(values: Mapping[str, object], fields: Iterable[str] = USUAL_COLUMNS) -> dict[str, str]:
    """The usual column of each field that a row has; one that holds criteria is no rubric."""
    found = {field: column for field in fields if (column := usual_column(values, field)) is not None}
    if "rubric" in found and found["rubric"] == found.get("criteria"):
        del found["rubric"]
    return found


def usual_fields(values: Mapping[str, object], fields: Iterable[str] = USUAL_COLUMNS) -> dict[str, object]:
    """What a row has in the usual columns, by the names of fields."""
    return {field: usual_value(values, column) for field, column in usual_columns(values, fields).items()}


def usual_value(values: Mapping[str, object], column: str) -> object:
    """The value of a usual column, which may be within one: `reward_model.rubrics`."""
    name, _, inner = column.partition(".")
    if column in values or not inner:
        return values.get(column)
    whole = values.get(name)
    return whole.get(inner) if isinstance(whole, Mapping) else None


def _is_list_of_criteria(value: object) -> bool:
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = wire.as_json(value)
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _without_null(entry: object) -> object:
    """An aspect of a table, whose objects have the fields of all of them."""
    return {name: value for name, value in entry.items() if value is not None} if isinstance(entry, Mapping) else entry


def _text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise FieldTypeError(f"{name}: expected text, found {type(value).__name__}")


def _context(value: object) -> str | None:
    """The context: a text, or texts joined with newlines."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        return "\n".join(map(str, value)) or None
    raise FieldTypeError(f"context: expected text or a list of texts, found {type(value).__name__}")
