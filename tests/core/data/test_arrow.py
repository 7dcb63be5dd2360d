"""Rows of tables: the same by any way of reading them, and those of the bytes whose digest is recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import datasets
import pyarrow.parquet
import pytest

from judgegym.data.arrow import ArrowRows, python_values, read_table
from judgegym.datasets.cluster.batches import list_rows
from judgegym.datasets.files.row_text import json_texts
from judgegym.llm import wire
from judgegym.llm.errors import DataError

ROWS = [
    {"uid": f"row-{number}", "texts": [str(number), "é"], "meta": {"n": number}, "none": None}
    for number in range(100)
]


def table() -> ArrowRows:
    return ArrowRows.from_dataset(datasets.Dataset.from_list(ROWS))


def test_rows_are_the_same_in_any_order() -> None:
    rows = table()
    assert len(rows) == 100
    assert list(rows) == ROWS
    assert [rows[place] for place in reversed(range(100))] == ROWS[::-1]
    assert rows[-1] == ROWS[-1]
    assert rows[95:] == ROWS[95:]
    with pytest.raises(IndexError):
        rows[100]


@pytest.mark.slow
def test_threads_read_the_rows_that_they_ask_for() -> None:
    rows = table()
    places = [place * 37 % 100 for place in range(2000)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(rows.__getitem__, places)) == [ROWS[place] for place in places]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_digest_is_that_of_the_file_and_later_changes_to_it_do_not_matter(
    tmp_path: Path, name: str
) -> None:
    path = write(tmp_path / name)
    rows, digest = read_table(path)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(b"x" * path.stat().st_size)
    assert [row["uid"] for row in rows] == ["a", "b"]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_file_that_changes_while_it_is_read_is_an_error_that_names_it(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / name)
    load: Callable[..., Any] = pyarrow.ipc.open_stream

    def loaded_and_written_to(*arguments: Any, **named: Any) -> Any:
        found = load(*arguments, **named)
        path.write_bytes(path.read_bytes() + b"c\n")
        return found

    monkeypatch.setattr(pyarrow.ipc, "open_stream", loaded_and_written_to)
    with pytest.raises(DataError, match=rf"{name}: .*changed while"):
        read_table(path)


def write(path: Path) -> Path:
    if path.suffix == ".csv":
        path.write_text("uid\na\nb\n")
    else:
        pyarrow.parquet.write_table(pyarrow.table({"uid": ["a", "b"]}), path)
    return path


def test_a_time_that_python_has_no_type_for_is_a_text() -> None:
    after_9999 = pyarrow.array([253_402_300_800], type=pyarrow.timestamp("s"))
    assert python_values(after_9999) == ["10000-01-01 00:00:00"]


def test_a_call_in_a_table_has_its_own_arguments_and_not_those_of_other_rows() -> None:
    calls = [
        {"arguments": {"a": 2, "by": {"x": 1}}, "id": None},
        {"arguments": {"city": "Bonn"}, "input": {"by": {"y": None}}},
    ]
    rows = ArrowRows(pyarrow.table({"messages": [[{"tool_calls": [call]}] for call in calls]}))
    first, second = (row["messages"][0]["tool_calls"][0] for row in cast("list[Any]", [*rows]))
    assert first == {"arguments": calls[0]["arguments"], "id": None, "input": None}
    assert second == {"arguments": {"city": "Bonn"}, "id": None, "input": {"by": {}}}
    texts = [wire.loads(text) for text in json_texts(rows, range(2))]
    assert texts == [*rows]
    assert list_rows(rows.table) == [*rows]
