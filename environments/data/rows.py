"""Loads the rows of a dataset. A row that cannot be read is an error that names its place; no value is made up."""

from __future__ import annotations

import codecs
import csv
import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

from environments.data import provenance
from environments.data.hub import why_out_of_reach
from judges.core.seeding import derive
from judges.llm import wire
from judges.llm.errors import DataError
from judges.llm.wire import JSON

logger = logging.getLogger(__name__)

Split = Literal["train", "eval"]

FILE_KINDS = (".jsonl", ".json", ".csv", ".parquet")
_UID_COLUMNS = ("uid", "question_id", "id")


class Task(Protocol):
    """The fields that the task of every environment has."""

    @property
    def uid(self) -> str:
        """The row's id, unique in its dataset."""

    @property
    def category(self) -> str | None:
        """The category for metrics by category."""

    @property
    def question(self) -> str:
        """The text that identifies the row in reports."""


TaskT = TypeVar("TaskT", bound=Task)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a dataset, with its source and its number (from 1)."""

    source: str
    number: int
    values: Mapping[str, JSON]

    @property
    def place(self) -> str:
        """File and row, for messages."""
        return f"{self.source}, row {self.number}"

    def uid(self) -> str:
        """The row's id.

        Raises:
            DataError: none of the usual columns has one.
        """
        uid = self._id()
        if uid is None:
            raise self.lacks(f"an id in {' or '.join(_UID_COLUMNS)}")
        return uid

    def uid_or_number(self) -> str:
        """The row's id, or `row-<number>` if the usual columns have none."""
        return self._id() or f"row-{self.number}"

    def _id(self) -> str | None:
        ids = (self.values.get(column) for column in _UID_COLUMNS)
        return next((str(value) for value in ids if isinstance(value, str | int) and str(value)), None)

    def text(self, *columns: str) -> str:
        """The text of the first of `columns` that has one.

        Raises:
            DataError: none has.
        """
        text = self.optional_text(*columns)
        if text is None:
            raise self.lacks(f"text in {' or '.join(columns)}")
        return text

    def optional_text(self, *columns: str) -> str | None:
        """The text of the first of `columns` that has one, or `None`."""
        for column in columns:
            value = self.values.get(column)
            if isinstance(value, str) and (value or not self._is_of_table):
                return value
        return None

    def filled_text(self, *columns: str) -> str | None:
        """The text of the first of `columns` that has more than white space, or `None`."""
        texts = (self.optional_text(column) for column in columns)
        return next((text for text in texts if text is not None and text.strip()), None)

    @property
    def _is_of_table(self) -> bool:
        """Whether an empty text means that there is none, as in a CSV file, which has no null."""
        return self.source.lower().endswith(".csv")

    def lacks(self, what: str) -> DataError:
        """The error for something that the row should have but has not."""
        return DataError(f"{self.place}: expected {what}; columns found: {', '.join(self.values) or 'none'}")


def load_rows(source: str, *, split: str) -> list[Row]:
    """The rows of a dataset, in its own order.

    JSON is parsed line by line and not loaded as a table, because a table infers types: text that looks like a date or
    a number would be converted.

    Args:
        source: a JSONL, JSON, CSV or Parquet file, or a dataset's name on the Hugging Face hub.
        split: the split of a hub dataset; ignored for a file.

    Returns:
        At least one row. Lone surrogates in texts are replaced by U+FFFD.

    Raises:
        DataError: the dataset cannot be loaded or is empty; the message names the file and, if one is wrong, the row.
    """
    path = Path(source).expanduser()
    kind = path.suffix.lower()
    if kind not in FILE_KINDS:
        table = _load_from_hub(source, split)
    elif not path.is_file():
        raise DataError(f"{source}: there is no such file")
    elif kind == ".jsonl":
        table = _load_lines(path)
    elif kind == ".json":
        table = _load_json(path)
    else:
        table = _load_table(path)
    values = list(table)
    if not values:
        raise DataError(f"{source}: no rows")
    provenance.record(source, values, path=path if kind in FILE_KINDS else None, split=split)
    return [Row(source, number, row) for number, row in enumerate(values, start=1)]


def _load_lines(path: Path) -> list[Mapping[str, JSON]]:
    rows: list[Mapping[str, JSON]] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                rows.append(_object(line, f"{path}, row {number}"))
    return rows


def _load_json(path: Path) -> list[Mapping[str, JSON]]:
    """The rows of a JSON file: a list of objects, or one object per line."""
    data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    if not data.lstrip().startswith(b"["):
        return _load_lines(path)
    try:
        values = cast("list[JSON]", wire.loads(data))
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    for number, value in enumerate(values, start=1):
        if not isinstance(value, Mapping):
            raise DataError(f"{path}, row {number}: expected an object, found {type(value).__name__}")
    return cast("list[Mapping[str, JSON]]", values)


def _object(line: bytes, place: str) -> Mapping[str, JSON]:
    try:
        value = wire.loads(line)
    except ValueError as error:
        raise DataError(f"{place}: not JSON: {error}") from error
    if not isinstance(value, Mapping):
        raise DataError(f"{place}: expected an object, found {type(value).__name__}")
    return value


def _load_table(path: Path) -> Iterable[Mapping[str, JSON]]:
    datasets = _datasets()
    if not path.read_bytes().strip():
        return []
    try:
        # A temporary cache: the library's own cache may return the rows of an earlier version of the file.
        with tempfile.TemporaryDirectory() as cache:
            if path.suffix.lower() == ".csv":
                table = datasets.Dataset.from_csv(
                    str(path), features=_all_text(path), keep_default_na=False, cache_dir=cache
                )
            else:
                table = datasets.Dataset.from_parquet(str(path), cache_dir=cache)
            return list(table)
    except Exception as error:  # pandas and pyarrow each raise their own kinds
        if _is_header_alone(path):
            return []
        raise DataError(f"{path}: cannot be loaded: {_first_line(error)}") from error


def _all_text(path: Path) -> Any:
    """Features that load every column of a CSV file as text.

    Raises:
        ValueError: a row has more fields than the header, which the loader would read one column off.
    """
    import datasets  # late: the import takes a second and a half

    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines)
        columns = next(reader)
        for number, fields in enumerate(reader, start=1):
            if len(fields) > len(columns):
                raise ValueError(f"row {number} has {len(fields)} fields, and the header names {len(columns)} columns")
    return datasets.Features({column: datasets.Value("string") for column in columns})


def _is_header_alone(path: Path) -> bool:
    """Whether a CSV file has only a header, for which the loader raises an error."""
    return path.suffix.lower() == ".csv" and len(path.read_bytes().split(b"\n", 2)) < 3


def _load_from_hub(name: str, split: str) -> Iterable[Mapping[str, JSON]]:
    unreachable = why_out_of_reach()
    datasets = _datasets()
    try:
        return list(datasets.load_dataset(name, split=split))
    except Exception as error:  # the hub, the network and the dataset's own files each raise their own kinds
        why = _first_line(error)
        if unreachable is not None:
            why += f" (the hub cannot be reached: {unreachable}; what is not in the cache is not there)"
        raise DataError(
            f"{name}: cannot be loaded from the Hugging Face hub (split {split!r}): {why}; "
            f"a local file needs one of the endings {', '.join(FILE_KINDS)}"
        ) from error


def _datasets() -> Any:
    import datasets  # late: the import takes a second and a half

    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(logging.CRITICAL)  # our errors contain the library's
    return datasets


def _first_line(error: BaseException) -> str:
    """The first line of an error's cause or, without one, of the error itself."""
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def by_uid(rows: Sequence[Row], *, numbered: bool = False) -> dict[str, Row]:
    """Rows by their id.

    Args:
        rows: the rows of one dataset.
        numbered: give a row without an id its number as id.

    Raises:
        DataError: two rows have the same id, or one has none.
    """
    by_id: dict[str, Row] = {}
    for row in rows:
        uid = row.uid_or_number() if numbered else row.uid()
        if uid in by_id:
            raise DataError(f"{row.place}: the id {uid!r} is also that of row {by_id[uid].number}")
        by_id[uid] = row
    return by_id


def load_answers(path: Path, tasks: Sequence[Task]) -> dict[str, str]:
    """Existing answers to score, by uid.

    Args:
        path: JSONL with `uid` and `answer`, or with `messages` as Arena-Hard-Auto writes them.
        tasks: the tasks that need an answer.

    Raises:
        DataError: the file cannot be loaded, or lacks the answer to a row; leaving the row out would change the result.
    """
    rows = by_uid(load_rows(str(path), split="train"))
    missing = [task.uid for task in tasks if task.uid not in rows]
    if missing:
        raise DataError(f"{path}: no answer for {len(missing)} of {len(tasks)} rows, such as {missing[0]!r}")
    return {task.uid: answer_text(rows[task.uid]) for task in tasks}


def answer_text(row: Row) -> str:
    """The answer of a row: `answer`, or `messages[-1].content.answer` as in Arena-Hard-Auto's files.

    Raises:
        DataError: the row has neither.
    """
    answer = row.optional_text("answer")
    if answer is None:
        messages = row.values.get("messages")
        last = messages[-1] if isinstance(messages, Sequence) and messages else None
        content = last.get("content") if isinstance(last, Mapping) else None
        text = content.get("answer") if isinstance(content, Mapping) else content
        answer = text if isinstance(text, str) else None
    if answer is None:
        raise row.lacks("text in answer or messages[-1].content.answer")
    return answer


def select(tasks: Sequence[TaskT], *, limit: int | None, seed: int) -> list[TaskT]:
    """`limit` tasks in their own order; the choice depends on the seed and their ids only."""
    if limit is None or limit >= len(tasks):
        return list(tasks)
    chosen = sorted(tasks, key=lambda task: (derive(seed, task.uid, "limit"), task.uid))[:limit]
    uids = {task.uid for task in chosen}
    return [task for task in tasks if task.uid in uids]


def epoch_order(tasks: Sequence[TaskT], *, seed: int, epoch: int) -> list[TaskT]:
    """The tasks in the order of one epoch, which depends on the seed, the epoch and their ids only."""
    return sorted(tasks, key=lambda task: (derive(seed, task.uid, f"epoch {epoch}"), task.uid))
