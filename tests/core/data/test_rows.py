import json
import logging
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from judgegym.data.rows import Row, index_by_uid, load_rows
from judgegym.llm.errors import DataError

ROWS = [{"uid": "a", "prompt": "Why é?\n"}, {"uid": "b", "prompt": "数学 \u2028 \u0085 ."}]


def load(path: Path, text: str | bytes) -> list[dict[str, Any]]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [dict(row.values) for row in load_rows(str(path), split="train")]


def lines(rows: list[dict[str, Any]], *, ascii_only: bool = False) -> str:
    return "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.jsonl", lines(ROWS)),
        ("rows.jsonl", lines(ROWS, ascii_only=True)),
        ("ROWS.JSONL", lines(ROWS)),
        ("rows.jsonl", lines(ROWS).rstrip("\n")),
        ("rows.jsonl", lines(ROWS).replace("}\n", "}\r\n")),
        ("rows.jsonl", "\ufeff" + lines(ROWS)),
        ("rows.jsonl", lines(ROWS).replace("}\n", "}\n\n \n")),
        ("rows.json", json.dumps(ROWS)),
    ],
    ids=[
        "jsonl",
        "escapes",
        "upper case",
        "no last newline",
        "CRLF",
        "byte order mark",
        "blank lines",
        "json",
    ],
)
def test_rows_of_a_file(tmp_path: Path, name: str, text: str) -> None:
    assert load(tmp_path / name, text) == ROWS


def test_rows_of_a_csv_file(tmp_path: Path) -> None:
    assert load(tmp_path / "rows.csv", 'uid,prompt\na,"Why, é?"\nb,"""B"" \nline"\n') == [
        {"uid": "a", "prompt": "Why, é?"},
        {"uid": "b", "prompt": '"B" \nline'},
    ]


def test_rows_of_a_parquet_file(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    assert [
        dict(row.values) for row in load_rows(str(tmp_path / "rows.parquet"), split="train")
    ] == ROWS


def test_a_hub_dataset_that_cannot_be_loaded_is_named_with_its_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load_dataset(name: str, *, split: str) -> list[dict[str, Any]]:
        raise ValueError("no such split\nand more")

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    with pytest.raises(DataError, match=r"^some-lab/prompts: .*\(split 'dev'\): no such split[; ]"):
        load_rows("some-lab/prompts", split="dev")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_text_that_looks_like_something_else_stays_text(tmp_path: Path, name: str) -> None:
    """A date, a number, `NA` or `null` may be somebody's id, prompt or answer."""
    texts = ["2024-01-01", "2024-05-05 10:00:00", "007", "1e5", "NA", "null", "True", "None"]
    rows = [{"uid": text, "answer": text} for text in texts]
    csv = "uid,answer\n" + "".join(f'"{text}","{text}"\n' for text in texts)
    path = tmp_path / name
    for alone in (rows, rows[:1], rows[2:3]):  # all columns alike, or mixed
        load(path, lines(alone) if name.endswith("jsonl") else csv)
        found = load_rows(str(path), split="train")
        expected = texts if name.endswith("csv") else [row["uid"] for row in alone]
        assert [row.uid() for row in found] == expected
        assert [row.text("answer") for row in found] == expected


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    assert load(
        tmp_path / "rows.jsonl",
        '{"uid": "a\\ud800", "x": ["\\udc00", {"\\ud83d": "\\ud83d\\ude00"}]}\n',
    ) == [{"uid": "a\ufffd", "x": ["\ufffd", {"\ufffd": "😀"}]}]


def test_rows_may_differ_in_their_types(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"uid": 1, "prompt": "x", "meta": 3},
        {"uid": "b", "prompt": "y", "meta": {"a": [1, "2"]}},
        {"uid": 7.5, "prompt": "z"},
    ]
    found = load(tmp_path / "rows.jsonl", lines(rows))
    assert [
        {name: value for name, value in row.items() if value is not None} for row in found
    ] == rows


@pytest.mark.parametrize("text", ['{"uid": "a\\ud800"}\n', lines([{"uid": 1}, {"uid": "b"}])])
def test_reading_what_is_in_order_says_nothing(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG, logger="judgegym"):
        load(tmp_path / "rows.jsonl", text)
    assert [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ] == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rows.jsonl", '{"uid": "a"}\n\n{"uid": \n', "row 3: not JSON"),
        ("rows.jsonl", '{"uid": "a"}\n{"uid": "b", "pro', "row 2: not JSON"),
        ("rows.jsonl", b'{"uid": "caf\xe9"}\n', "row 1: not JSON"),
        ("rows.jsonl", '{"uid": "a"}\n["b"]\n', "row 2: expected an object, .*list"),
        ("rows.jsonl", "3\n", "row 1: expected an object, .*int"),
        ("rows.jsonl", "", "no rows"),
        ("rows.jsonl", "\n\n", "no rows"),
        ("rows.json", "", "no rows"),
        ("rows.json", "[]", "no rows"),
        ("rows.json", "{", "not JSON"),
        ("rows.csv", "", "no rows"),
        ("rows.csv", "uid,prompt\n", "no rows"),
        ("rows.csv", "uid,prompt\na,Q?\nb,Q?,more\n", "row 2 has 3 fields, .* 2 columns"),
        ("rows.csv", "uid,prompt\na,Q?,\nb,Q?,\n", "row 1 has 3 fields, .* 2 columns"),
        ("rows.csv", "uid,prompt,prompt\na,Q?,R?\n", "the header names prompt twice"),
        ("rows.csv", b"uid,prompt\na,caf\xe9\n", "cannot be loaded: .*utf-8"),
        ("rows.parquet", "nope", "cannot be loaded: .*[Pp]arquet"),
    ],
)
def test_a_file_that_cannot_be_used(
    tmp_path: Path, name: str, text: str | bytes, words: str
) -> None:
    with pytest.raises(DataError, match=rf"{name}.*({words})") as caught:
        load(tmp_path / name, text)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    for name in ("none.jsonl", "folder.jsonl"):
        with pytest.raises(DataError, match=rf"{name}: .*no such file"):
            load_rows(str(tmp_path / name), split="train")


def test_a_home_directory_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    load(tmp_path / "rows.jsonl", lines(ROWS))
    assert len(load_rows("~/rows.jsonl", split="train")) == 2


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv", "rows.parquet"])
def test_a_file_that_changes_is_read_anew(tmp_path: Path, name: str) -> None:
    """Libraries cache what they read; here size and, as it may be, time stay the same."""
    path = tmp_path / name
    for uid in ("one", "two", "six"):
        if name.endswith("parquet"):
            pyarrow.parquet.write_table(pyarrow.table({"uid": [uid]}), path)
        else:
            path.write_text(f"uid\n{uid}\n" if name.endswith("csv") else lines([{"uid": uid}]))
        os.utime(path, (1_000_000_000, 1_000_000_000))
        assert [dict(row.values) for row in load_rows(str(path), split="train")] == [{"uid": uid}]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"uid": "a", "id": "b"}, "a"),
        ({"question_id": "q"}, "q"),
        ({"id": 7}, "7"),
        ({"uid": 0}, "0"),
        ({"uid": "", "id": "b"}, "b"),
        ({"uid": None, "question_id": "q"}, "q"),
        ({"uid": ["a"], "id": "b"}, "b"),
    ],
)
def test_the_id_of_a_row(values: dict[str, Any], expected: str) -> None:
    assert Row("f", 1, values).uid() == expected


def test_what_a_row_lacks_is_said_with_its_place_and_columns() -> None:
    row = Row("data.jsonl", 3, {"text": "x", "n": 1})
    with pytest.raises(
        DataError, match=r"data\.jsonl, row 3: expected an id in uid or .*; columns found: text, n"
    ):
        row.uid()
    with pytest.raises(
        DataError, match=r"data\.jsonl, row 3: expected text in prompt or n; columns found: text, n"
    ):
        row.text("prompt", "n")
    with pytest.raises(DataError, match=r"columns found: none"):
        Row("data.jsonl", 3, {}).text("prompt")
    assert row.optional_text("prompt", "text") == "x"
    assert row.optional_text("prompt") is None


def test_two_rows_with_one_id() -> None:
    rows = [Row("f", 1, {"uid": "a"}), Row("f", 2, {"uid": "b"}), Row("f", 3, {"uid": "a"})]
    named = index_by_uid(rows[:2])
    assert list(named) == ["a", "b"]
    assert named["b"] is rows[1]
    assert len(named) == 2
    assert "c" not in named
    with pytest.raises(DataError, match=r"f, row 3: .*id 'a' .*row 1"):
        index_by_uid(rows)


def test_a_file_of_another_kind_is_not_looked_for_on_the_hub(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("{}", "utf-8")
    with pytest.raises(DataError, match=r"data\.txt: expected a file .*\.jsonl"):
        load_rows(str(tmp_path / "data.txt"), split="train")
