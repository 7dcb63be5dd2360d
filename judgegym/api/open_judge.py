"""The base of single judges for scripts and notebooks: judges many rows at once."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from judgegym.api.group_judges import Messages, validate_conversation
from judgegym.api.results import EMPTY, NOT_JUDGED, TABLE_COLUMNS, JudgmentTable
from judgegym.api.session import JudgeSession, check_text, make_sync, read_list
from judgegym.judges.conversations.messages import completion_turns, render_completion
from judgegym.judges.conversations.turns import Turn, UnseenPart
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.judge import Judge, SingleJudge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask, TaskError, remove_task_thinking
from judgegym.llm.at_once import gather_results
from judgegym.llm.errors import DataError, RunStop

logger = logging.getLogger(__name__)

_TYPO_SIMILARITY = 0.88
"""Similarity from which a column's name counts as a misspelt argument."""
_PROGRESS_LINES = 10
"""Number of progress lines."""
Answers: TypeAlias = str | Sequence[str | Messages]
"""The answers to a question, each a text or a list of messages; a single text is one answer."""
DetailT = TypeVar("DetailT")


def _is_table_column(name: str) -> bool:
    """Return whether a table uses this column's name itself."""
    return name in TABLE_COLUMNS or name.startswith(("aspect/", "criterion/"))


def _answer(value: object, name: str) -> tuple[str, tuple[Turn, ...]]:
    """Return an answer as a text, and its turns if it came as messages.

    Raises:
        DataError: it is neither a text nor messages, or has a part that judges cannot be shown.
    """
    messages = validate_conversation(value, name)
    try:
        return render_completion(messages), completion_turns(messages)
    except UnseenPart as error:
        raise DataError(f"{name}: {error}") from None


class OpenJudge(JudgeSession[Judge[DetailT]], Generic[DetailT]):
    """A judge of single answers: texts, or conversations as lists of messages."""

    _last: (
        tuple[Sequence[str], Sequence[Judgment[DetailT] | None], Sequence[Mapping[str, object]]]
        | None
    ) = None
    _not_judged: ClassVar[Judgment[Any]] = Judgment(
        None, Status.JUDGE_FAILED, explanation=NOT_JUDGED
    )
    _task: Callable[..., JudgeTask]
    """Makes the task from `question`, `answer` and the judge's other arguments."""

    async def many(
        self, rows: Iterable[Mapping[str, object]], *, progress: bool = True
    ) -> JudgmentTable[DetailT]:
        """Judge one answer to each of many questions, at most `judge_max_concurrency` at once.

        Args:
            rows: the arguments of `judge` by name for each answer, with `answer` in place of
                `answers`, such as `{"question": …, "answer": …}`. Other columns, such as an id, are
                not read but come back in the table; one warning names them. A misspelt argument is
                an error. For a pandas table pass `table.to_dict("records")`.
            progress: write a line to standard error after each tenth of the rows.

        Returns:
            A judgment for each row, in order; `failures` and `cost` are those of all rows.

        Raises:
            DataError: a row lacks question or answer, has a misspelt argument, or has a column with
                a name that the table uses itself.
            RunStop: no further call can be made. The error's `table` has all rows; those not judged
                before count as failed.
        """
        parameters = {
            name: parameter
            for name, parameter in self._parameters.items()
            if name not in self._hidden_fields
        }
        answers = list[str]()
        tasks = list[JudgeTask]()
        columns = list[Mapping[str, object]]()
        unused: dict[str, None] = {}
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                row_type = type(row).__name__
                raise DataError(f"rows[{number}]: expected a mapping by name, found a {row_type}")
            extra_names = [str(name) for name in row if name not in parameters]
            unknown = [
                name
                for name in extra_names
                if get_close_matches(name, parameters, n=1, cutoff=_TYPO_SIMILARITY)
            ]
            reserved = [name for name in extra_names if _is_table_column(name)]
            required = (
                name for name, argument in parameters.items() if argument.default is argument.empty
            )
            missing = [name for name in required if name not in row]
            if unknown or missing:
                if missing:
                    problem = f"no {missing[0]!r}"
                else:
                    problem = f"the unknown {unknown[0]!r}"
                parameter_list = ", ".join(parameters)
                raise DataError(
                    f"rows[{number}]: found {problem}; this judge takes {parameter_list}"
                )
            if reserved:
                raise DataError(
                    f"rows[{number}]: {reserved[0]!r} is a column of the table that comes back; "
                    "rename it"
                )
            unused.update(dict.fromkeys(extra_names))
            columns.append({str(name): value for name, value in row.items() if name != "answer"})
            try:
                arguments = {str(name): value for name, value in row.items() if name in parameters}
                question = check_text(arguments.pop("question"), "question")
                answer = _answer(arguments.pop("answer"), "answer")
                answers.append(answer[0])
                tasks.append(self._make_task(question, answer, arguments))
            except DataError as error:
                raise DataError(f"rows[{number}].{error}") from None
        if unused:
            logger.warning(
                "this judge does not read these columns; the table keeps them: %s",
                ", ".join(unused),
            )
        return await BACKGROUND.join(
            self._judge_rows(answers, tasks, columns, prefix="rows[{}].", progress=progress)
        )

    many_sync = make_sync(many)

    async def _judge_answers(
        self, question: str, answers: Answers, **context: object
    ) -> JudgmentTable[DetailT]:
        parsed_answers = read_list(answers, "answers", _answer)
        question_text = check_text(question, "question")
        tasks = [self._make_task(question_text, answer, context) for answer in parsed_answers]
        given_names = [name for name, value in context.items() if value is not None]
        hidden_name = next((name for name in given_names if name in self._hidden_fields), None)
        if hidden_name is not None:
            shown_names = (name for name in self._parameters if name not in self._hidden_fields)
            shown_name_list = ", ".join(shown_names)
            raise DataError(
                f"{hidden_name}: this judge does not read it; leave it out (it reads "
                f"{shown_name_list})"
            )
        columns = [{"question": question_text}] * len(parsed_answers)
        return await BACKGROUND.join(
            self._judge_rows([response for response, _ in parsed_answers], tasks, columns)
        )

    def _make_task(
        self, question: str, answer: tuple[str, tuple[Turn, ...]], context: Mapping[str, Any]
    ) -> JudgeTask:
        """Return the task of an answer, with its trace."""
        response, trace = answer
        task = remove_task_thinking(
            JudgeTask(question, (response,), traces=(trace,)), self.settings
        )
        judge_task = self._task(task.prompt, task.response, **context)
        return replace(judge_task, traces=task.traces, written=task.written)

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        """The arguments that a row may have."""
        return inspect.signature(self._task).parameters

    @property
    def _hidden_fields(self) -> frozenset[str]:
        """The arguments that this judge does not show its model, given its settings."""
        return frozenset()

    @property
    def last_table(self) -> JudgmentTable[DetailT] | None:
        """The judgments of the last call, also if it failed or was interrupted.

        Rows that were not judged count as failed.
        """
        if self._last is None:
            return None
        return self._table(*self._last)

    def _table(
        self,
        answers: Sequence[str],
        judgments: Sequence[Judgment[DetailT] | None],
        columns: Sequence[Mapping[str, object]],
    ) -> JudgmentTable[DetailT]:
        complete = tuple(judgment or self._not_judged for judgment in judgments)
        return JudgmentTable(tuple(answers), complete, columns=tuple(columns))

    async def _judge_rows(
        self,
        answers: Sequence[str],
        tasks: Sequence[JudgeTask],
        columns: Sequence[Mapping[str, object]],
        *,
        prefix: str = "",
        progress: bool = False,
    ) -> JudgmentTable[DetailT]:
        """Judge all answers at once; empty ones are not sent to the judge.

        Raises:
            DataError: a task lacks something that the judge needs; the message begins with
                `prefix`, which names the row.
            RunStop: no further call can be made; its `table` has the judgments so far.
        """
        judge = await self._open_judge()
        for number, task in enumerate(tasks):
            try:
                if isinstance(judge, SingleJudge):  # your own judge may have no checks
                    judge.check(task)
            except TaskError as error:
                row_prefix = prefix.format(number)
                raise DataError(f"{row_prefix}{error}") from None
        judgments: list[Judgment[DetailT] | None] = [None] * len(answers)
        self._last = answers, judgments, columns
        done = failed = 0

        async def judge_row(index: int) -> None:
            nonlocal done, failed
            is_blank = not self.settings.hide_thinking(answers[index]).text.strip()
            judgment = EMPTY if is_blank else await judge.judge(tasks[index])
            if judgment.status.is_failure:
                judgment = replace(judgment, explanation=self._name_arguments(judgment.explanation))
            judgments[index] = judgment
            done += 1
            failed += judgment.status.is_failure
            is_progress_due = done == len(answers) or done * _PROGRESS_LINES // len(answers) > (
                done - 1
            ) * _PROGRESS_LINES // len(answers)
            if progress and is_progress_due:
                answer_count = len(answers)
                sys.stderr.write(f"judged {done:,} of {answer_count:,} rows, {failed:,} failed\n")

        try:
            await gather_results(map(judge_row, range(len(answers))))
        except RunStop as stop:
            table = stop.table = self._table(answers, judgments, columns)
            if self.settings.judge_cache:
                cache_hint = ""
            else:
                cache_hint = "; with judge_cache=FILE a repeated run would not pay for them again"
            retry_hint = "its `failures` are the indices of the rows to judge again"
            message = self._name_arguments(str(stop))
            stop.args = (
                f"{message}\n{table.judged_words}: `table` of this error "
                f"has them{cache_hint}; {retry_hint}",
            )
            raise
        return self._table(answers, judgments, columns)
