"""The columns of a scored file by aspect and by criterion.

If all rows are judged by the same questions, each question has a column, `judge/aspect/NAME` or
`judge/criterion/NAME`, with a number or null. If rows bring their own questions, as HealthBench's
do, there would be thousands of nearly empty columns: then one column holds a list of objects for
each response, in the order of the row's questions.

Guarantee: NAME is `slug(name)`, as in the names of metrics, so different names never share a
column. The names are reserved: data that has such a column is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings
from judgegym.judges.core.judgment import NamedVerdict
from judgegym.judges.core.naming import slug
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.wire import JSON

QuestionKind: TypeAlias = Literal["aspect", "criterion"]

_PREFIXES: Mapping[QuestionKind, str] = {"aspect": "judge/aspect/", "criterion": "judge/criterion/"}
_LISTS: Mapping[QuestionKind, str] = {"aspect": "judge/aspects", "criterion": "judge/criteria"}
_NOT_VERDICTS = ("raw", "left_out")
"""Components of a score that are not verdicts."""


class Questions:
    """The aspects or criteria by which rows are judged, and whether all rows have the same ones.

    Attributes:
        kind: `aspect` or `criterion`; `None` for a judge that has neither.
        shared: the points by name, if all rows have the same questions; else empty.
    """

    def __init__(self, settings: object) -> None:
        """Begin with the questions of the settings, until a row has others."""
        any_judge = settings if isinstance(settings, AnyJudgeSettings) else None
        aspects = None if any_judge is None else any_judge.match_settings(AspectJudgeSettings)
        checklist = None if any_judge is None else any_judge.match_settings(ChecklistJudgeSettings)
        self._settings = settings
        self.kind: QuestionKind | None = None
        self.shared: Mapping[str, float] = {}
        self._first_questions: Sequence[object] | None = None
        self._default_questions: Sequence[Any] = ()
        if aspects:
            self.kind, self._default_questions = "aspect", aspects.aspects
        elif checklist:
            self.kind, self._default_questions = "criterion", checklist.criteria
        if self.kind is not None:
            self._set_shared(self._default_questions)

    def note(self, task: JudgeTask) -> None:
        """Record the questions of a row."""
        if self.kind is None:
            return
        if self.kind == "aspect":
            task_questions: Sequence[Any] | None = task.aspects
        else:
            task_questions = task.criteria
        questions = task_questions or self._default_questions
        if self._first_questions is None:
            self._first_questions = questions
            self._set_shared(questions)
        elif questions is not self._first_questions and tuple(questions) != tuple(
            self._first_questions
        ):
            self.shared = {}

    def _set_shared(self, questions: Sequence[Any]) -> None:
        is_aspect = self.kind == "aspect"
        self.shared = {
            question.name: question.polarity * question.weight if is_aspect else question.points
            for question in questions
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a scored file for these questions."""
        if self.kind is None:
            return ()
        return tuple(_PREFIXES[self.kind] + slug(name) for name in self.shared) or (
            _LISTS[self.kind],
        )

    def batch_columns(self, columns_read: Collection[str]) -> tuple[str, ...]:
        """Return the columns of a batch: they depend on which fields are read, not on the rows.

        Args:
            columns_read: the fields that are read from the rows, such as `criteria`.
        """
        if (
            self.kind is None
            or ("aspects" if self.kind == "aspect" else "criteria") not in columns_read
        ):
            return Questions(self._settings).columns
        return (_LISTS[self.kind],)


def is_verdict_column(name: str) -> bool:
    """Return whether a column holds verdicts."""
    return has_one_value(name) or name in _LISTS.values()


def has_one_value(name: str) -> bool:
    """Return whether a column belongs to one aspect or criterion."""
    return name.startswith(tuple(_PREFIXES.values()))


def named_values(
    verdicts: Sequence[NamedVerdict], components: Mapping[str, float]
) -> Mapping[str, float | None]:
    """Return the verdicts' values by name; lines of older versions have them in the components."""
    if verdicts:
        return {verdict.name: verdict.value for verdict in verdicts}
    return {name: value for name, value in components.items() if name not in _NOT_VERDICTS}


def verdict_values(
    columns: Sequence[str], verdicts: Sequence[NamedVerdict], components: Mapping[str, float]
) -> dict[str, JSON]:
    """Return a response's values in the columns for verdicts.

    Args:
        columns: the columns.
        verdicts: the verdicts on aspects or criteria.
        components: the components of the score; a line of an older version has only these.
    """
    if not columns:
        return {}
    value_by_name = named_values(verdicts, components)
    points = {verdict.name: verdict.points for verdict in verdicts}
    if not has_one_value(columns[0]):
        entries: list[JSON] = [
            {"name": name, "points": points.get(name), "value": value_by_name[name]}
            for name in value_by_name
        ]
        return {columns[0]: entries or None}
    values = {slug(name): value for name, value in value_by_name.items()}
    return {name: values.get(name.rpartition("/")[2]) for name in columns}
