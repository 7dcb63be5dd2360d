"""Rows of rubric data: instruction, response, reference, rubric and gold score, under the usual column names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judgegym.data.prompts import asked_text, warn_of_unread_columns
from judgegym.data.rows import Row, by_uid
from judgegym.data.task_list import TaskList
from judgegym.judges.core.scale import Scale
from judgegym.judges.rubrics.prompt import Rubric
from judgegym.llm.wire import JSON

# In Feedback-Collection `instruction` is the judge's whole prompt; the instruction itself is in the `orig_*` columns.
_INSTRUCTION = ("orig_instruction", "instruction", "question", "prompt")
_RESPONSE = ("orig_response", "response")
_REFERENCE = ("orig_reference_answer", "reference_answer", "reference")
_GOLD = ("score", "orig_score", "gpt4_scores")
_LEVEL = re.compile(r"(?:orig_)?score(-?\d+)_description")
_LONGEST_LEVEL = 9


@dataclass(frozen=True, slots=True)
class RubricTask:
    """A row.

    Attributes:
        uid: the row's id, or `row-<number>`.
        question: the instruction.
        rubric: the rubric by which a response is judged.
        reference: a response that gets the highest score, if the row has one.
        response: the row's own response, which a policy with `role=judge` scores.
        gold: the gold score of that response; the mean if there are several.
        category: the category for metrics by category.
    """

    uid: str
    question: str
    rubric: Rubric
    reference: str | None
    response: str | None
    gold: float | None
    category: str | None


def read_rubric_rows(rows: Sequence[Row], scale: Scale, *, default_rubric: str | None = None) -> TaskList[RubricTask]:
    """The tasks of a dataset's rows, in their order.

    Args:
        rows: rows with an instruction and, unless there is a default, a rubric.
        scale: the scale of all scores.
        default_rubric: the rubric for rows without one.

    Raises:
        DataError: a row lacks a field, has a gold score that is not on the scale, or has the id of another row.
    """
    warn_of_unread_columns(rows, (_INSTRUCTION, _REFERENCE), ("rubric",))
    return TaskList.of(by_uid(rows, numbered=True), lambda uid, row: _task(uid, row, scale, default_rubric))


def _task(uid: str, row: Row, scale: Scale, default_rubric: str | None) -> RubricTask:
    return RubricTask(
        uid=uid,
        question=asked_text(row, *_INSTRUCTION),
        rubric=_rubric(row, scale, default_rubric),
        reference=row.filled_text(*_REFERENCE),
        response=row.optional_text(*_RESPONSE),
        gold=_gold(row, scale),
        category=row.optional_text("category"),
    )


def _rubric(row: Row, scale: Scale, default: str | None) -> Rubric:
    """The rubric: a string, an object of `criteria` and `score1_description` …, or the `orig_*` columns."""
    given = row.values.get("rubric")
    if isinstance(given, str) and given.strip():
        return Rubric(given, scale=scale)
    fields = given if isinstance(given, Mapping) else row.values
    criteria = fields.get("criteria") or fields.get("orig_criteria")
    if isinstance(criteria, str):
        return Rubric(criteria, _levels(fields, row, scale), scale)
    if default is None:
        raise row.lacks("a rubric: text, or an object with criteria (env.default_rubric is for rows without one)")
    return Rubric(default, scale=scale)


def _levels(fields: Mapping[str, JSON], row: Row, scale: Scale) -> dict[int, str]:
    levels: dict[int, str] = {}
    for name, text in fields.items():
        match = _LEVEL.fullmatch(name)
        if match is None or not isinstance(text, str) or not text:
            continue
        if not match[1].isascii() or len(match[1]) > _LONGEST_LEVEL:  # other scripts have digits, too
            raise row.lacks(f"descriptions named score1_description, score2_description …, found {name[:80]!r}")
        levels[int(match[1])] = text
    beyond = [level for level in levels if level not in scale.levels]
    if beyond:
        raise row.lacks(f"descriptions of scores from {scale.low} to {scale.high} alone, found one of {beyond[0]}")
    return levels


def _gold(row: Row, scale: Scale) -> float | None:
    value = next((row.values[name] for name in _GOLD if row.values.get(name) not in (None, "")), None)
    if value is None:
        return None
    several = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    scores = [_number(item) for item in several]
    numbers = [score for score in scores if score is not None and scale.low <= score <= scale.high]
    if not numbers or len(numbers) < len(scores):
        raise row.lacks(f"a gold score from {scale.low} to {scale.high} (env.scale_min, env.scale_max), not {value!r}")
    return sum(numbers) / len(numbers)


def _number(value: JSON) -> float | None:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float) or "_" in str(value):
            return None
        return float(value)
    except ValueError:
        return None
