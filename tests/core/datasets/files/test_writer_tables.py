"""Scored files of tables: types and values as they are stored, whatever the library `datasets` makes of them."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judgegym.data.rows import load_rows
from tests.core.datasets.files.verdicts import ONE, SEVERAL, added, write

WORDS = ["x", None, "yé", "x"] * 3
TYPES: dict[str, tuple[list[Any], Any]] = {
    "large_string": (WORDS, pyarrow.large_string()),
    "string_view": (WORDS, pyarrow.string_view()),
    "dictionary": (WORDS, pyarrow.dictionary(pyarrow.int32(), pyarrow.string())),
    "uint8": ([255, None, 0, 1] * 3, pyarrow.uint8()),
    "uint64": ([2**64 - 1, None, 0, 1] * 3, pyarrow.uint64()),
    "float32": ([0.1, float("nan"), float("inf"), None] * 3, pyarrow.float32()),
    "bool": ([True, None, False, True] * 3, pyarrow.bool_()),
    "nanoseconds": ([1, None, 2**62, -1] * 3, pyarrow.timestamp("ns", tz="Europe/Berlin")),
    "seconds": ([1, None, 2, -1] * 3, pyarrow.timestamp("s")),
    "date": ([datetime.date(2024, 2, 29), None] * 6, pyarrow.date32()),
    "time": ([datetime.time(1, 2, 3, 4), None] * 6, pyarrow.time64("us")),
    "duration": ([datetime.timedelta(days=-1, microseconds=5), None] * 6, pyarrow.duration("us")),
    "decimal": ([decimal.Decimal("1.10"), None] * 6, pyarrow.decimal128(20, 2)),
    "binary": ([b"\xff\x00", None, b""] * 4, pyarrow.binary()),
    "struct": (
        [{"b": b"\xff", "n": [1, None]}, None] * 6,
        pyarrow.struct([("b", pyarrow.binary()), ("n", pyarrow.list_(pyarrow.int8()))]),
    ),
    "fixed": (
        [[1, 2], [3, None]] * 6,
        pyarrow.list_(pyarrow.field("item", pyarrow.int16(), nullable=True), 2),
    ),
    "large_list": ([[1], None, []] * 4, pyarrow.large_list(pyarrow.float64())),
    "null": ([None] * 12, pyarrow.null()),
}


def table_of(types: dict[str, tuple[list[Any], Any]]) -> pyarrow.Table:
    arrays = {"prompt": pyarrow.array([f"{n}?" for n in range(12)])}
    arrays |= {name: pyarrow.array(values, kind) for name, (values, kind) in types.items()}
    table = pyarrow.table(arrays)
    fields = [field.with_metadata({"unit": "none"}) for field in table.schema]
    return table.cast(pyarrow.schema(fields, {"made by": "a test"}))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rows.parquet"
    pyarrow.parquet.write_table(table_of(TYPES), path, row_group_size=5)
    return path


def test_parquet_keeps_types_values_and_metadata(tmp_path: Path, stored: Path) -> None:
    before = pyarrow.parquet.read_table(stored)
    after = pyarrow.parquet.read_table(write(stored, tmp_path / "scored.parquet"))
    own = after.select(before.schema.names)
    assert own.schema.equals(before.schema, check_metadata=True)
    for name in before.schema.names:
        assert repr(own[name].to_pylist()) == repr(before[name].to_pylist()), (
            name
        )  # as texts: NaN is not itself
    assert after.select(list(ONE.names)).to_pylist() == [added(number) for number in range(12)]
    assert after.schema.names == [*before.schema.names, *ONE.names]


def test_json_lines_say_the_values_of_a_table(tmp_path: Path, stored: Path) -> None:
    first, second, third, *_ = map(
        json.loads, write(stored, tmp_path / "scored.jsonl").read_text().splitlines()
    )
    own = {name: value for name, value in first.items() if not name.startswith("judge/")}
    assert own == {
        "prompt": "0?",
        "large_string": "x",
        "string_view": "x",
        "dictionary": "x",
        "uint8": 255,
        "uint64": 2**64 - 1,
        "float32": pytest.approx(0.1),
        "bool": True,
        "nanoseconds": "1970-01-01T01:00:00.000000001+01:00",
        "seconds": "1970-01-01T00:00:01",
        "date": "2024-02-29",
        "time": "01:02:03.000004",
        "duration": "-PT86399.999995S",
        "decimal": "1.10",
        "binary": "/wA=",
        "struct": {"b": "/w==", "n": [1, None]},
        "fixed": [1, 2],
        "large_list": [1],
        "null": None,
    }
    assert second["float32"] is None
    assert third["float32"] is None
    assert {name: first[name] for name in ONE.names} == added(0)


@pytest.mark.slow
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.sets(st.sampled_from(sorted(TYPES)), min_size=1),
    group=st.integers(1, 13),
    first=st.integers(0, 11),
)
def test_any_columns_in_any_groups(tmp_path: Path, names: set[str], group: int, first: int) -> None:
    table = table_of({name: TYPES[name] for name in names})
    pyarrow.parquet.write_table(
        table,
        tmp_path / "rows.parquet",
        row_group_size=group,
        use_compliant_nested_type=bool(first % 2),
    )
    before = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    out = write(tmp_path / "rows.parquet", tmp_path / "scored.parquet", numbers=range(first, 12))
    after = pyarrow.parquet.read_table(out)
    assert after.select(before.schema.names).schema.equals(before.schema, check_metadata=True)
    assert repr(after.drop_columns(list(ONE.names)).to_pylist()) == repr(
        before.slice(first).to_pylist()
    )


def test_csv_columns_are_text(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('id,prompt,when\n007,"a\nb",2024-01-01\n1e5,,NaN\n')
    table = pyarrow.parquet.read_table(write(tmp_path / "rows.csv", tmp_path / "scored.parquet"))
    assert table.select(["id", "prompt", "when"]).to_pylist() == [
        {"id": "007", "prompt": "a\nb", "when": "2024-01-01"},
        {"id": "1e5", "prompt": "", "when": "NaN"},
    ]
    lines = write(tmp_path / "rows.csv", tmp_path / "scored.jsonl").read_text().splitlines()
    assert lines[0].startswith('{"id":"007","prompt":"a\\nb","when":"2024-01-01","judge/score":0.0')


def test_datasets_of_the_hub_keep_their_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = datasets.Features(
        {
            "prompt": datasets.Value("large_string"),
            "kind": datasets.ClassLabel(names=["no", "yes"]),
            "image": datasets.Image(decode=False),
            "turns": datasets.List(
                {"role": datasets.Value("string"), "at": datasets.Value("timestamp[ms]")}
            ),
        }
    )
    image = {"bytes": b"\x89PNG", "path": None}
    row = {
        "prompt": "Why?",
        "kind": 1,
        "image": image,
        "turns": [{"role": "user", "at": datetime.datetime(2024, 1, 1)}],
    }
    hub = datasets.Dataset.from_list([{**row, "kind": n % 2} for n in range(20)], features=features)
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: hub.select([3, 5, 7]))
    rows = load_rows("some-lab/prompts", split="train")
    out = write(Path("some-lab/prompts"), tmp_path / "scored.parquet", SEVERAL, rows=rows)
    with monkeypatch.context():
        again = datasets.Dataset.from_parquet(str(out), cache_dir=str(tmp_path / "cache"))
    assert {name: again.features[name] for name in features} == features
    assert again.select_columns(list(features)).to_list() == [{**row, "kind": 1}] * 3
    assert again["judge/status"][2] == added(2, SEVERAL)["judge/status"]


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_parquet_file_that_changes_is_read_in_its_earlier_version(
    tmp_path: Path, is_replaced: bool
) -> None:
    path, other = tmp_path / "rows.parquet", tmp_path / "other.parquet"
    pyarrow.parquet.write_table(table_of({}), path)
    rows = load_rows(str(path), split="train")
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), other)
    other.replace(path) if is_replaced else path.write_bytes(other.read_bytes())
    assert (
        pyarrow.parquet.read_table(write(path, tmp_path / "scored.parquet", rows=rows)).num_rows
        == 12
    )
