"""Outputs that could not be written are refused before the first call, and a disk that refuses leaves nothing half."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from judgegym.data.rows import load_rows
from judgegym.datasets.files.columns import MOST_COLUMNS, check_columns, check_out
from judgegym.llm.errors import DataError, SettingsError, UserError
from tests.core.datasets.files.verdicts import ONE, SAMPLED, write


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scored.csv", r"--out: .*\.parquet or \.jsonl.*scored\.csv"),
        ("scored", r"--out: .*\.parquet or \.jsonl.*scored$"),
        ("folder.jsonl", r"--out: .*folder\.jsonl is a folder"),
        ("rows.jsonl/scored.jsonl", r"--out: the folder .*rows\.jsonl cannot be created"),
        ("rows.jsonl", r"--out: .*rows\.jsonl .*data set itself"),
        ("link.jsonl", r"--out: .*link\.jsonl .*data set itself"),
    ],
)
def test_what_cannot_be_an_output_is_refused(tmp_path: Path, name: str, message: str) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("{}\n")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "link.jsonl").symlink_to(data)
    with pytest.raises(SettingsError, match=message):
        check_out(tmp_path / name, data=str(data))
    assert data.read_text() == "{}\n"


def test_a_folder_that_is_not_there_is_created(tmp_path: Path) -> None:
    check_out(tmp_path / "new" / "deep" / "scored.parquet", data="some-lab/prompts")
    assert (tmp_path / "new" / "deep").is_dir()


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_column_that_is_there_already_is_an_error_that_names_it(
    tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"rows.{ending}"
    rows: list[dict[str, Any]] = [
        {"prompt": "a", "policy/response": "b"},
        {"prompt": "a", "policy/response": "b"},
    ]
    if ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    read = load_rows(str(path), split="train")
    check_columns(read, ONE, tmp_path / "scored.parquet")
    message = r"rows\.\w+, row 1: .*column policy/response already, .*rename"
    with pytest.raises(DataError, match=message):
        check_columns(read, SAMPLED, tmp_path / "scored.parquet")


def test_a_late_row_with_such_a_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(
        '{"a": 1}\n{"a": 1}\n{"judge/score": 1, "judge/label": "x"}\n'
    )
    read = load_rows(str(tmp_path / "rows.jsonl"), split="train")
    with pytest.raises(
        DataError, match=r"row 3: .* column judge/score already, .* \(and judge/label\); rename"
    ):
        check_columns(read, ONE, tmp_path / "scored.jsonl")


def test_keys_that_are_no_columns_are_refused_for_parquet_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({f"key {n}": n}) + "\n" for n in range(MOST_COLUMNS + 1)))
    read = load_rows(str(path), split="train")
    check_columns(read, ONE, tmp_path / "scored.jsonl")
    with pytest.raises(DataError, match=r"2000 different keys.*--out .*\.jsonl"):
        check_columns(read, ONE, tmp_path / "scored.parquet")


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_full_disk_is_one_line_and_leaves_what_was_there(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    out = tmp_path / f"scored.{ending}"
    out.write_text("of before")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        UserError, match=rf"^--out: .*scored\.{ending} cannot be written: No space left on device$"
    ):
        write(tmp_path / "rows.jsonl", out)
    assert out.read_text() == "of before"
    assert len(list(tmp_path.iterdir())) == 2
