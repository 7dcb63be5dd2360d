"""Scored files as they are read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from judgegym.datasets.files.columns import AddedColumns
from judgegym.datasets.files.writer import read_scored
from judgegym.llm.errors import DataError

SINGLE: dict[str, Any] = {
    "judge/score": 0.5,
    "judge/status": "ok",
    "judge/label": "[[A>B]]",
    "judge/explanation": "It is short.",
    "judge/detail": '{"raw": 3.0}',
}
FAILED: dict[str, Any] = {
    "judge/score": None,
    "judge/status": "judge_failed",
    "judge/label": None,
    "judge/explanation": "HTTP 500",
    "judge/detail": None,
}
SEVERAL = {name: [SINGLE[name], FAILED[name]] for name in SINGLE}


def write(path: Path, rows: list[dict[str, Any]], columns: AddedColumns) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        types = {"prompt": pyarrow.string(), **columns.arrow_types()}
        pyarrow.parquet.write_table(
            pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(types.items())), path
        )
    return path


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_rows_have_one_entry_for_each_response(tmp_path: Path, ending: str) -> None:
    path = write(
        tmp_path / f"one.{ending}",
        [{"prompt": "Why?", **each} for each in (SINGLE, FAILED)],
        AddedColumns(False),
    )
    first, second = read_scored(path)
    assert (first.several, first.score, first.status, first.label) == (
        False,
        (0.5,),
        ("ok",),
        ("[[A>B]]",),
    )
    assert first.row.text("prompt") == "Why?"
    assert first.components(0) == {"raw": 3.0}
    assert (second.score, second.status, second.explanation) == (
        (None,),
        ("judge_failed",),
        ("HTTP 500",),
    )
    assert second.components(0) is None

    path = write(
        tmp_path / f"several.{ending}", [{"prompt": "Why?", **SEVERAL}], AddedColumns(True)
    )
    (row,) = read_scored(path)
    assert (row.several, row.score, row.status) == (True, (0.5, None), ("ok", "judge_failed"))
    assert row.detail == ('{"raw": 3.0}', None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "Why?"}, "rows.jsonl: .*lacks judge/score"),
        (
            {**SINGLE, "judge/score": "0.5"},
            "rows.jsonl, row 1: judge/score .*expected float or",
        ),
        ({**SINGLE, "judge/score": None}, "row 1: the status is 'ok' and the score None"),
        ({**FAILED, "judge/score": 0.0}, "row 1: the status is 'judge_failed' and the score 0.0"),
        ({**SEVERAL, "judge/label": ["a"]}, "row 1: .*different lengths"),
        ({**SINGLE, "judge/label": ["a"]}, "row 1: judge/label .*expected str or"),
    ],
)
def test_what_scoring_has_not_written_is_an_error_that_names_it(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "rows.jsonl", [row], AddedColumns(False))
    with pytest.raises(DataError, match=message):
        list(read_scored(path))
