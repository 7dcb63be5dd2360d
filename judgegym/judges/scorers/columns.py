"""The columns of data sets that hold the fields of a task.

Guarantee: nothing of the judges is imported here, because a trainer that uses a reward server does
    not have their packages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from judgegym.llm import wire

USUAL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "reference": ("reference", "reference_answer"),
    "rubric": ("rubric", "score_rubric"),
    "aspects": ("aspects",),
    "baseline": ("baseline",),
    "context": ("contexts", "context"),
    "criteria": (
        "criteria",
        "rubrics",
        "rubric",
        "Rubrics",
        "rubric_items",
        "reward_model.rubrics",
    ),
}
"""The columns of each field of a task, JudgeGym's own name first; the first non-empty one is read.

`score_rubric` is BiGGen-Bench's name. For criteria, `rubrics` is the name of HealthBench and
ResearchRubrics, a list in `rubric` that of Rubrics as Rewards, `Rubrics` RubricHub's,
`rubric_items` HealthBench Professional's, and the last one verl's.
"""


def find_column(values: Mapping[str, object], field: str) -> str | None:
    """Return a field's first column that holds a value of its kind; `None` without one.

    A `rubric` column holds criteria if it is a list of objects (also as JSON text), else a rubric.
    """
    for column in USUAL_COLUMNS[field]:
        value = read_column(values, column)
        is_shared = column in USUAL_COLUMNS["criteria"] and column in USUAL_COLUMNS["rubric"]
        is_empty = value in (None, "") or (
            column != field and value in ([], {})
        )  # an empty list under the field's own name is a mistake
        if is_empty or (field == "criteria" and is_shared and not _is_criteria_list(value)):
            continue
        return column
    return None


def find_columns(
    values: Mapping[str, object], fields: Iterable[str] = USUAL_COLUMNS
) -> dict[str, str]:
    """Return the column of each field in a row; a `rubric` column with criteria is no rubric."""
    columns = {
        field: column for field in fields if (column := find_column(values, field)) is not None
    }
    if "rubric" in columns and columns["rubric"] == columns.get("criteria"):
        del columns["rubric"]
    return columns


def read_fields(
    values: Mapping[str, object], fields: Iterable[str] = USUAL_COLUMNS
) -> dict[str, object]:
    """Return a row's values in the usual columns, by field."""
    return {
        field: read_column(values, column) for field, column in find_columns(values, fields).items()
    }


def read_column(values: Mapping[str, object], column: str) -> object:
    """Return the value of a usual column, which may be nested: `reward_model.rubrics`."""
    name, _, inner = column.partition(".")
    if column in values or not inner:
        return values.get(column)
    container = values.get(name)
    if isinstance(container, Mapping):
        return container.get(inner)
    return None


def _is_criteria_list(value: object) -> bool:
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = wire.loads_or_none(value)
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(item, Mapping) for item in value)
    )
