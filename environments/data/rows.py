"""Datasets to rows, rows to tasks. No data is ever invented: what cannot be read is an error that says where."""

from __future__ import annotations

import codecs
import csv
import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

from judges.core.seeding import derive
from judges.llm import wire
from judges.llm.errors import DataError
from judges.llm.wire import JSON

logger = logging.getLogger(__name__)

Split = Literal["train", "eval"]

FILE_KINDS = (".jsonl", ".json", ".csv", ".parquet")
_UID_COLUMNS = ("uid", "question_id", "id")


class Task(Protocol):
    """What every environment's task has."""

    @property
    def uid(self) -> str:
        """The row's id, unique in its dataset."""

    @property
    def category(self) -> str | None:
        """What per-category metrics are broken down by."""

    @property
    def question(self) -> str:
        """What a person reads to know the row."""


TaskT = TypeVar("TaskT", bound=Task)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a dataset, and where it stands (from 1)."""

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
        found = self._id()
        if found is None:
            raise self.lacks(f"an id in {' or '.join(_UID_COLUMNS)}")
        return found

    def uid_or_number(self) -> str:
        """The row's id, or `row-<number>` where the usual columns have none."""
        return self._id() or f"row-{self.number}"

    def _id(self) -> str | None:
        held = (self.values.get(column) for column in _UID_COLUMNS)
        return next((str(value) for value in held if isinstance(value, str | int) and str(value)), None)

    def text(self, *columns: str) -> str:
        """The text of the first of `columns` that has one.

        Raises:
            DataError: none has.
        """
        found = self.optional_text(*columns)
        if found is None:
            raise self.lacks(f"text in {' or '.join(columns)}")
        return found

    def optional_text(self, *columns: str) -> str | None:
        """The text of the first of `columns` that has one, or `None`."""
        for column in columns:
            value = self.values.get(column)
            if isinstance(value, str) and (value or not self._is_of_table):
                return value
        return None

    def filled_text(self, *columns: str) -> str | None:
        """The text of the first of `columns` that has any but white space, or `None`."""
        texts = (self.optional_text(column) for column in columns)
        return next((text for text in texts if text is not None and text.strip()), None)

    @property
    def _is_of_table(self) -> bool:
        """Whether an empty cell holds nothing: in a CSV file there is no other way to write that."""
        return self.source.lower().endswith(".csv")

    def lacks(self, what: str) -> DataError:
        """The error for something that a row should have."""
        return DataError(f"{self.place}: expected {what}; columns found: {', '.join(self.values) or 'none'}")


def load_rows(source: str, *, split: str) -> list[Row]:
    """The rows of a dataset, in its own order.

    JSON is read line by line and not through a table: a column has no type there, and text that looks like a date or a
    number stays the text that it is.

    Args:
        source: a JSONL, JSON, CSV or Parquet file, or a dataset's name on the Hugging Face hub.
        split: the hub dataset's split; a file has but one.

    Returns:
        At least one row. Lone surrogates in texts are replaced by U+FFFD.

    Raises:
        DataError: it cannot be loaded or is empty; names the file and, where one is at fault, the row.
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
    rows = [Row(source, number, values) for number, values in enumerate(table, start=1)]
    if not rows:
        raise DataError(f"{source}: no rows")
    return rows


def _load_lines(path: Path) -> list[Mapping[str, JSON]]:
    rows: list[Mapping[str, JSON]] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                rows.append(_object(line, f"{path}, row {number}"))
    return rows


def _load_json(path: Path) -> list[Mapping[str, JSON]]:
    """A JSON file: a list of objects, or one object a line."""
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
        # A cache of its own: the library's would answer for a file that has changed since.
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
    """Every column of a CSV file as text."""
    import datasets  # late: a second and a half

    with path.open(encoding="utf-8-sig", newline="") as lines:
        columns = next(csv.reader(lines))
    return datasets.Features({column: datasets.Value("string") for column in columns})


def _is_header_alone(path: Path) -> bool:
    """Whether a CSV file has a header and nothing below it, which the loader does not take for an empty table."""
    return path.suffix.lower() == ".csv" and len(path.read_bytes().split(b"\n", 2)) < 3


def _load_from_hub(name: str, split: str) -> Iterable[Mapping[str, JSON]]:
    datasets = _datasets()
    try:
        return list(datasets.load_dataset(name, split=split))
    except Exception as error:  # the hub, the network and the dataset's own files each raise their own kinds
        raise DataError(
            f"{name}: cannot be loaded from the Hugging Face hub (split {split!r}): {_first_line(error)}; "
            f"a local file needs one of the endings {', '.join(FILE_KINDS)}"
        ) from error


def _datasets() -> Any:
    import datasets  # late: a second and a half

    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(logging.CRITICAL)  # its errors reach the user through ours
    return datasets


def _first_line(error: BaseException) -> str:
    """What an error, or the one behind it, says first."""
    said = str(error.__cause__ or error).strip().splitlines()
    return said[0] if said else type(error).__name__


def by_uid(rows: Sequence[Row], *, numbered: bool = False) -> dict[str, Row]:
    """Rows by their id.

    Args:
        rows: of one dataset.
        numbered: rows without an id are called by their number.

    Raises:
        DataError: two rows have the same id, or one has none.
    """
    found: dict[str, Row] = {}
    for row in rows:
        uid = row.uid_or_number() if numbered else row.uid()
        if uid in found:
            raise DataError(f"{row.place}: the id {uid!r} is also that of row {found[uid].number}")
        found[uid] = row
    return found


def load_answers(path: Path, tasks: Sequence[Task]) -> dict[str, str]:
    """Existing answers to score, by uid.

    Args:
        path: JSONL with `uid` and `answer`, or with `messages` as Arena-Hard-Auto writes them.
        tasks: the rows that need one.

    Raises:
        DataError: the file cannot be loaded, or lacks the answer to a row: leaving that row out would change the
        result.
    """
    rows = by_uid(load_rows(str(path), split="train"))
    missing = [task.uid for task in tasks if task.uid not in rows]
    if missing:
        raise DataError(f"{path}: no answer for {len(missing)} of {len(tasks)} rows, such as {missing[0]!r}")
    return {task.uid: answer_text(rows[task.uid]) for task in tasks}


def answer_text(row: Row) -> str:
    """The answer of a row: `answer`, or `messages[-1].content.answer` as in Arena-Hard-Auto's files.

    Raises:
        DataError: it has neither.
    """
    answer = row.optional_text("answer")
    if answer is None:
        messages = row.values.get("messages")
        last = messages[-1] if isinstance(messages, Sequence) and messages else None
        content = last.get("content") if isinstance(last, Mapping) else None
        found = content.get("answer") if isinstance(content, Mapping) else content
        answer = found if isinstance(found, str) else None
    if answer is None:
        raise row.lacks("text in answer or messages[-1].content.answer")
    return answer


def select(tasks: Sequence[TaskT], *, limit: int | None, seed: int) -> list[TaskT]:
    """`limit` tasks in their own order; which ones is a function of the seed and their ids alone."""
    if limit is None or limit >= len(tasks):
        return list(tasks)
    chosen = sorted(tasks, key=lambda task: (derive(seed, task.uid, "limit"), task.uid))[:limit]
    uids = {task.uid for task in chosen}
    return [task for task in tasks if task.uid in uids]


def epoch_order(tasks: Sequence[TaskT], *, seed: int, epoch: int) -> list[TaskT]:
    """The tasks in the order of one epoch, a function of the seed, the epoch and their ids."""
    return sorted(tasks, key=lambda task: (derive(seed, task.uid, f"epoch {epoch}"), task.uid))
