"""What every judge for scripts and notebooks has: it judges many rows at once, and tells what it has judged."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from judgegym.api.group_judges import Messages, conversation
from judgegym.api.results import EMPTY, NOT_JUDGED, OWN_COLUMNS, JudgmentTable
from judgegym.api.session import WithSession, in_sync, listed, text
from judgegym.judges.conversations.messages import answer_turns, render_completion
from judgegym.judges.conversations.turns import Turn, UnseenPart
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.judge import Judge, SingleJudge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask, TaskError, answered
from judgegym.llm.at_once import all_results
from judgegym.llm.errors import DataError, RunStop

logger = logging.getLogger(__name__)

_NEARLY = 0.88
"""How similar a column's name is to that of an argument for which it is a mistake."""
_LINES = 10
"""How many lines of progress there are."""
Answers: TypeAlias = str | Sequence[str | Messages]
"""Answers of a question, each a text or a list of messages; one text is one answer."""
DetailT = TypeVar("DetailT")


def _answer(value: object, name: str) -> tuple[str, tuple[Turn, ...]]:
    """An answer as a text, and its turns if it came as messages.

    Raises:
        DataError: it is neither a text nor messages, or a judge is not shown all of it.
    """
    given = conversation(value, name)
    try:
        return render_completion(given), answer_turns(given)
    except UnseenPart as error:
        raise DataError(f"{name}: {error}") from None


class OpenJudge(WithSession[Judge[DetailT]], Generic[DetailT]):
    """A judge that judges each answer by itself: a text, or a conversation as a list of messages."""

    _last: (
        tuple[Sequence[str], Sequence[Judgment[DetailT] | None], Sequence[Mapping[str, object]]]
        | None
    ) = None
    _not_judged: ClassVar[Judgment[Any]] = Judgment(
        None, Status.JUDGE_FAILED, explanation=NOT_JUDGED
    )
    _task: Callable[..., JudgeTask]
    """Makes the task of `question`, `answer` and what else the judge is told."""

    async def many(
        self, rows: Iterable[Mapping[str, object]], *, progress: bool = True
    ) -> JudgmentTable[DetailT]:
        """Judge one answer to each of many questions, all at once, up to `judge_max_concurrency`.

        Args:
            rows: for each answer the arguments of `judge` by name, with `answer` in place of
                `answers`, such as `{"question": …, "answer": …}`. Other columns, such as an id, are
                not read, which one line says, and come back in the table; a name that is nearly one
                of an argument is an error. A table of pandas gives them with
                `table.to_dict("records")`.
            progress: write a line to standard error for each tenth of the rows.

        Returns:
            A judgment for each row, in order; its `failures` and `cost` are those of all.

        Raises:
            DataError: a row has no question or answer, a misspelt argument, or a column of the
                table's own name.
            RunStop: the endpoint answers no call any more. `table` of the error has all rows: those
                that were judged before, and the others as failed.
        """
        parameters = {
            name: each for name, each in self._parameters.items() if name not in self._unseen
        }
        answers, tasks, columns = list[str](), list[JudgeTask](), list[Mapping[str, object]]()
        unused: dict[str, None] = {}
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise DataError(
                    f"rows[{number}]: expected a mapping by name, found a {type(row).__name__}"
                )
            others = [str(name) for name in row if name not in parameters]
            unknown = [
                name for name in others if get_close_matches(name, parameters, n=1, cutoff=_NEARLY)
            ]
            taken = [
                name
                for name in others
                if name in OWN_COLUMNS or name.startswith(("aspect/", "criterion/"))
            ]
            needed = (name for name, each in parameters.items() if each.default is each.empty)
            lacking = [name for name in needed if name not in row]
            if unknown or lacking:
                what = f"no {lacking[0]!r}" if lacking else f"the unknown {unknown[0]!r}"
                raise DataError(
                    f"rows[{number}]: found {what}; this judge takes {', '.join(parameters)}"
                )
            if taken:
                raise DataError(
                    f"rows[{number}]: {taken[0]!r} is a column of the table that comes back; "
                    "rename it"
                )
            unused.update(dict.fromkeys(others))
            columns.append({str(name): value for name, value in row.items() if name != "answer"})
            try:
                given = {str(name): value for name, value in row.items() if name in parameters}
                asked, answer = (
                    text(given.pop("question"), "question"),
                    _answer(given.pop("answer"), "answer"),
                )
                answers.append(answer[0])
                tasks.append(self._shown(asked, answer, given))
            except DataError as error:
                raise DataError(f"rows[{number}].{error}") from None
        if unused:
            logger.warning(
                "columns that this judge does not read, and that come back in the table: %s",
                ", ".join(unused),
            )
        return await BACKGROUND.join(
            self._judge_rows(answers, tasks, columns, place="rows[{}].", progress=progress)
        )

    many_sync = in_sync(many)

    async def _judged(
        self, question: str, answers: Answers, **context: object
    ) -> JudgmentTable[DetailT]:
        given, asked = listed(answers, "answers", _answer), text(question, "question")
        tasks = [self._shown(asked, answer, context) for answer in given]
        unseen = next(
            (name for name in context if name in self._unseen and context[name] is not None), None
        )
        if unseen is not None:
            seen = (name for name in self._parameters if name not in self._unseen)
            raise DataError(
                f"{unseen}: this judge is not shown it, but {', '.join(seen)}; leave it out"
            )
        columns = [{"question": asked}] * len(given)
        return await BACKGROUND.join(self._judge_rows([said for said, _ in given], tasks, columns))

    def _shown(
        self, question: str, answer: tuple[str, tuple[Turn, ...]], context: Mapping[str, Any]
    ) -> JudgeTask:
        """The task of an answer, with its trace."""
        said, trace = answer
        task = answered(JudgeTask(question, (said,), traces=(trace,)), self.settings)
        made = self._task(task.prompt, task.response, **context)
        return replace(made, traces=task.traces, written=task.written)

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        """What a row may have."""
        return inspect.signature(self._task).parameters

    @property
    def _unseen(self) -> frozenset[str]:
        """Of these, what the judge is not shown as its settings are."""
        return frozenset()

    @property
    def last_table(self) -> JudgmentTable[DetailT] | None:
        """What the last call has judged, also one that was interrupted or has failed; the other rows as failed."""
        return None if self._last is None else self._table(*self._last)

    def _table(
        self,
        answers: Sequence[str],
        judgments: Sequence[Judgment[DetailT] | None],
        columns: Sequence[Mapping[str, object]],
    ) -> JudgmentTable[DetailT]:
        found = tuple(judgment or self._not_judged for judgment in judgments)
        return JudgmentTable(tuple(answers), found, columns=tuple(columns))

    async def _judge_rows(
        self,
        answers: Sequence[str],
        tasks: Sequence[JudgeTask],
        columns: Sequence[Mapping[str, object]],
        *,
        place: str = "",
        progress: bool = False,
    ) -> JudgmentTable[DetailT]:
        """Judge each answer, all at once; an empty one without asking.

        Raises:
            DataError: a task lacks something that the judge needs; `place` with its number begins
                the message.
            RunStop: no call can be made any more; its `table` has what was judged.
        """
        judge = await self._opened()
        for number, task in enumerate(tasks):
            try:
                if isinstance(judge, SingleJudge):  # a judge of one's own has no checks
                    judge.check(task)
            except TaskError as error:
                raise DataError(f"{place.format(number)}{error}") from None
        judgments: list[Judgment[DetailT] | None] = [None] * len(answers)
        self._last = answers, judgments, columns
        done = failed = 0

        async def one(place: int) -> None:
            nonlocal done, failed
            is_blank = not self.settings.shown(answers[place]).text.strip()
            judgment = EMPTY if is_blank else await judge.judge(tasks[place])
            if judgment.status.is_failure:
                judgment = replace(judgment, explanation=self._name_arguments(judgment.explanation))
            judgments[place] = judgment
            done += 1
            failed += judgment.status.is_failure
            is_line = done == len(answers) or done * _LINES // len(answers) > (
                done - 1
            ) * _LINES // len(answers)
            if progress and is_line:
                sys.stderr.write(f"judged {done:,} of {len(answers):,} rows, {failed:,} failed\n")

        try:
            await all_results(map(one, range(len(answers))))
        except RunStop as stop:
            table = stop.table = self._table(answers, judgments, columns)
            how = (
                ""
                if self.settings.judge_cache
                else "; with judge_cache=FILE they would not be paid for again"
            )
            rest = "its failures are the places of the rows to judge again"
            stop.args = (
                f"{self._name_arguments(str(stop))}\n{table.judged_words}: `table` of this error "
                f"has them{how}; {rest}",
            )
            raise
        return self._table(answers, judgments, columns)
