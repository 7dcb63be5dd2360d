"""Rows of rubric data and of aspect critique, under the usual column names.

Rubric rows have instruction, response, reference, rubric and gold score. Rows for aspect critique
have a question, and perhaps an answer to it with gold verdicts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judgegym.data.answers import read_question, warn_unused_columns
from judgegym.data.rows import Row, index_by_uid
from judgegym.data.task_list import TaskList
from judgegym.judges.aspects.prompt import Aspect
from judgegym.judges.core.judgment import Scale
from judgegym.judges.parsing.labels import parse_yes_no
from judgegym.judges.rubrics.prompt import Rubric
from judgegym.judges.scorers.columns import USUAL_COLUMNS
from judgegym.llm import wire
from judgegym.llm.wire import JSON

# In Feedback-Collection `instruction` is the judge's whole prompt; the instruction itself is in the
# `orig_*` columns.
_INSTRUCTION = ("orig_instruction", "instruction", "question", "prompt")
_RESPONSE = ("orig_response", "response")
_REFERENCE = ("orig_reference_answer", *USUAL_COLUMNS["reference"])
_GOLD = ("score", "orig_score", "gpt4_scores")
_LEVEL = re.compile(r"(?:orig_)?score(-?\d+)_description")
_LONGEST_LEVEL = 9


@dataclass(frozen=True, slots=True)
class RubricTask:
    """A row.

    Attributes:
        uid: the row's id, or `row-<number>`.
        question: the instruction.
        rubric: the rubric for judging a response.
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


def read_rubric_rows(
    rows: Sequence[Row], scale: Scale, *, default_rubric: str | None = None
) -> TaskList[RubricTask]:
    """Return the tasks of a dataset's rows, in their order.

    Args:
        rows: rows with an instruction and, unless there is a default, a rubric.
        scale: the scale of all scores.
        default_rubric: the rubric for rows without one.

    Raises:
        DataError: a row lacks a field, has a gold score that is not on the scale, or has the id of
            another row.
    """
    warn_unused_columns(rows, (_INSTRUCTION, _REFERENCE), USUAL_COLUMNS["rubric"])
    return TaskList.from_rows(
        index_by_uid(rows, numbered=True),
        lambda uid, row: _read_task(uid, row, scale, default_rubric),
    )


def _read_task(uid: str, row: Row, scale: Scale, default_rubric: str | None) -> RubricTask:
    return RubricTask(
        uid=uid,
        question=read_question(row, *_INSTRUCTION),
        rubric=_read_rubric(row, scale, default_rubric),
        reference=row.filled_text(*_REFERENCE),
        response=row.optional_text(*_RESPONSE),
        gold=_read_score(row, scale),
        category=row.optional_text("category"),
    )


def _read_rubric(row: Row, scale: Scale, default: str | None) -> Rubric:
    """Read the rubric: a string, an object with `criteria`, or the `orig_*` columns.

    The object may have `score1_description` and so on.
    """
    rubric = next(
        (row.values[name] for name in USUAL_COLUMNS["rubric"] if row.values.get(name)), None
    )
    if isinstance(rubric, str) and rubric.strip():
        return Rubric(rubric, scale=scale)
    fields = rubric if isinstance(rubric, Mapping) else row.values
    criteria = fields.get("criteria") or fields.get("orig_criteria")
    if isinstance(criteria, str):
        return Rubric(criteria, _read_levels(fields, row, scale), scale)
    if default is None:
        raise row.missing_error(
            "a rubric: text, or an object with criteria (env.default_rubric is for rows without "
            "one)"
        )
    return Rubric(default, scale=scale)


def _read_levels(fields: Mapping[str, JSON], row: Row, scale: Scale) -> dict[int, str]:
    levels: dict[int, str] = {}
    for name, text in fields.items():
        match = _LEVEL.fullmatch(name)
        if match is None or not isinstance(text, str) or not text:
            continue
        # `\d` also matches digits of other scripts.
        if not match[1].isascii() or len(match[1]) > _LONGEST_LEVEL:
            raise row.missing_error(
                f"descriptions named score1_description, score2_description …, found {name[:80]!r}"
            )
        levels[int(match[1])] = text
    beyond = [level for level in levels if level not in scale.levels]
    if beyond:
        raise row.missing_error(
            f"descriptions of scores from {scale.low} to {scale.high} alone, found one of "
            f"{beyond[0]}"
        )
    return levels


def _read_score(row: Row, scale: Scale) -> float | None:
    value = next(
        (row.values[name] for name in _GOLD if row.values.get(name) not in (None, "")), None
    )
    if value is None:
        return None
    several = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    scores = [_parse_number(item) for item in several]
    known_scores = [score for score in scores if score is not None]
    numbers = [score for score in known_scores if scale.includes(score)]
    if not numbers or len(numbers) < len(scores):
        raise row.missing_error(
            f"a gold score from {scale.low} to {scale.high} (env.scale_min, env.scale_max), not "
            f"{value!r}"
        )
    return sum(numbers) / len(numbers)


def _parse_number(value: JSON) -> float | None:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float) or "_" in str(value):
            return None
        return float(value)
    except ValueError:
        return None


logger = logging.getLogger(__name__)

_QUESTION = ("question", "user_input", "prompt")
_ANSWER = ("answer", "response")
_CONTEXT = USUAL_COLUMNS["context"]


@dataclass(frozen=True, slots=True)
class AspectTask:
    """A row, or (where the policy is the judge) one aspect of it.

    Attributes:
        uid: the row's id, or `row-<number>`; with `role=judge`, followed by `:<aspect>`.
        question: the text that identifies the row in reports: its question, or the answer if it has
            none.
        asked: the question that the answer answers; `None` for an answer without a question. The
            field keeps its name, which is part of the digests of runs.
        answer: the row's own answer, if it has one.
        context: the context that the answer should use, its parts joined with newlines.
        reference: the text that the answer is compared with.
        category: the category for metrics by category; with `role=judge`, the aspect's name.
        aspect: with `role=judge`, the aspect of this task.
        golds: the gold verdicts on the row's own answer, by aspect; with `role=judge`, only that on
            `aspect`.
    """

    uid: str
    question: str
    asked: str | None
    answer: str | None
    context: str | None
    reference: str | None
    category: str | None
    aspect: Aspect | None = None
    golds: Mapping[str, bool] = field(default_factory=dict)


def read_answers(rows: Sequence[Row], aspects: Sequence[Aspect]) -> TaskList[AspectTask]:
    """Return a task for each row with a question or an answer, perhaps with gold verdicts.

    Raises:
        DataError: a row has neither answer nor verdict, has a verdict that is neither yes nor no,
            or has the id of another row.
    """
    warn_unused_columns(rows, (_QUESTION, _ANSWER), (*_CONTEXT, *USUAL_COLUMNS["reference"]))
    return TaskList.from_rows(
        index_by_uid(rows, numbered=True),
        lambda uid, row: _build_aspect_task(
            uid, row, read_golds(row, [aspect.name for aspect in aspects])
        ),
    )


def read_gold(rows: Sequence[Row], aspects: Sequence[Aspect]) -> TaskList[AspectTask]:
    """Return a task for each gold verdict.

    It is in `verdicts`, by aspect name, or for a single aspect in `verdict`.

    Rows without an answer or without a verdict on these aspects have no task; a warning counts
    them.

    Raises:
        DataError: a verdict is neither yes nor no, or a row has the id of another row.
    """

    def build(uid: str, row: Row) -> list[AspectTask]:
        return _make_verdict_tasks(uid, row, aspects)

    warn_unused_columns(rows, (_QUESTION, _ANSWER), (*_CONTEXT, *USUAL_COLUMNS["reference"]))
    named = index_by_uid(rows, numbered=True)
    tasks = TaskList.expand_rows(named, build)
    unused = sum(not build(uid, row) for uid, row in named.items())
    if 0 < unused < len(rows):
        logger.warning("%d of %d rows have no answer in text or no gold verdict", unused, len(rows))
    return tasks


def _make_verdict_tasks(uid: str, row: Row, aspects: Sequence[Aspect]) -> list[AspectTask]:
    if row.optional_text(*_ANSWER) is None:
        return []
    golds = read_golds(row, [aspect.name for aspect in aspects])
    return [
        _build_aspect_task(f"{uid}:{aspect.name}", row, {aspect.name: golds[aspect.name]}, aspect)
        for aspect in aspects
        if aspect.name in golds
    ]


def _build_aspect_task(
    uid: str, row: Row, golds: Mapping[str, bool], aspect: Aspect | None = None
) -> AspectTask:
    asked_question, answer = row.optional_text(*_QUESTION), row.optional_text(*_ANSWER)
    if asked_question is None and answer is None:
        questions, answers = ", ".join(_QUESTION), ", ".join(_ANSWER)
        raise row.missing_error(f"a question in {questions} or an answer in {answers}")
    context, reference = read_context(row), row.filled_text(*USUAL_COLUMNS["reference"])
    if aspect is not None:
        category: str | None = aspect.name
    else:
        category = row.optional_text("category")
    question = asked_question
    if question is None:
        question = answer or ""
    return AspectTask(
        uid=uid,
        question=question,
        asked=asked_question,
        answer=answer,
        context=context,
        reference=reference,
        category=category,
        aspect=aspect,
        golds=golds,
    )


def read_context(row: Row) -> str | None:
    """Read the context: a string, or a list of strings joined with newlines; `None` if empty."""
    value = next((row.values[name] for name in _CONTEXT if row.values.get(name)), None)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        return "\n".join(str(part) for part in value) or None
    raise row.missing_error("contexts that are text or a list of texts")


def read_golds(row: Row, names: Sequence[str], *, in_order: bool = False) -> dict[str, bool]:
    """Read the gold verdicts by name from an object; a single one also from `verdict`.

    Args:
        row: the row.
        names: the names of the verdicts that are read.
        in_order: a list with one verdict for each name is read, too.

    Raises:
        DataError: the row has something else, or a verdict that is neither yes nor no.
    """
    verdicts: JSON = row.values.get("verdicts")
    list_words = ", or a list in their order" if in_order else ""
    expected = f"verdicts as an object of names and 1 or 0{list_words}"
    if verdicts == "":
        verdicts = None
    if isinstance(verdicts, str):  # a cell of a CSV file
        try:
            verdicts = wire.loads(verdicts)
        except ValueError:
            raise row.missing_error(f"{expected}, not {verdicts!r}") from None
    if in_order and isinstance(verdicts, list) and len(verdicts) == len(names):
        verdicts = dict(zip(names, verdicts, strict=True))
    if verdicts is not None and not isinstance(verdicts, Mapping):
        raise row.missing_error(f"{expected}, not {verdicts!r}")
    by_name = dict(verdicts or {})
    if len(names) == 1:
        by_name.setdefault(names[0], row.values.get("verdict"))
    golds: dict[str, bool] = {}
    for name in names:
        value = by_name.get(name)
        if value is None or value == "":
            continue
        gold = parse_yes_no(value)
        if gold is None:
            raise row.missing_error(f"a gold verdict of yes or no on {name}, not {value!r}")
        golds[name] = gold
    return golds
