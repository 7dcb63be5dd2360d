"""Rows with a prompt and criteria, perhaps with an answer and gold verdicts on it.

Reads the rows of HealthBench and of Rubrics as Rewards unchanged, and the user's own format
(`judgegym.judges.checklists`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from judgegym.data.answers import (
    CONVERSATIONS,
    PROMPTS,
    SYSTEM,
    PromptTask,
    read_prompt,
    warn_unused_columns,
)
from judgegym.data.rows import Row, index_by_uid, name_row_in_errors
from judgegym.data.rubric_rows import read_context, read_golds
from judgegym.data.task_list import TaskList
from judgegym.judges.checklists.criteria import Criterion, read_criteria
from judgegym.judges.checklists.formulas import Formula, has_score
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.scorers.columns import USUAL_COLUMNS, find_column

_ANSWER = ("answer", "response")


@dataclass(frozen=True, slots=True)
class ChecklistTask:
    """A row, or (where the policy is the judge) some of its criteria.

    Attributes:
        uid: the row's id, or `row-<number>`; if the policy is the judge, followed by `:<number of
            the part>`.
        question: the prompt as one text.
        prompt: the prompt as a conversation.
        criteria: the criteria for judging an answer.
        answer: the row's own answer, if it has one.
        context: the text that an answer should use.
        reference: an answer that deserves the highest score.
        category: the category for metrics by category.
        tags: the row's own tags (HealthBench's `example_tags`), each of which gets the row's score.
        golds: the gold verdicts on the row's own answer, by the names of criteria.
        left_out: the names of criteria that training leaves out.
        is_judged: the policy judges the answer.
    """

    uid: str
    question: str
    prompt: PromptTask
    criteria: tuple[Criterion, ...]
    answer: str | None = None
    context: str | None = None
    reference: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    golds: Mapping[str, bool] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    is_judged: bool = False


def read_checklists(
    rows: Sequence[Row], default: tuple[Criterion, ...], *, column: str | None, formula: Formula
) -> TaskList[ChecklistTask]:
    """Return a task for each row.

    Args:
        rows: rows with a prompt.
        default: the criteria of rows without any.
        column: the column of criteria; `None` for the first usual column that has criteria.
        formula: how the criteria make a score.

    Raises:
        DataError: a row has no prompt, or no criteria that can be read and scored, or a gold
            verdict that is neither yes nor no, or the id of another row.
    """
    read = (
        *SYSTEM,
        *USUAL_COLUMNS["reference"],
        *(USUAL_COLUMNS["criteria"] if column is None else (column,)),
    )
    warn_unused_columns(rows, ((*PROMPTS, *CONVERSATIONS), USUAL_COLUMNS["context"]), read)

    def build(uid: str, row: Row) -> ChecklistTask:
        task = _read_task(uid, row, default, column)
        if not has_score(task.criteria, formula):
            raise row.error(
                f"no criterion has positive points, so that formula={formula} gives no score"
            )
        return task

    return TaskList.from_rows(index_by_uid(rows, numbered=True), build)


def read_gold_checklists(
    rows: Sequence[Row], default: tuple[Criterion, ...], *, column: str | None, per_task: int
) -> TaskList[ChecklistTask]:
    """Return tasks of at most `per_task` criteria with gold verdicts.

    A row without an answer or gold has no such task.

    Raises:
        DataError: as for `read_checklists`, whatever the points.
    """

    def build(uid: str, row: Row) -> list[ChecklistTask]:
        task = _read_task(uid, row, default, column)
        graded: list[Criterion] = []
        if task.answer is not None:
            graded = [criterion for criterion in task.criteria if criterion.name in task.golds]
        parts = [
            tuple(graded[start : start + per_task]) for start in range(0, len(graded), per_task)
        ]
        return [
            replace(task, uid=f"{uid}:{n}", criteria=part, is_judged=True)
            for n, part in enumerate(parts, start=1)
        ]

    return TaskList.expand_rows(index_by_uid(rows, numbered=True), build)


def drop_criteria(task: ChecklistTask, share: float, seed: int, formula: Formula) -> ChecklistTask:
    """Return the task without a share of its criteria.

    The choice depends on the seed and the row's id only.

    The number is rounded; criteria that the formula needs for a score stay.
    """
    count = round(share * len(task.criteria))
    remaining = list(task.criteria)
    for criterion in make_generator(seed, task.uid, "rubric_dropout").sample(
        remaining, len(remaining)
    ):
        reduced = [candidate for candidate in remaining if candidate is not criterion]
        if len(task.criteria) - len(remaining) < count and reduced and has_score(reduced, formula):
            remaining = reduced
    left_out = tuple(dropped.name for dropped in task.criteria if dropped not in remaining)
    if not left_out:
        return task
    return replace(task, criteria=tuple(remaining), left_out=left_out)


def _read_task(
    uid: str, row: Row, default: tuple[Criterion, ...], column: str | None
) -> ChecklistTask:
    with name_row_in_errors(row):
        prompt = read_prompt(uid, row)
    criteria = _read_criteria(row, default, column)
    names, verdicts = [criterion.name for criterion in criteria], row.values.get("verdicts")
    unknown = verdicts.keys() - {*names} if isinstance(verdicts, Mapping) else ()
    if unknown:
        first_unknown = min(unknown)
        raise row.error(
            f"verdicts: expected the names of its criteria, found {first_unknown!r}", "verdicts"
        )
    tags = row.values.get("example_tags")
    return ChecklistTask(
        uid=uid,
        question=prompt.question,
        prompt=prompt,
        criteria=criteria,
        answer=row.optional_text(*_ANSWER),
        context=read_context(row),
        reference=row.filled_text(*USUAL_COLUMNS["reference"]),
        category=prompt.category,
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        golds=read_golds(row, names, in_order=True),
    )


def _read_criteria(
    row: Row, default: tuple[Criterion, ...], column: str | None
) -> tuple[Criterion, ...]:
    criteria_column = column
    if criteria_column is None:
        criteria_column = find_column(row.values, "criteria")
    if criteria_column is None or row.value(criteria_column) in (None, ""):
        if default and (column is None or column in row.values):
            return default
        columns = column or " or ".join(USUAL_COLUMNS["criteria"])
        raise row.missing_error(
            f"criteria in {columns}; or name their column: "
            "--env.criteria_column (env.criteria is for rows without any)",
            column,
        )
    try:
        return read_criteria(row.value(criteria_column))
    except ValueError as error:
        raise row.error(f"{criteria_column}: {error}", criteria_column) from error
