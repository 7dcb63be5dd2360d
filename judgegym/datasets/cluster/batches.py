"""Batches of rows as libraries hand them over: their rows as Python values, and the batch with columns added.

Kinds: a dictionary of columns (lists; numpy arrays, Ray Data's default), a pyarrow Table, a pandas DataFrame, and the
lazy batch of `datasets.map`. That is taken as the Arrow table that it holds: no column is decoded, and the added
columns have their types where a batch has nothing but nulls in one of them.

Sources: ray 2.60 (`data/block.py`), datasets 5.2 (`formatting/formatting.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

from judgegym.datasets.files.columns import SCORE, AddedColumns
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON

Batch: TypeAlias = Any
"""A batch of any kind: the libraries' types are not imported here."""

_EXPECTED = "expected a batch of columns: a dictionary, a pyarrow Table or a pandas DataFrame"


def rows_of(batch: Batch) -> list[dict[str, JSON]]:
    """The rows of a batch.

    Raises:
        SettingsError: it is no batch of columns.
        DataError: its columns differ in length.
    """
    table = _table(batch)
    if table is not None:
        rows: list[dict[str, JSON]] = table.to_pylist()
        return rows
    if _is_frame(batch):
        objects = batch.astype(object)
        return _rows({name: objects[name].where(batch[name].notna(), None).tolist() for name in batch.columns})
    if isinstance(batch, Mapping):
        return _rows(batch)
    raise SettingsError(f"{_EXPECTED}; found {type(batch).__name__}")


def with_columns(batch: Batch, values: Mapping[str, Sequence[JSON]], columns: AddedColumns) -> Batch:
    """The batch, of the same kind, with the values of the added columns.

    Raises:
        DataError: it has a column of one of the names.
    """
    table = _table(batch)
    present = table.column_names if table is not None else list(batch.keys())
    taken = [name for name in values if name in present]
    if taken:
        raise DataError(f"the batch has a column {taken[0]} already; leave out the scored columns, or rename them")
    if table is not None:
        pyarrow = _imported("pyarrow")
        for name, kind in columns.arrow_types().items():
            table = table.append_column(name, pyarrow.array(values[name], kind))
        return table
    if _is_frame(batch):
        pandas = _imported("pandas")
        kinds = {name: "float64" if name == SCORE and not columns.several else "object" for name in values}
        return batch.assign(
            **{name: pandas.Series(list(found), index=batch.index, dtype=kinds[name]) for name, found in values.items()}
        )
    numpy = _imported("numpy")
    if numpy is not None and any(isinstance(column, numpy.ndarray) for column in batch.values()):
        return {**batch, **{name: _array(numpy, found) for name, found in values.items()}}
    return {**batch, **{name: list(found) for name, found in values.items()}}


def _imported(name: str) -> Any:
    """A library, if it is imported: nobody has a batch of one that is not."""
    module: ModuleType | None = sys.modules.get(name)
    return module


def _table(batch: Batch) -> Any:
    """The Arrow table of a batch that is one, or holds one; `None` of any other."""
    pyarrow = _imported("pyarrow")
    if pyarrow is None:
        return None
    if type(batch).__name__ == "LazyRow":
        raise SettingsError(f"{_EXPECTED}; found a single row: map(…, batched=True)")
    found = batch if isinstance(batch, pyarrow.Table) else getattr(batch, "pa_table", None)
    return found if isinstance(found, pyarrow.Table) else None


def _is_frame(batch: Batch) -> bool:
    pandas = _imported("pandas")
    return pandas is not None and isinstance(batch, pandas.DataFrame)


def _rows(columns: Mapping[str, Any]) -> list[dict[str, JSON]]:
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
    """The value without arrays and scalars of numpy; a pandas column or an Arrow array is a list."""
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
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _array(numpy: Any, values: Sequence[JSON]) -> Any:
    """The values as an array of objects, in which `None` stays what it is."""
    array = numpy.empty(len(values), dtype=object)
    for number, value in enumerate(values):
        array[number] = value
    return array
