"""Rows of a dataset. A row that cannot be read is an error with its place; no value is made up.

Guarantee: memory holds the places of rows and, where they are looked up, their ids; a row is read
on access.

The datasets that were read are recorded, so that a result can say what it was measured on.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from judgegym.data.json_file import BadLine
from judgegym.data.lazy_sequence import LazySequence
from judgegym.data.opening import STDIN, open_data, parse_file_kind
from judgegym.judges.conversations.images import show_images
from judgegym.judges.conversations.turns import UnseenPart
from judgegym.llm import wire
from judgegym.llm.at_once import bind_context
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

Split = Literal["train", "eval"]

_TEXT_TABLES = (".csv", ".tsv")
_LISTS = frozenset(
    (
        *("responses", "completions", "generations", "candidates", "outputs", "answers"),
        *("chosen", "rejected", "contexts", "aspects"),
    )
)
"""Columns that hold lists, so that a cell of a table of texts which looks like one is one."""
_TEXTS = frozenset(
    (
        *("response", "completion", "generation", "model_answer", "output", "answer", "solution"),
        *(
            "prompt",
            "question",
            "instruction",
            "query",
            "input",
            "problem",
            "reference",
            "baseline",
            "rubric",
        ),
    )
)
"""Columns that hold a text, which may look like a list: one that a model was asked for."""
_OBJECTS = {"role", "from", "criteria"}
"""Keys of which an object has one: a message, or a rubric with levels."""
_PYTHON_LIST = re.compile(r"\[\s*['\"{\[]")
_SHOWN = 60
_UID_COLUMNS = ("uid", "question_id", "id")


class RowError(DataError):
    """Error of a row that cannot be read.

    Attributes:
        place: file and row.
        reason: the reason, without the row's place.
        column: the column at fault, if any.
    """

    def __init__(self, place: str, reason: str, column: str | None = None) -> None:
        """Put the row's place before the reason."""
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason
        self.column = column


class Task(Protocol):
    """Fields of every environment's task."""

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
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a dataset.

    Attributes:
        source: the dataset, or the row's file if there are several.
        number: its number in the dataset, from 1.
        values: its columns.
        number_in_file: its number in the file, if the dataset has several.
    """

    source: str
    number: int
    values: Mapping[str, JSON]
    number_in_file: int | None = None

    @property
    def place(self) -> str:
        """File and row, for messages."""
        number = self.number_in_file
        if number is None:
            number = self.number
        return f"{self.source}, row {number}"

    def uid(self) -> str:
        """Return the row's id.

        Raises:
            DataError: none of the usual columns has one.
        """
        uid = self.find_id()
        if uid is None:
            columns = " or ".join(_UID_COLUMNS)
            raise self.missing_error(f"an id in {columns}")
        return uid

    def uid_or_number(self) -> str:
        """Return the row's id, or `row-<number>` if the usual columns have none."""
        return self.find_id() or f"row-{self.number}"

    def find_id(self) -> str | None:
        """Return the row's id, or `None`."""
        ids = (self.values.get(column) for column in _UID_COLUMNS)
        usable = (str(value) for value in ids if isinstance(value, str | int))
        return next(filter(None, usable), None)

    def text(self, *columns: str) -> str:
        """Return the text of the first of `columns` that has one.

        Raises:
            DataError: none has.
        """
        text = self.optional_text(*columns)
        if text is None:
            names = " or ".join(columns)
            raise self.missing_error(f"text in {names}")
        return text

    def optional_text(self, *columns: str) -> str | None:
        """Return the text of the first of `columns` that has one, or `None`."""
        for column in columns:
            value = self.values.get(column)
            if isinstance(value, str) and (value or not self._is_from_table):
                return value
        return None

    def filled_text(self, *columns: str) -> str | None:
        """Return the first text of `columns` that is not blank, or `None`."""
        texts = (self.optional_text(column) for column in columns)
        known_texts = (text for text in texts if text is not None)
        return next((text for text in known_texts if text.strip()), None)

    @property
    def _is_from_table(self) -> bool:
        """Whether it is from a CSV or TSV file.

        In such a file an empty text means no value, and lists are written as text.
        """
        return self.source.lower().removesuffix(".gz").endswith(_TEXT_TABLES)

    def filled_values(self) -> Mapping[str, JSON]:
        """Return the columns that are not null.

        In a CSV or TSV file, a cell with a list or messages in JSON has that value.

        Raises:
            DataError: a cell that should hold a list is not JSON.
        """
        filled = {column: value for column, value in self.values.items() if value is not None}
        if self._is_from_table:
            return {column: self._parse_cell(column, value) for column, value in filled.items()}
        return filled

    def _parse_cell(self, column: str, cell: JSON) -> JSON:
        """Parse a cell: a list of texts or objects, messages, or the text itself."""
        text = cell.strip() if isinstance(cell, str) else ""
        if not (text.startswith("[") and text.endswith("]")) and not (
            text.startswith("{") and text.endswith("}")
        ):
            return cell
        try:
            value = wire.loads(text)
        except ValueError:
            if column in _LISTS and _PYTHON_LIST.match(text):
                raise self.missing_error(
                    f'a list in JSON in {column}, such as ["a", "b"], not {text[:_SHOWN]} (write '
                    "it with json.dumps)",
                    column,
                ) from None
            return cell
        entries = value if isinstance(value, list) else [value]
        if (
            all(isinstance(entry, Mapping) and _OBJECTS & entry.keys() for entry in entries)
            and entries
        ):
            return value
        is_list = column in _LISTS or (
            column not in _TEXTS and all(isinstance(entry, str) for entry in entries)
        )
        if isinstance(value, list) and is_list:
            return value
        return cell

    def value(self, path: str) -> JSON:
        """Return the value of a column or of a path into one, or `None`; see `value_at`."""
        return value_at(self.values, path)

    def error(self, reason: str, column: str | None = None) -> RowError:
        """Return the error why the row cannot be read; `column` names the column at fault."""
        return RowError(self.place, reason, column)

    def missing_error(self, expected: str, column: str | None = None) -> RowError:
        """Return the error for something that the row should have but lacks."""
        columns = ", ".join(self.values) or "none"
        return self.error(f"expected {expected}; columns found: {columns}", column)


def read_text_cell(value: JSON) -> JSON:
    """Parse a number, list or object in JSON from a text cell; return other values unchanged."""
    if not isinstance(value, str):
        return value
    parsed = wire.loads_or_none(value.encode("utf-8", "replace"))
    is_parsed = isinstance(parsed, Mapping | list | int | float) and not isinstance(parsed, bool)
    if is_parsed:
        return parsed
    return value


def value_at(values: Mapping[str, JSON], path: str) -> JSON:
    """Return the value of a column or a path: `meta.source`, `turns.0.text`; `None` without it.

    A name after a list selects that field of each of its objects: `completions.response` is a list
    of responses.
    """
    if path in values or "." not in path:
        return values.get(path)
    current: JSON = values
    for step in path.split("."):
        current = _take_step(current, step)
    return current


def _take_step(value: JSON, step: str) -> JSON:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, str) or not isinstance(value, Sequence):
        return None
    if step.isascii() and step.isdigit():
        if int(step) < len(value):
            return value[int(step)]
        return None
    results = [_take_step(item, step) for item in value]
    if all(result is None for result in results):
        return None
    return results


@contextmanager
def name_row_in_errors(row: Row, *, shows_images: bool = False) -> Iterator[None]:
    """Name the row in errors about its conversation.

    Args:
        row: the row.
        shows_images: the caller shows its judge the images of the row; they may be files in the
            same folder.

    Raises:
        DataError: a message has a part that no judge is shown.
    """
    try:
        with show_images(Path(row.source).parent, shown=shows_images):
            yield
    except UnseenPart as error:
        raise row.error(str(error)) from None


class DataSet(LazySequence[Row]):
    """Rows of a dataset in its order, each read on access.

    Attributes:
        source: the dataset's name.
        values: the columns of each row. `load_rows` returns a `JsonFile` or `ArrowRows`, which also
            give the rows as stored.
        bad_lines: lines of its files that are no rows, if such lines are left out.
    """

    def __init__(
        self,
        source: str,
        values: Sequence[Mapping[str, JSON]],
        files: Sequence[tuple[int, str]] = (),
        bad_lines: Sequence[BadLine] = (),
    ) -> None:
        """Name the rows in `values` by the dataset's name and their numbers.

        Args:
            source: the dataset's name.
            values: the columns of each row.
            files: the first row of each of several files, with the file's name.
            bad_lines: see `DataSet`.
        """
        self.source = source
        self.values = values
        self.bad_lines = bad_lines
        self._files = files
        self._starts = [start for start, _ in files]

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.values)

    def read(self, index: int) -> Row:
        """Read a row.

        Raises:
            DataError: the file has changed.
        """
        return self._row(index, self.values[index])

    def _row(self, index: int, values: Mapping[str, JSON]) -> Row:
        if not self._files:
            return Row(self.source, index + 1, values)
        start, name = self._files[bisect_right(self._starts, index) - 1]
        return Row(name, index + 1, values, index - start + 1)

    def __iter__(self) -> Iterator[Row]:
        """Read all rows, one after the other."""
        return (self._row(position, values) for position, values in enumerate(self.values))


def load_rows(source: str, *, split: str, skips: bool = False) -> DataSet:
    """Load the rows of a dataset, in its own order.

    JSON is parsed line by line and not loaded as a table, because a table infers types: text that
    looks like a date or a number would be converted.

    Args:
        source: a JSONL, JSON, CSV, TSV or Parquet file, also compressed (.gz); a pattern of such
            files; `-` for JSON on standard input; a folder of `datasets.save_to_disk`; or a
            dataset's name on the Hugging Face hub.
        split: the split of a folder or hub dataset; ignored for a file.
        skips: leave out lines that are no JSON objects, instead of raising an error.

    Returns:
        At least one row; each is read when it is asked for. Lone surrogates in texts are replaced
        by U+FFFD.

    Raises:
        DataError: the dataset cannot be loaded or is empty; the message names the file and, if one
            is wrong, the row.
    """
    opened = open_data(source, split, skips=skips)
    if not opened.values:
        first = next(iter(opened.bad_lines), None)
        if first is None:
            raise DataError(f"{source}: no rows")
        raise DataError(bad_line_message(first))
    is_file = parse_file_kind(source) is not None or source == STDIN or bool(opened.files)
    record_dataset(
        source, split=None if is_file else split, rows=len(opened.values), digest=opened.digest
    )
    return DataSet(source, opened.values, opened.files, opened.bad_lines)


def bad_line_message(line: BadLine) -> str:
    """Return the error about a line that is no row."""
    return f"{line.source}, row {line.number}: {line.reason}"


class LazyMapping(Mapping[str, ItemT]):
    """Items by uid, in order, each read on access."""

    def __init__(self, uids: Collection[str], read: Callable[[str], ItemT]) -> None:
        """Read the item of each uid with `read`; membership in `uids` should be fast."""
        self._uids = uids
        self._read = read

    def __getitem__(self, uid: str) -> ItemT:
        """Read an item."""
        if uid not in self._uids:
            raise KeyError(uid)
        return self._read(uid)

    def __iter__(self) -> Iterator[str]:
        """Return the uids."""
        return iter(self._uids)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._uids)


def index_by_uid(rows: Sequence[Row], *, numbered: bool = False) -> LazyMapping[Row]:
    """Return the rows by their id, in the order of the dataset.

    Args:
        rows: the rows of one dataset.
        numbered: use the number of a row without an id as its id.

    Raises:
        DataError: two rows have the same id, or one has none.
    """
    indices: dict[str, int] = {}
    for index, row in enumerate(rows):
        uid = row.uid_or_number() if numbered else row.uid()
        if uid in indices:
            raise DataError(
                f"{row.place}: the id {uid!r} is also that of row {rows[indices[uid]].number}"
            )
        indices[uid] = index
    return LazyMapping(indices, lambda uid: rows[indices[uid]])


_READ: ContextVar[list[DatasetRead] | None] = ContextVar("datasets that were read", default=None)


@dataclass(frozen=True, slots=True)
class DatasetRead:
    """A dataset that was read.

    Attributes:
        name: the file, or the name on the hub.
        split: the split on the hub; `None` for a file.
        rows: number of rows.
        digest: SHA-256 of the file, as `sha256sum` prints it; for a hub dataset, of its rows as
            JSON.
    """

    name: str
    split: str | None
    rows: int
    digest: str

    def to_json(self) -> dict[str, JSON]:
        """Return the entry of `metrics.json`."""
        return {"name": self.name, "split": self.split, "rows": self.rows, "digest": self.digest}


def collect_datasets_read() -> AbstractContextManager[list[DatasetRead]]:
    """Collect each dataset that is read within the block, once, in a list."""
    return bind_context(_READ, list[DatasetRead]())


def record_dataset(name: str, *, split: str | None, rows: int, digest: str) -> None:
    """Record that a dataset was read, if within `collect_datasets_read`.

    Args:
        name: its name in the settings.
        split: the split of a hub dataset; `None` for a file.
        rows: number of rows.
        digest: SHA-256 of the file, or of the rows of a hub dataset.
    """
    read = _READ.get()
    if read is None or any((entry.name, entry.split) == (name, split) for entry in read):
        return
    read.append(DatasetRead(name, split, rows, f"sha256:{digest}"))
