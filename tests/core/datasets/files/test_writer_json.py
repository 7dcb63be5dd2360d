"""Scored files of JSON rows: their own text in JSON lines, their values in Parquet."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judgegym.data.arrow import json_text_columns
from judgegym.data.rows import load_rows
from judgegym.datasets.files.writer import StoredRows, scored_content
from tests.core.datasets.files.verdicts import ONE, SAMPLED, SEVERAL, added, write

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from(["prompt", "a", "b", "é", ""]), values, max_size=4)
alike = st.fixed_dictionaries(
    {"n": numbers, "list": st.lists(st.integers(0, 9)), "turn": st.fixed_dictionaries({"c": texts})}
)
ROWS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@ROWS
@given(
    rows=st.lists(objects, min_size=1, max_size=5),
    ascii_only=st.booleans(),
    spaces=st.sampled_from(["", " ", "\t "]),
)
def test_json_lines_keep_each_rows_own_text(
    tmp_path: Path, rows: list[Any], ascii_only: bool, spaces: str
) -> None:
    own = [
        json.dumps(row, ensure_ascii=ascii_only, separators=(f",{spaces}", f"{spaces}:"))
        for row in rows
    ]
    (tmp_path / "rows.jsonl").write_text(
        "\r\n\n".join(f"{spaces}{text} " for text in own), encoding="utf-8", newline=""
    )
    written = (
        write(tmp_path / "rows.jsonl", tmp_path / "scored.jsonl")
        .read_bytes()
        .splitlines(keepends=True)
    )
    assert len(written) == len(rows)
    for number, (text, line) in enumerate(zip(own, written, strict=True)):
        assert line.startswith(text[:-1].encode())
        assert json.loads(line) == {**json.loads(text), **added(number)}
        assert list(json.loads(line))[-5:] == list(ONE.names)


@pytest.mark.slow
@ROWS
@given(rows=st.lists(objects, min_size=1, max_size=5) | st.lists(alike, min_size=1, max_size=5))
def test_parquet_has_the_values_of_json_rows(tmp_path: Path, rows: list[Any]) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = write(tmp_path / "rows.jsonl", tmp_path / "scored.parquet")
    table = pyarrow.parquet.read_table(out)
    assert tuple(table.schema.names[-5:]) == ONE.names
    for number, (row, found) in enumerate(zip(rows, table.to_pylist(), strict=True)):
        for name, value in found.items():
            expected = {**row, **added(number)}.get(name)
            if value is not None and name in json_text_columns(table.schema):
                value = json.loads(value)
            assert value == expected, name


@pytest.mark.parametrize("columns", [ONE, SEVERAL, SAMPLED], ids=["one", "several", "sampled"])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_what_is_written_is_what_load_rows_reads(tmp_path: Path, columns: Any, ending: str) -> None:
    rows = [
        {"prompt": f"{n}?", "meta": {"n": n}, "mixed": [n, None, str(n), {"a": n}][n % 4]}
        for n in range(12)
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows, indent=2))
    out = write(tmp_path / "rows.json", tmp_path / f"scored.{ending}", columns)
    read = [dict(row.values) for row in load_rows(str(out), split="train")]
    assert read == [{**row, **added(number, columns)} for number, row in enumerate(rows)]
    assert [list(row)[3:] for row in read] == [list(columns.names)] * 12


def test_objects_of_a_list_stand_on_one_line_each_in_their_own_words(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(
        '[{"a": 1.50, "b": "x\\ny"}, {\n  "a":\r\n 2e0\n}, {}, { }]'
    )
    lines = write(tmp_path / "rows.json", tmp_path / "scored.jsonl").read_text().splitlines()
    own = ['{"a": 1.50, "b": "x\\ny",', '{ "a": 2e0 ,', "{", "{ "]
    assert [line[: line.index('"judge/score"')] for line in lines] == own


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-be"])
def test_other_encodings_of_json_become_utf_8_without_a_mark(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "rows.jsonl").write_bytes('{"é": "数"}'.encode(encoding))
    assert (
        write(tmp_path / "rows.jsonl", tmp_path / "scored.jsonl")
        .read_text("utf-8")
        .startswith('{"é": "数","judge/')
    )
    table = pyarrow.parquet.read_table(write(tmp_path / "rows.jsonl", tmp_path / "scored.parquet"))
    assert table["é"].to_pylist() == ["数"]


def test_columns_of_which_no_type_says_everything_become_json_text_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = 2**70
    (tmp_path / "rows.jsonl").write_text(
        '{"id": 1, "keys": {"a": 1}, "turns": [{"r": "u"}], "n": 1, "f": 1, "u": '
        '18446744073709551615, "x": NaN}\n'
        f'{{"id": "b", "keys": {{"b": 1.50}}, "turns": [{{"t": 1.1}}], "n": {long}, "f": 0.5, "u": '
        f'0, "x": 1}}\n'
    )
    with caplog.at_level(logging.WARNING):
        out = write(tmp_path / "rows.jsonl", tmp_path / "scored.parquet")
    (warning,) = caplog.messages
    assert warning.endswith("JSON text: id, keys, turns, n")
    table = pyarrow.parquet.read_table(out)
    assert table["keys"].to_pylist() == ['{"a": 1}', '{"b": 1.50}']
    assert table["n"].to_pylist() == ["1", str(long)]
    assert table["u"].type == pyarrow.uint64()
    assert table["f"].to_pylist() == [1.0, 0.5]
    assert str(table["x"].to_pylist()) == "[nan, 1.0]"
    assert [row.values["turns"] for row in load_rows(str(out), split="train")] == [
        [{"r": "u"}],
        [{"t": 1.1}],
    ]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_lone_surrogates_and_numbers_that_are_none_do_not_stop_the_writer(
    tmp_path: Path, ending: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(
        '{"a": "\\ud800x", "b": ["\\ud800", Infinity]}\n{"a": "y", "b": {"c": NaN}}\n'
    )
    rows = load_rows(str(tmp_path / "rows.jsonl"), split="train")
    out = write(tmp_path / "rows.jsonl", tmp_path / f"scored.{ending}", rows=rows)
    assert [row.values["a"] for row in load_rows(str(out), split="train")] == ["�x", "y"]
    if ending == "parquet":
        assert pyarrow.parquet.read_table(out)["b"].to_pylist() == ['["�", null]', '{"c": null}']
    else:
        assert out.read_bytes().startswith(
            b'{"a": "\\ud800x", "b": ["\\ud800", Infinity],"judge/score":'
        )


@pytest.mark.parametrize("depth", [40, 300, 900])
def test_deep_values_are_written(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "12345678901234567890123" + "]" * depth
    (tmp_path / "rows.jsonl").write_text(f'{{"a": {deep}}}\n')
    out = write(tmp_path / "rows.jsonl", tmp_path / "scored.parquet")
    assert pyarrow.parquet.read_table(out)["a"].to_pylist() == [deep]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_write_that_is_retried_gives_the_same_bytes(
    tmp_path: Path, ending: str, caplog: Any
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n{"a": "b"}\n')
    rows = load_rows(str(tmp_path / "rows.jsonl"), split="train")
    verdicts = [added(number) for number in range(2)]
    content = scored_content(
        StoredRows(rows), range(2), tmp_path / f"scored.{ending}", lambda: verdicts, ONE
    )
    next(iter(content()))  # the disk refuses after the first part
    assert b"".join(content()) == b"".join(content())
    assert len(caplog.messages) == (ending == "parquet")


def test_the_same_rows_give_the_same_bytes_in_groups_of_a_fixed_number_of_rows(
    tmp_path: Path,
) -> None:
    (tmp_path / "rows.jsonl").write_bytes(
        b"".join(orjson.dumps({"a": n}) + b"\n" for n in range(2500))
    )
    first = write(tmp_path / "rows.jsonl", tmp_path / "one.parquet").read_bytes()
    assert write(tmp_path / "rows.jsonl", tmp_path / "two.parquet").read_bytes() == first
    metadata = pyarrow.parquet.ParquetFile(tmp_path / "one.parquet").metadata
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [
        1000,
        1000,
        500,
    ]
