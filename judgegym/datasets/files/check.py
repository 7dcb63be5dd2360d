"""What is found out about the output before the first call of a judge, since it could not be written after the last.

Guarantee: an output that passes can be written, unless the disk refuses or the data set changes meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from judgegym.data.arrow import ArrowRows
from judgegym.data.opening import is_pattern
from judgegym.data.rows import DataSet, Row
from judgegym.datasets.files.columns import JUDGED, AddedColumns
from judgegym.datasets.files.endings import has_known_ending, is_parquet
from judgegym.datasets.files.json_types import MOST_COLUMNS, too_many_columns
from judgegym.judges.config.extras import require
from judgegym.llm.errors import DataError, SettingsError


def check_out(out: Path, *, data: str | None = None) -> None:
    """Check that a file can be written; its folder is created.

    Args:
        out: the file.
        data: the data set that is read, a file or a name on the hub.

    Raises:
        SettingsError: the file has another ending, is a folder or is the data set itself; its folder cannot be created
            or written to.
        MissingExtraError: it is to be Parquet, which needs the extra `data`.
    """
    if not has_known_ending(out):
        raise SettingsError(f"--out: expected a file with the ending .parquet or .jsonl; found {out}")
    if is_parquet(out):
        require("data")
    if out.is_dir():
        raise SettingsError(f"--out: {out} is a folder; expected a file")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--out: the folder {out.parent} cannot be created: {error.strerror}") from error
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise SettingsError(f"--out: the folder {out.parent} cannot be written to")
    read = Path(data).expanduser() if data is not None else None
    if data is not None and is_pattern(data) and out.absolute().match(str(Path(data).expanduser().absolute())):
        raise SettingsError(f"--out: {out} would be one of the files of {data}; name one that the pattern leaves out")
    if read is not None and out.exists() and read.exists() and out.samefile(read):
        raise SettingsError(f"--out: {out} is the data set itself, which is not overwritten; name another file")


def check_columns(rows: Sequence[Row], columns: AddedColumns, out: Path) -> None:
    """Check that the rows leave room for the added columns.

    Raises:
        DataError: a row has a column of one of the added names; or rows of JSON have more different keys than a
            Parquet file can have columns.
    """
    values = rows.values if isinstance(rows, DataSet) else None
    if isinstance(values, ArrowRows):
        _check_names(rows[0], values.stored.schema.names, columns)
        return
    names: set[str] = set()
    for row in rows:
        if not names.issuperset(row.values):
            _check_names(row, list(row.values), columns)
            names.update(row.values)
            if is_parquet(out) and len(names) > MOST_COLUMNS:
                raise too_many_columns(rows.source if isinstance(rows, DataSet) else row.source)
            if len(names) > MOST_COLUMNS:
                names.clear()  # of JSON lines the names are of no use, and memory is not for them


def _check_names(row: Row, names: Sequence[str], columns: AddedColumns) -> None:
    taken = [name for name in columns.names if name in names]
    if taken and not columns.sampled and all(name in names for name in JUDGED):
        raise DataError(
            f"{row.place}: there is a column {taken[0]} already, as in a file that judgegym score has written; to "
            "replace what its judge said by what another one says, use --rescore; or score the file from which it was "
            "made"
        )
    if taken:
        raise DataError(
            f"{row.place}: there is a column {taken[0]} already, which scoring adds"
            + (f" (and {', '.join(taken[1:])})" if taken[1:] else "")
            + "; rename or drop it first, or score the file from which this one was made"
        )
