"""Score batches of rows: the first batch opens a client, and its rows are judged concurrently.

Guarantees: the added values are those that `judgegym score` writes for the same rows. Identical
rows of a batch are judged once. A failed judge is a null with its status. A row that cannot be
judged is an error that names the row and the columns found. A copy in another process has the
settings alone, in a form that is the same for equal settings.

Kinds of batches: a dictionary of columns (lists; numpy arrays, Ray Data's default), a pyarrow
Table, a pandas DataFrame, and the lazy batch of `datasets.map`. A lazy batch is treated as the
Arrow table that it holds: no column is decoded, and an added column keeps its type in a batch that
has only nulls in it.

Sources: ray 2.60 (`data/block.py`), datasets 5.2 (`formatting/formatting.py`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeAlias

import orjson

from judgegym.api.session import stand_in_settings
from judgegym.data.arrow import ArrowRows
from judgegym.data.rows import DataSet
from judgegym.datasets.cluster.actors import open_scorer
from judgegym.datasets.cluster.result_ledger import ResultLedger
from judgegym.datasets.cluster.settings import BatchSettings, divide_limits, judge_digest
from judgegym.datasets.files.columns import AddedColumns, is_number, judged_values
from judgegym.datasets.rows.questions import Questions
from judgegym.datasets.rows.reader import check_same_columns
from judgegym.datasets.rows.schema import RESPONSES_OF_ROW
from judgegym.datasets.rows.task import KEY_BYTES, ScoreTask
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.engine.loop import run_workers
from judgegym.engine.settings.policy import STAND_IN_JUDGE
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.core.event_loop import BackgroundLoop
from judgegym.judges.core.tasks import (
    ResponseJudgment,
    TaskJudge,
    judge_responses,
    remove_task_thinking,
    score_or_fail,
)
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON

Batch: TypeAlias = Any
"""A batch of any kind: the libraries' types are not imported here."""

_EXPECTED = "expected a batch of columns: a dictionary, a pyarrow Table or a pandas DataFrame"
_BATCH = "the batch"


class BatchScorer:
    """Scores batches with a share of the endpoint's limits."""

    def __init__(
        self, settings: Mapping[str, object], *, parts: int = 1, parts_setting: str = "parts"
    ) -> None:
        """Check the settings; nothing is opened before the first batch.

        Args:
            settings: settings of `judgegym score` by name, and `ledger`.
            parts: the most processes that call the endpoint at once; each gets an equal share of
                its limits.
            parts_setting: the caller's name for that number, for messages.

        Raises:
            SettingsError: a setting is unknown or wrong, or a limit is lower than the number of
                parts.
        """
        self.settings = BatchSettings.from_values(settings)
        self.parts, self._parts_setting = parts, parts_setting
        self.share = divide_limits(self.settings, parts, parts_setting)
        self._several: bool | None = None
        self._columns: Sequence[str] = ()
        self._verdicts = Questions(self.settings).columns
        self._stack: AsyncExitStack | None = None
        self._scorer: TaskJudge | None = None
        self._ledger: ResultLedger | None = None
        self._digest = ""
        self._loop = BackgroundLoop()

    def __repr__(self) -> str:
        """Return the judge's name, without secrets."""
        return (
            f"<score: {self.settings.judge} judge {self.settings.judge_name()}, 1 of {self.parts}>"
        )

    def __call__(self, batch: Batch) -> Batch:
        """Score a batch.

        Args:
            batch: a batch of one of the kinds that the module lists.

        Returns:
            The batch, of the same kind, with the columns of `files/columns.py`.

        Raises:
            DataError: a row cannot be judged, or has a list of responses where earlier rows had
                one response, or has scores already.
            SettingsError: the judge cannot be opened.
        """
        rows = list_rows(batch)
        results = self._loop.run(self._score_rows(rows)) if rows else []
        columns = AddedColumns(self._several or False, verdicts=self._verdicts)
        added = [
            columns.table_values(
                columns.make_row_values(
                    [_response_values(result, columns) for result in row_results]
                )
            )
            for row_results in results
        ]
        return add_columns(
            batch,
            {name: [row_values[name] for row_values in added] for name in columns.names},
            columns,
        )

    async def _score_rows(self, rows: Sequence[Mapping[str, JSON]]) -> list[list[ResponseJudgment]]:
        """Return the judgments of each row's responses, in their order."""
        scorer = await self._open()
        tasks = ScoreTasks(DataSet(_BATCH, rows), self.share, scorer.check)
        tasks.require_all()
        if self._several not in (None, tasks.several):
            raise DataError(
                f"{_BATCH}: its rows have {RESPONSES_OF_ROW[tasks.several]}, and those of an "
                f"earlier batch {RESPONSES_OF_ROW[self._several or False]}; expected the same in "
                "all rows"
            )
        columns_read = tasks.reader.first.columns
        check_same_columns(
            tasks.reader.rows[0], columns_read, self._columns or columns_read, "an earlier batch"
        )
        self._several, self._columns = tasks.several, columns_read
        # Questions that all rows of one batch share may differ in the next; whether there is
        # such a column is the same in all batches.
        self._verdicts = tasks.questions.batch_columns(tasks.reader.columns)
        results: list[list[ResponseJudgment]] = [[] for _ in range(len(tasks))]
        todo = iter([number for number, first in enumerate(tasks.first_equal) if number == first])

        async def worker() -> None:
            for number in todo:
                results[number] = await self._judge_task(scorer, tasks[number])

        in_flight = min(len(tasks), self.share.units_in_flight)
        await run_workers(worker() for _ in range(in_flight))
        return [results[first] for first in tasks.first_equal]

    async def _judge_task(self, scorer: TaskJudge, task: ScoreTask) -> list[ResponseJudgment]:
        judge_task = remove_task_thinking(task.judge_task, scorer.settings)
        key = bytes.fromhex(judge_task.key(self._digest))[:KEY_BYTES]
        recorded = None if self._ledger is None else self._ledger.find(key)
        if recorded is not None:
            return recorded
        results = await score_or_fail(partial(judge_responses, scorer), judge_task, task.uid)
        if self._ledger is not None:
            self._ledger.append(key, results)
        return results

    async def _open(self) -> TaskJudge:
        if self._scorer is not None:
            return self._scorer
        settings, offline = self.share, self.share.offline
        async with AsyncExitStack() as stack:  # closes what is open if the judge cannot be opened
            if settings.ledger is not None:
                self._ledger = await asyncio.to_thread(ResultLedger, settings.ledger)
                stack.callback(self._ledger.close)
            if offline:
                settings = await stand_in_settings(stack, settings)
                settings = settings.model_copy(
                    update={"judge_model_name": STAND_IN_JUDGE}
                )  # as in `judgegym score`
            self._scorer = await open_scorer(stack, settings, STAND_IN_IDENTITY if offline else "")
            self._digest, self._stack = judge_digest(settings, offline=offline), stack.pop_all()
        self._loop.close_at_exit(self._close)
        return self._scorer

    async def _close(self) -> None:
        stack, self._stack, self._scorer = self._stack, None, None
        if stack is not None:
            await stack.aclose()

    def close(self) -> None:
        """Close the connections, as the end of the process does; the next batch reopens them."""
        if self._stack is not None:
            self._loop.forget(self._close)
            self._loop.run(self._close())

    def __getstate__(self) -> str:
        """Return the settings as text: equal for equal settings, and without open connections."""
        return orjson.dumps([self.settings.to_values(), self.parts, self._parts_setting]).decode()

    def __setstate__(self, state: str) -> None:
        """Prepare the scorer with these settings, in another process."""
        settings, parts, parts_setting = orjson.loads(state)
        BatchScorer.__init__(self, settings, parts=parts, parts_setting=parts_setting)


def _response_values(result: ResponseJudgment, columns: AddedColumns) -> Mapping[str, JSON]:
    fields = (result.score, result.status, result.label, result.explanation, result.components)
    return judged_values(*fields, verdicts=result.verdicts, columns=columns.verdicts)


def list_rows(batch: Batch) -> list[dict[str, JSON]]:
    """Return the rows of a batch.

    Raises:
        SettingsError: the batch is not one of columns.
        DataError: its columns differ in length.
    """
    table = _arrow_table(batch)
    if table is not None:
        return [dict(row) for row in ArrowRows(table)]
    if _is_frame(batch):
        objects = batch.astype(object)
        return _transpose_columns(
            {
                name: objects[name].where(batch[name].notna(), None).tolist()
                for name in batch.columns
            }
        )
    if isinstance(batch, Mapping):
        return _transpose_columns(batch)
    raise SettingsError(f"{_EXPECTED}; found {type(batch).__name__}")


def add_columns(batch: Batch, values: Mapping[str, Sequence[JSON]], columns: AddedColumns) -> Batch:
    """Return the batch, of the same kind, with the added columns.

    Raises:
        DataError: it has a column of one of the names.
    """
    table = _arrow_table(batch)
    present = table.column_names if table is not None else list(batch.keys())
    taken = [name for name in values if name in present]
    if taken:
        raise DataError(
            f"the batch has a column {taken[0]} already; leave out the scored columns, or rename "
            "them"
        )
    if table is not None:
        pyarrow = sys.modules["pyarrow"]
        for name, kind in columns.arrow_types().items():
            table = table.append_column(name, pyarrow.array(values[name], kind))
        return table
    if _is_frame(batch):
        pandas = sys.modules["pandas"]
        kinds = {
            name: "float64" if is_number(name) and not columns.several else "object"
            for name in values
        }
        return batch.assign(
            **{
                name: pandas.Series(list(entries), index=batch.index, dtype=kinds[name])
                for name, entries in values.items()
            }
        )
    numpy = sys.modules.get("numpy")
    if numpy is not None and any(isinstance(column, numpy.ndarray) for column in batch.values()):
        arrays = {name: _object_array(numpy, entries) for name, entries in values.items()}
        return {**batch, **arrays}
    return {**batch, **{name: list(entries) for name, entries in values.items()}}


def _arrow_table(batch: Batch) -> Any:
    """Return the Arrow table that a batch is or holds; `None` for other batches."""
    pyarrow = sys.modules.get("pyarrow")  # nobody has a batch of a library that is not imported
    if pyarrow is None:
        return None
    if type(batch).__name__ == "LazyRow":
        raise SettingsError(f"{_EXPECTED}; found a single row: map(…, batched=True)")
    table = batch if isinstance(batch, pyarrow.Table) else getattr(batch, "pa_table", None)
    if isinstance(table, pyarrow.Table):
        return table
    return None


def _is_frame(batch: Batch) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(batch, pandas.DataFrame)


def _transpose_columns(columns: Mapping[str, Any]) -> list[dict[str, JSON]]:
    values = {name: _plain(column) for name, column in columns.items()}
    single = next((name for name, column in values.items() if not isinstance(column, list)), None)
    if single is not None:
        raise SettingsError(f"{_EXPECTED}; found a single value in {single}: map(…, batched=True)")
    lengths = {name: len(column) for name, column in values.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns of the batch differ in length: {lengths}")
    count = next(iter(lengths.values()), 0)
    return [{name: column[number] for name, column in values.items()} for number in range(count)]


def _plain(value: Any) -> Any:
    """Convert numpy arrays and scalars, pandas columns and Arrow arrays to Python values."""
    if isinstance(value, str | bytes | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    for convert in ("to_pylist", "tolist"):  # Arrow; numpy and pandas
        method = getattr(value, convert, None)
        if method is not None:
            return _plain_parts(method())
    return _plain_parts(value)


def _plain_parts(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _object_array(numpy: Any, values: Sequence[JSON]) -> Any:
    """Return the values as an array of objects, in which `None` stays `None`."""
    array = numpy.empty(len(values), dtype=object)
    for number, value in enumerate(values):
        array[number] = value
    return array
