"""The tasks of a data set: a row, or the rows of a group, judged together.

Guarantees: every row is read once before the first call; this finds the rows that cannot be judged,
with the reason, and identical tasks. Memory holds some forty bytes for each row, and no text: a
task is read again on access.
"""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from judgegym.data.json_file import BadLine
from judgegym.data.lazy_sequence import LazySequence
from judgegym.data.rows import DataSet, Row, RowError
from judgegym.datasets.rows.questions import Questions
from judgegym.datasets.rows.reader import ReadEarlier, RowReader
from judgegym.datasets.rows.schema import ColumnSettings
from judgegym.datasets.rows.task import (
    KEY_BYTES,
    ResponseIndex,
    ScoreTask,
    digest_group_value,
    group_rows,
    index_first_duplicates,
)
from judgegym.engine.runs.directory import make_row_uid
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.scorers.columns import USUAL_COLUMNS
from judgegym.judges.scorers.registry import TASK_FIELDS
from judgegym.llm.errors import DataError
from judgegym.llm.wire import is_blank

logger = logging.getLogger(__name__)

_LOG_EVERY_S = 10.0
_PLACEHOLDER = "a response that will be sampled"
_NO_KEY = bytes(KEY_BYTES)
_NAMED = 9
"""The most bad rows that a message names after the first."""


class ScoreTasks(LazySequence[ScoreTask]):
    """The tasks of some rows of a data set, in the order of their first rows.

    Attributes:
        reader: reads the rows.
        numbers: the rows, from 0.
        bad: the errors of the rows that cannot be judged, by number. Such a row has no response;
            without groups it has a number among the tasks, and reading it is an error.
        several: each row has a list of responses.
        places: where the responses are among all.
        first_equal: for each task the first identical one, which is judged for both. Where
            responses are sampled, each task is its own first, since samples are independent.
        empty: the number of empty responses, which are not judged.
        questions: the aspects or criteria by which the rows are judged.
        chosen: for each task the number of preferred responses, which come first; empty without
            preferences.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        settings: ColumnSettings,
        check: Callable[[JudgeTask], None],
        numbers: range | None = None,
        *,
        sampled: int | None = None,
        earlier: ReadEarlier | None = None,
        known_bad: Mapping[int, RowError] | None = None,
    ) -> None:
        """Read all rows; afterwards `bad` has those that cannot be judged.

        Args:
            rows: the whole data set.
            settings: its columns.
            check: raises `TaskError` for a task that the judge cannot judge.
            numbers: the rows to take, from 0; by default all.
            sampled: the number of responses to sample for each prompt, in place of those of the
                data.
            earlier: reads the responses that an earlier run has sampled.
            known_bad: the rows that are already known to be bad.

        Raises:
            DataError: no row can be read, or a named column is in none.
        """
        self.reader = RowReader(rows, settings, sampled, earlier)
        self.several = self.reader.first.several
        self.numbers = range(len(rows)) if numbers is None else numbers
        self.bad: dict[int, RowError] = dict(known_bad or {})
        if settings.group_by is not None and self.several:
            raise DataError(
                "--group_by: each row has several responses, which are judged together by "
                "themselves"
            )

        if settings.group_by is None:
            self._groups = None
        else:
            self._groups = self._group_judgeable_rows(settings.group_by)
        self.empty = 0
        self.questions = Questions(settings)
        self.chosen = array("I")
        keys, counts = bytearray(), array("q")
        for number in _log_progress(range(len(self))):
            task = self._read_checked_task(number, check)
            if task is None and self._groups is not None:
                continue  # the group is left out
            if task is None:
                keys += _NO_KEY
                counts.append(0)
                self.chosen.append(0)
                continue
            self.questions.note(task.judge_task)
            keys += task.key
            counts.append(task.count)
            self.chosen.append(task.chosen)
            self.empty += sum(is_blank(response) for response in task.judge_task.responses)
        if self._groups is not None:
            self._groups = [rows for rows in self._groups if len(rows)]
            counts = array("q", (row not in self.bad for row in self.numbers))
        self.response_index = ResponseIndex(
            self.numbers, self._groups, counts, several=self.several
        )
        if not any(self.chosen):
            self.chosen = array("I")
        self._keys = bytes(keys)
        if sampled is None:
            self.first_equal = index_first_duplicates(self._keys, KEY_BYTES)
        else:
            self.first_equal = array("q", range(len(self)))

    def note_questions(self, numbers: Iterable[int]) -> None:
        """Record the questions of further rows: other shards must have the same columns."""
        for number in numbers if self.questions.kind is not None else ():
            with suppress(RowError):  # a bad row of another shard
                self.questions.note(self.reader.task(number).judge_task)

    def _group_judgeable_rows(self, column: str) -> list[Sequence[int]]:
        """Return the rows of each group, without rows that have no value."""
        values = array("q")
        for number in self.numbers:
            with self._record_errors([number]):
                digest_group_value(self.reader.rows[number], column)
                if number not in self.bad:
                    values.append(number)
        return group_rows(self.reader.rows, column, values)

    @contextmanager
    def _record_errors(self, numbers: Sequence[int]) -> Iterator[None]:
        """Record an error as the reason why these rows cannot be judged."""
        try:
            yield
        except RowError as error:
            for number in numbers:
                self.bad[number] = self.reader.rows[number].error(error.reason, error.column)

    def _read_checked_task(
        self, number: int, check: Callable[[JudgeTask], None]
    ) -> ScoreTask | None:
        """Read a task without its group's bad rows; return `None` if it cannot be judged."""
        rows = [self.numbers[number]] if self._groups is None else self._groups[number]
        if any(row in self.bad for row in rows):
            return None
        try:
            return self._check(self[number], check)
        except RowError as error:
            if self._groups is None:
                self.bad[rows[0]] = error
                return None
        for row in rows:
            with self._record_errors([row]):
                self.reader.task(row)
        judgeable_rows = self._groups[number] = [row for row in rows if row not in self.bad]
        if judgeable_rows:
            with self._record_errors(judgeable_rows):
                return self._check(self[number], check)
            self._groups[number] = []
        return None

    def _check(self, task: ScoreTask, check: Callable[[JudgeTask], None]) -> ScoreTask:
        """Return the task if it can be judged, or needs no judge call."""
        judge_task = task.judge_task
        if task.to_sample is not None:
            judge_task = judge_task.replace_responses((_PLACEHOLDER,) * task.count)
        try:
            if not all(is_blank(response) for response in judge_task.responses):
                check(judge_task)
        except TaskError as error:
            raise self._error(self.reader.rows[task.rows[0]], judge_task, str(error)) from None
        return task

    @staticmethod
    def _error(row: Row, task: JudgeTask, message: str) -> DataError:
        """Return the error for a row; for a missing field, with the columns where it could be."""
        name = message.partition(":")[0]
        if name not in USUAL_COLUMNS or getattr(task, name) is not None:
            return row.error(message)
        columns = ", ".join(USUAL_COLUMNS[name])
        hint = f"a row has its {name} in {columns}, or in the column that --{name}_column names"
        return row.error(f"{message}; {hint}; columns found: {', '.join(row.values)}")

    def require_all(self, hint: str = "") -> None:
        """Check that all rows can be judged.

        Args:
            hint: how to judge the other rows, for the message.

        Raises:
                DataError: some cannot be judged; the message has the reason of the first, and names
                    some of the others.
        """
        if not self.bad:
            return
        first, *others = sorted(self.bad)
        numbers = ", ".join(str(number + 1) for number in others[:_NAMED])
        if len(others) > _NAMED:
            numbers += ", …"
        more = ""
        if others:
            bad, total = len(self.bad), len(self.numbers)
            more = f"\n{bad:,} of {total:,} rows cannot be judged, also {numbers}"
        raise DataError(f"{self.bad[first]}{more}{hint}")

    @property
    def bad_lines(self) -> Sequence[BadLine]:
        """Lines of the data set that are not rows, and are left out."""
        rows = self.reader.rows
        if isinstance(rows, DataSet):
            return rows.bad_lines
        return ()

    @property
    def are_groups(self) -> bool:
        """Whether a task has several rows, of one response each."""
        return self._groups is not None

    def __len__(self) -> int:
        """Return the number of tasks."""
        if self._groups is None:
            return len(self.numbers)
        return len(self._groups)

    def read(self, place: int) -> ScoreTask:
        """Read a task."""
        if self._groups is None:
            return self.reader.task(self.numbers[place])
        return _join_group(
            [self.reader.task(number) for number in self._groups[place]], self.reader
        )

    def iter_judgeable(self) -> Iterator[ScoreTask]:
        """Iterate over the tasks that can be judged."""
        if self._groups:
            return (self[index] for index in range(len(self)))
        return (self[index] for index in range(len(self)) if self.numbers[index] not in self.bad)

    def uid(self, index: int) -> str:
        """Return a task's id in the ledger, without reading the task."""
        return make_row_uid(self.numbers[index] if self._groups is None else self._groups[index][0])

    def key(self, index: int) -> bytes:
        """Return a task's digest, without reading the task."""
        return self._keys[index * KEY_BYTES : (index + 1) * KEY_BYTES]


def _log_progress(numbers: range) -> Iterator[int]:
    """Iterate over the numbers, and log the progress of reading from time to time."""
    logged_at = time.monotonic()
    for number in numbers:
        if time.monotonic() - logged_at > _LOG_EVERY_S:
            logged_at = time.monotonic()
            logger.info(
                "reading, and checking before the first call: %s of %s",
                f"{number:,}",
                f"{len(numbers):,}",
            )
        yield number


def _join_group(tasks: Sequence[ScoreTask], reader: RowReader) -> ScoreTask:
    """Join the tasks of a group's rows to one, with the response of each row.

    Raises:
        DataError: the rows differ in prompt, reference, rubric, baseline or context.
    """
    first = tasks[0]
    for task in tasks[1:]:
        for name in ("prompt", "images", "levels", "repeat", *TASK_FIELDS):
            if getattr(task.judge_task, name) != getattr(first.judge_task, name):
                row, column = reader.rows[task.rows[0]], reader.settings.group_by
                raise row.error(
                    f"has the same {column} (--group_by) as row {first.rows[0] + 1}, and another "
                    f"{name}"
                )
    responses, traces = (
        tuple(getattr(task.judge_task, name) for task in tasks) for name in ("response", "trace")
    )
    judge_task = replace(first.judge_task, responses=responses, traces=traces).number_images()
    rows = tuple(task.rows[0] for task in tasks)
    return ScoreTask(rows, judge_task, False, tuple(task.category[0] for task in tasks))
