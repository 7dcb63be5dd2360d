"""Read a row of a data set as a task.

Guarantee: if the column of the prompt or the response is null in a row, no other column that
happens to hold a text (the expected answer, a context) takes its place. JSON rows may have another
schema altogether.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import orjson

from judgegym.data.answers import RESPONSES, find_unused_columns
from judgegym.data.arrow import ArrowRows
from judgegym.data.rows import DataSet, Row, RowError, value_at
from judgegym.datasets.rows.schema import (
    RESPONSES_OF_ROW,
    ColumnSettings,
    Responses,
    read_responses,
    read_turns,
)
from judgegym.datasets.rows.task import JudgedResponse, ScoreTask, ToSample
from judgegym.judges.conversations.turns import list_images
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.scorers.columns import USUAL_COLUMNS, find_columns
from judgegym.judges.scorers.fields import FieldTypeError, make_judge_task
from judgegym.judges.scorers.registry import TASK_FIELDS
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.wire import JSON

MOST_REPEATS = 1_000
"""The highest number allowed in the column of repeats."""
ReadEarlier: TypeAlias = Callable[[Row], tuple[JudgedResponse, ...]]
"""Reads the responses that an earlier run has sampled for a row."""


class RowReader:
    """Reads rows as tasks."""

    def __init__(
        self,
        rows: Sequence[Row],
        settings: ColumnSettings,
        sampled: int | None = None,
        earlier: ReadEarlier | None = None,
    ) -> None:
        """Read from `rows`.

        Args:
            rows: the whole data set.
            settings: the columns.
            sampled: the number of responses to sample, in place of those of the data.
            earlier: reads the responses that an earlier run has sampled, in place of those of the
                data.

        Raises:
                DataError: a named column is in no row, or the column of groups is not in the first
                    row.
        """
        self.rows = rows
        self.settings = settings
        self.sampled = sampled
        self._earlier = earlier
        self.unused_columns: set[str] = set()
        """Columns that look as if they were meant for the judge, but that it is not shown."""
        first = rows[0]
        named_columns = {
            name: getattr(settings, f"{name}_column") for name in (*TASK_FIELDS, "category")
        }
        self._named_columns = {
            name: column for name, column in named_columns.items() if column is not None
        }
        for name, column in self._named_columns.items():
            if not _has_column(rows, column):
                raise first.missing_error(f"a column {column} (--{name}_column)")
        by = settings.group_by
        if by is not None and first.value(by) is None and by not in first.values:
            raise first.missing_error(f"a column {by} (--group_by)")
        if settings.repeat_column is not None and not _has_column(rows, settings.repeat_column):
            raise first.missing_error(f"a column {settings.repeat_column} (--repeat_column)")
        self.first = self._first_readable()
        if isinstance(settings, AnyJudgeSettings):
            self._hidden_fields = {*TASK_FIELDS} - settings.shown_fields
        else:
            self._hidden_fields = set()
        """Fields that the judge is not shown."""
        left_out = {*self._named_columns, *({"context", "criteria"} & self._hidden_fields)}
        self._unnamed_fields = [name for name in TASK_FIELDS if name not in left_out]
        self._taken = {*self.first.columns, *self.first.parts}
        """Columns of the prompt and the responses; they are not read as other fields."""

    def _columns(self, values: Mapping[str, JSON], *, null: bool = False) -> dict[str, str]:
        """Return the column of each field of a task; with `null`, also columns that are null."""
        free = {name: value for name, value in values.items() if name not in self._taken}
        column_by_field = find_columns(free, self._unnamed_fields)
        if null:
            null_columns = {name for name, value in free.items() if value is None}
            for name in self._unnamed_fields:
                usual_columns = [column for column in USUAL_COLUMNS[name] if column in null_columns]
                if usual_columns and usual_columns[0] not in column_by_field.values():
                    column_by_field.setdefault(name, usual_columns[0])
        column_by_field |= self._named_columns
        return {name: column_by_field[name] for name in TASK_FIELDS if name in column_by_field}

    @property
    def columns(self) -> Mapping[str, str]:
        """The column of each field, for a message; unnamed columns are those of the first row.

        Columns that are empty in all of the first rows are left out.
        """
        first = self.rows[0].values
        filled = set[str]()
        for number in range(min(_FIRST_ROWS, len(self.rows))):
            values = self.rows[number].values
            filled.update(name for name, value in values.items() if value not in _EMPTY_VALUES)
        is_prompt_alone = self.sampled is not None or self._earlier is not None
        content = "prompt" if is_prompt_alone else "prompt and responses"
        read_columns = {content: ", ".join(self.first.columns)}
        for name, column in self._columns(first, null=True).items():
            if column.partition(".")[0] in filled and self._is_read(name, value_at(first, column)):
                read_columns[name] = column
        return read_columns

    def _is_read(self, name: str, value: JSON) -> bool:
        """Return whether a field is read: its column is named, or has a value of its type."""
        return name in self._named_columns or _can_be_read(name, value)

    def _first_readable(self) -> Responses:
        """Read the first readable row, with which the others are compared.

        Raises:
            DataError: no row can be read; this is the first row's error.
        """
        for row in self.rows:
            try:
                return self._read_responses(row)
            except RowError:
                continue
        return self._read_responses(self.rows[0])

    def _read_responses(self, row: Row) -> Responses:
        if self.sampled is None and self._earlier is None:
            responses = read_responses(row, self.settings)
        else:
            earlier = () if self._earlier is None else self._earlier(row)
            texts = tuple(response.text for response in earlier)
            responses = replace(
                read_turns(row, self.settings), texts=texts, several=True, earlier=earlier
            )
        if not responses.prompt.strip():
            prompts = [
                column for column in responses.columns if column not in RESPONSES
            ] or responses.columns
            raise row.error(
                f"expected a prompt with some text in {', '.join(prompts)}, and there is none; "
                "name the column: --prompt_column"
            )
        return responses

    def task(self, number: int) -> ScoreTask:
        """Read a row as a task.

        Raises:
            DataError: the row lacks something, has another form than the first row, or a column
                holds something else than text.
        """
        row = self.rows[number]
        responses = self._read_responses(row)
        if responses.several != self.first.several:
            raise row.error(
                f"has {RESPONSES_OF_ROW[responses.several]}, and the first row has "
                f"{RESPONSES_OF_ROW[self.first.several]}; expected the same in all rows"
            )
        check_same_columns(row, responses.columns, self.first.columns, "the first row")
        judge_task = self._judge_task(row, responses)
        to_sample = None if self.sampled is None else ToSample(responses.turns, self.sampled)
        return ScoreTask(
            (number,),
            judge_task,
            responses.several,
            (self._category(row),),
            responses.chosen,
            to_sample,
            responses.earlier,
        )

    def _judge_task(self, row: Row, responses: Responses) -> JudgeTask:
        """Return what the judge is shown of a row, and record the columns that it is not shown."""
        filled = row.filled_values()
        columns = self._columns(filled)
        fields = {name: value_at(filled, column) for name, column in columns.items()}
        setting_names = ""
        try:
            try:
                judge_task = make_judge_task(responses.prompt, responses.texts, fields)
            except FieldTypeError:  # a column with a usual name may hold something else
                fields = {
                    name: value for name, value in fields.items() if self._is_read(name, value)
                }
                setting_names = ", ".join(
                    f"--{name}_column={self._named_columns[name]}"
                    for name in fields
                    if name in self._named_columns
                )
                judge_task = make_judge_task(responses.prompt, responses.texts, fields)
        except ValueError as error:
            column = columns.get(
                re.split(r"\W", str(error), maxsplit=1)[0]
            )  # it begins with a field's name
            raise row.error(
                f"{error} ({setting_names})" if setting_names else str(error), column
            ) from None
        shown = [columns[name] for name in fields if name not in self._hidden_fields]
        settings = self.settings
        setting_columns = filter(
            None, (settings.category_column, settings.group_by, settings.repeat_column)
        )
        self.unused_columns.update(
            find_unused_columns(
                filled, {*responses.columns, *responses.parts, *shown, *setting_columns}
            )
        )
        judge_task = replace(
            judge_task,
            traces=responses.traces,
            tools=responses.tools,
            images=list_images(responses.turns),
        )
        return replace(judge_task.number_images(), repeat=self._repeat(row))

    def _repeat(self, row: Row) -> int:
        column = self.settings.repeat_column
        value = 0 if column is None else row.value(column)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_REPEATS:
            raise row.error(
                f"expected a whole number from 0 to {MOST_REPEATS} in {column} (--repeat_column)",
                column,
            )
        return value

    def category(self, number: int) -> str | None:
        """Return a row's category; without `--category_column` the row is not read."""
        if self.settings.category_column is None:
            return None
        return self._category(self.rows[number])

    def _category(self, row: Row) -> str | None:
        column = self.settings.category_column
        value = None if column is None else row.value(column)
        if value is None or isinstance(value, str):
            return value
        return orjson.dumps(value, default=str).decode()


_EMPTY_VALUES: Sequence[JSON] = (None, "", [], {})
_FIRST_ROWS = 100


def _can_be_read(name: str, value: JSON) -> bool:
    """Return whether a field of a `JudgeTask` can have a value of this type."""
    try:
        make_judge_task("", (), {name: value})
    except FieldTypeError:
        return False
    except ValueError:
        return True
    return True


def check_same_columns(
    row: Row, columns: Sequence[str], expected: Sequence[str], expected_source: str
) -> None:
    """Check that a row is read from the expected columns, or has none of them (another schema).

    Args:
        row: the row.
        columns: the columns from which it is read.
        expected: the columns of the other row.
        expected_source: a name of the other row, for the message.

    Raises:
        DataError: it has some of the columns, perhaps as null, and is read from others. (Rows with
            chosen and rejected may have their prompt in a column or in the conversations.)
    """
    differ = set(columns) ^ set(expected)
    if not differ or (differ == {"prompt"} and "chosen" in columns):
        return
    if any(column in row.values for column in expected):
        column_names = ", ".join(columns)
        expected_names = ", ".join(expected)
        raise row.error(
            f"would be read from {column_names}, and {expected_source} from {expected_names}; "
            "expected the same in all rows; fill what is null, or name the columns: "
            "--prompt_column, --response_column"
        )


def _has_column(rows: Sequence[Row], column: str) -> bool:
    """Return whether any row has a column or path; for a table the first row suffices."""
    is_table = (
        isinstance(rows, DataSet) and isinstance(rows.values, ArrowRows) and "." not in column
    )
    return any(
        row.value(column) is not None or column in row.values
        for row in (rows[:1] if is_table else rows)
    )
