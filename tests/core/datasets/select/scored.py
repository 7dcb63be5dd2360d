"""Scored files as `judgegym score` writes them, and the command that selects from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet

from judgegym.datasets.files.columns import DETAIL, EXPLANATION, LABEL, SCORE, STATUS, AddedColumns
from judgegym.datasets.select.command import main
from tests.command import Ended, called, clean_environment, write_lines

Row = dict[str, Any]


def select(*words: object, **environment: str) -> Ended:
    """The command, in this process."""
    prog = "judgegym select"
    return called(
        lambda: main([str(word) for word in words], prog=prog), clean_environment() | environment
    )


def scored_row(
    row: Mapping[str, Any],
    score: float | str | None | Sequence[float | str | None],
    detail: str = "{}",
) -> Row:
    """A row with what the judge said: a score, or the status of a failure; a list of them for several responses."""
    several = isinstance(score, list)
    entries = score if isinstance(score, list) else [score]
    columns = {
        SCORE: [each if isinstance(each, float) else None for each in entries],
        STATUS: ["ok" if isinstance(each, float) else each or "judge_failed" for each in entries],
        LABEL: [None] * len(entries),
        EXPLANATION: ["Because."] * len(entries),
        DETAIL: [detail if isinstance(each, float) else None for each in entries],
    }
    return {
        **row,
        **(columns if several else {name: values[0] for name, values in columns.items()}),
    }


def lines_file(path: Path, rows: Sequence[Row]) -> Path:
    """A scored file of JSON lines."""
    return write_lines(path, rows)


def table_file(path: Path, rows: Sequence[Row]) -> Path:
    """The same as Parquet."""
    table = pyarrow.Table.from_pylist(list(rows))
    added = AddedColumns(isinstance(rows[0][STATUS], list)).arrow_types()
    schema = pyarrow.schema(
        [(field.name, added.get(field.name, field.type)) for field in table.schema]
    )
    pyarrow.parquet.write_table(table.cast(schema), path)
    return path


def rows_of(path: Path) -> list[Row]:
    """The rows of a file that was written."""
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
