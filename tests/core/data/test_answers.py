"""Existing answers: each row has one, and it is read when it is asked for."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judgegym.data.answers import answer_text, load_answers
from judgegym.data.rows import Row
from judgegym.llm.errors import DataError


@dataclass(frozen=True)
class Numbered:
    uid: str
    category: str | None = None
    question: str = "?"


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"answer": "x"}, "x"),
        ({"answer": ""}, ""),
        (
            {
                "messages": [
                    {"role": "user", "content": "q"},
                    {"role": "assistant", "content": {"answer": "x"}},
                ]
            },
            "x",
        ),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "x"),
        ({"answer": None, "messages": [{"content": {"answer": "x"}}]}, "x"),
        ({"messages": []}, None),
        ({"messages": [{"content": {"text": "x"}}]}, None),
        ({"messages": "x"}, None),
        ({"answer": 3}, None),
        ({}, None),
    ],
)
def test_the_answer_of_a_row(values: dict[str, Any], expected: str | None) -> None:
    row = Row("f", 1, {"uid": "a", **values})
    if expected is not None:
        assert answer_text(row) == expected
    else:
        with pytest.raises(
            DataError, match=r"f, row 1: .* answer .*messages\[-1\]\.content\.answer"
        ):
            answer_text(row)


def test_existing_answers(tmp_path: Path) -> None:
    path = write(
        tmp_path / "answers.jsonl", [{"uid": each, "answer": f"answer {each}"} for each in "cba"]
    )
    assert load_answers(path, [Numbered("a"), Numbered("c")]) == {"a": "answer a", "c": "answer c"}
    with pytest.raises(DataError, match=r"answers\.jsonl: no answer for 2 of 3 rows, such as 'x'"):
        load_answers(path, [Numbered("x"), Numbered("a"), Numbered("y")])


def test_answer_that_is_no_text_is_an_error_before_it_is_asked_for(tmp_path: Path) -> None:
    path = write(
        tmp_path / "answers.jsonl", [{"uid": "a", "answer": "x"}, {"uid": "b", "answer": 3}]
    )
    assert load_answers(path, [Numbered("a")])["a"] == "x", "no task asks for the other"
    with pytest.raises(DataError, match=r"answers\.jsonl, row 2: expected text in answer"):
        load_answers(path, [Numbered("a"), Numbered("b")])


def test_what_is_no_file_of_answers_is_not_looked_for_on_the_hub(tmp_path: Path) -> None:
    (tmp_path / "calls.jsonl.zst").write_bytes(b"")
    with pytest.raises(
        DataError,
        match=r"calls\.jsonl\.zst: expected a file .*\.gz, .*config\.yaml",
    ):
        load_answers(tmp_path / "calls.jsonl.zst", [Numbered("a")])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (b"", "no rows"),
        (b'{"row": "a", "call": {}}\n', "row 1: expected an id .* found: row, call"),
    ],
)
def test_ledger_without_its_run_is_no_file_of_answers(
    tmp_path: Path, lines: bytes, said: str
) -> None:
    path = tmp_path / "calls.jsonl.gz"
    path.write_bytes(gzip.compress(lines))
    with pytest.raises(DataError, match=rf"calls\.jsonl\.gz.*{said}"):
        load_answers(path, [Numbered("a")])
