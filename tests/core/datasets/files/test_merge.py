"""Shards merge to the bytes of one run, and only shards of the same rows."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judgegym.data.rows import DataSet, load_rows
from judgegym.datasets.files.columns import AddedColumns
from judgegym.datasets.files.shards import list_shards, merge_shards
from judgegym.llm.errors import DataError
from tests.core.datasets.files.verdicts import ONE, SEVERAL, write


def load(path: Path, count: int) -> DataSet:
    """The rows of a data set of which one column is of mixed types in JSON, and a dictionary with NaN in Parquet."""
    rows: list[dict[str, Any]] = [
        {"prompt": f"é {n}?", "mixed": n if n % 2 else {"n": n}, "policy/response": "own"}
        for n in range(count)
    ]
    if path.suffix == ".parquet":
        table = pyarrow.Table.from_pylist([{"prompt": row["prompt"]} for row in rows])
        words = pyarrow.array([f"w{n % 3}" for n in range(count)]).dictionary_encode()
        at = pyarrow.array([datetime.date(2024, 1, 1)] * count)
        table = table.append_column("word", words).append_column("at", at)
        table = table.append_column("nan", pyarrow.array([float("nan")] * count))
        pyarrow.parquet.write_table(table, path, row_group_size=7)
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return load_rows(str(path), split="train")


def shard(
    rows: DataSet, out: Path, count: int, columns: AddedColumns, starts: list[int] | None = None
) -> None:
    for each in list_shards(count):
        write(out, each.path(out), columns, numbers=each.rows(len(rows), starts), rows=rows)


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    source=st.sampled_from([".jsonl", ".parquet"]),
    ending=st.sampled_from([".jsonl", ".parquet"]),
    rows=st.integers(1, 30),
    count=st.integers(1, 9),
    columns=st.sampled_from([ONE, SEVERAL]),
    starts=st.none() | st.sets(st.integers(0, 29)),
)
def test_shards_merge_to_the_bytes_of_one_run(
    tmp_path: Path,
    source: str,
    ending: str,
    rows: int,
    count: int,
    columns: AddedColumns,
    starts: set[int] | None,
) -> None:
    read = load(tmp_path / f"rows{source}", rows)
    begins = None if starts is None else sorted({0, *(start for start in starts if start < rows)})
    whole = write(tmp_path, tmp_path / f"whole{ending}", columns, rows=read)
    out = tmp_path / f"scored{ending}"
    shard(read, out, count, columns, begins)
    assert merge_shards(read, out, count, begins) == columns
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_shards_that_do_not_fit_are_named(tmp_path: Path, ending: str) -> None:
    rows, out = load(tmp_path / "rows.jsonl", 20), tmp_path / f"scored{ending}"
    shard(rows, out, 4, ONE)
    first, second, third, fourth = (each.path(out) for each in list_shards(4))

    def fails(message: str) -> None:
        with pytest.raises(DataError, match=message):
            merge_shards(rows, out, 4)
        assert not out.exists()

    for path in (second, fourth):
        path.rename(path.with_suffix(".away"))
    fails(rf"2 of 4 shards .*: {second.name}, {fourth.name}$")
    for path in (second, fourth):
        path.with_suffix(".away").rename(path)

    kept = third.read_bytes()
    third.write_bytes(first.read_bytes())
    fails(rf"{third.name}, row 1 or later: .*row 11 of .*rows\.jsonl")
    write(tmp_path, third, ONE, numbers=range(10, 14), rows=rows)
    fails(rf"{third.name}: .*4 rows; expected 5, .*11 to 15 of .*rows\.jsonl \(20 rows\)")
    write(tmp_path, third, SEVERAL, numbers=range(10, 15), rows=rows)
    fails(rf"{third.name}: .*other columns .*{first}")
    third.write_bytes(b'{"a": 1}\n' if ending == ".jsonl" else b"no Parquet")
    fails(f"{third.name}: (expected a shard|cannot be read)")

    third.write_bytes(kept)
    merge_shards(rows, out, 4)
    changed = load(tmp_path / "rows.jsonl", 21)
    out.unlink()
    with pytest.raises(DataError, match=rf"{fourth.name}: has 5 rows; expected 6"):
        merge_shards(changed, out, 4)
