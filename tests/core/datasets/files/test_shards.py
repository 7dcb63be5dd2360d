"""Which rows and which file a shard has."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from judgegym.data.rows import load_rows
from judgegym.datasets.files.shards import ShardSetting, group_starts, list_shards
from judgegym.llm.errors import DataError


@given(
    total=st.integers(0, 300),
    count=st.integers(1, 40),
    starts=st.none() | st.sets(st.integers(1, 299)),
)
def test_every_row_is_in_one_shard_and_no_group_is_divided(
    total: int, count: int, starts: set[int] | None
) -> None:
    begins = None if starts is None else sorted({0, *(start for start in starts if start < total)})
    ranges = [shard.rows(total, begins) for shard in list_shards(count)]
    assert [row for rows in ranges for row in rows] == list(range(total))
    assert all(first.stop == second.start for first, second in pairwise(ranges))
    if begins is None:
        assert max(map(len, ranges)) - min(map(len, ranges)) <= 1
    else:
        assert all(not rows or rows.start in begins for rows in ranges)


@pytest.mark.parametrize(
    "text", ["0/4", "5/4", "3", "3/", "-1/4", "1/0", "a/b", "1/4/4", "１/4", "1/1000000"]
)
def test_what_is_no_shard_is_an_error(text: str) -> None:
    with pytest.raises(ValidationError, match="1 ≤ I ≤ N"):
        TypeAdapter(ShardSetting).validate_python(text)


def test_groups_are_kept_together_only_where_their_rows_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"q": q}) + "\n" for q in "aabccc"))
    rows = load_rows(str(path), split="train")
    assert group_starts(rows, "q") == [0, 2, 3]
    path.write_text("".join(json.dumps({"q": q}) + "\n" for q in "abba"))
    with pytest.raises(DataError, match=r"row 2: .*between rows 1 and 4, .*same q \(--group_by\)"):
        group_starts(load_rows(str(path), split="train"), "q")
