"""Objects of JSON files are read when they are asked for: as they were, or not at all."""

from __future__ import annotations

import gc
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.data import json_file
from judgegym.data.json_file import JsonFile, iter_list_objects
from judgegym.llm.errors import DataError

ROWS = [{"uid": f"row-{number}", "text": f"{number} é 数学 {'x' * number}"} for number in range(50)]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_list(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows, ensure_ascii=False, indent=1))


KINDS = pytest.mark.parametrize(
    ("name", "write"),
    [("rows.jsonl", write_lines), ("rows.json", write_list), ("rows.json", write_lines)],
)


@KINDS
def test_objects_are_there_in_any_order(
    tmp_path: Path, name: str, write: Callable[..., None]
) -> None:
    write(tmp_path / name, ROWS)
    file = JsonFile(tmp_path / name)
    assert len(file) == len(ROWS)
    assert [file[place] for place in reversed(range(len(ROWS)))] == ROWS[::-1]
    assert file[-1] == ROWS[-1]
    assert file[1:3] == ROWS[1:3]
    with pytest.raises(IndexError):
        file[len(ROWS)]


@KINDS
def test_file_that_is_replaced_is_read_to_its_end(
    tmp_path: Path, name: str, write: Callable[..., None]
) -> None:
    path = tmp_path / name
    write(path, ROWS)
    file = JsonFile(path)
    write(tmp_path / "next", ROWS[::-1])
    (tmp_path / "next").replace(path)
    assert list(file) == ROWS
    path.unlink()
    assert list(file) == ROWS


@KINDS
def test_file_that_is_cut_off_is_an_error_that_names_it(
    tmp_path: Path, name: str, write: Callable[..., None]
) -> None:
    path = tmp_path / name
    write(path, ROWS)
    file = JsonFile(path)
    os.truncate(path, path.stat().st_size // 2)
    assert file[0] == ROWS[0]
    with pytest.raises(DataError, match=rf"{name}: .*changed since"):
        file[len(ROWS) - 1]


@KINDS
def test_file_that_is_rewritten_is_an_error_though_size_and_time_are_the_same(
    tmp_path: Path, name: str, write: Callable[..., None]
) -> None:
    path = tmp_path / name
    write(path, ROWS)
    before = path.stat()
    file = JsonFile(path)
    write(path, [{**row, "text": row["text"].replace("é", "è")} for row in ROWS])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    with pytest.raises(DataError, match=rf"{name}: .*changed since"):
        file[7]


def test_lines_that_are_appended_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_lines(path, ROWS)
    file = JsonFile(path)
    with path.open("a") as lines:
        lines.write('{"uid": "late"}\n')
    assert list(file) == ROWS


def times_open(path: Path) -> int:
    """How often this process has a file open; others may be closed meanwhile."""
    return sum(
        os.path.realpath(each) == str(path.resolve()) for each in Path("/proc/self/fd").iterdir()
    )


@KINDS
def test_file_is_closed_with_the_last_reference_to_it(
    tmp_path: Path, name: str, write: Callable[..., None]
) -> None:
    path = tmp_path / name
    write(path, ROWS)
    file = JsonFile(path)
    assert times_open(path) == 1
    del file
    assert times_open(path) == 0


def test_file_that_cannot_be_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('{"uid": "a"}\n{')
    with pytest.raises(DataError):
        JsonFile(path)
    gc.collect()
    assert times_open(path) == 0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10**9) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), max_size=6)


@pytest.mark.slow
@given(
    rows=OBJECTS,
    indent=st.none() | st.integers(0, 2),
    ascii_only=st.booleans(),
    piece=st.integers(1, 9),
)
def test_objects_of_any_list_are_found_however_the_file_is_cut_into_pieces(
    rows: list[dict[str, Any]], indent: int | None, ascii_only: bool, piece: int
) -> None:
    data = (" \n" + json.dumps(rows, indent=indent, ensure_ascii=ascii_only) + "\n ").encode(
        "utf-8", "surrogatepass"
    )
    file = io.BytesIO(data)
    found = list(iter_list_objects(lambda size: file.read(min(size, piece))))
    assert [json.loads(text) for _, text in found] == rows
    assert all(data[offset : offset + len(text)] == text for offset, text in found)
    assert file.read() == b"", "all bytes were read, for the digest"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"a": 1}, 3]', ", row 2: expected an object, .*int"),
        ('[{"a": 1}, "{}"]', ", row 2: expected an object, .*str"),
        ('[[{"a": 1}]]', ", row 1: expected an object, .*list"),
        ('[{"a": 1},]', ": not JSON: "),
        ('[{"a": 1} {"a": 2}]', ": not JSON: "),
        ('[{"a": 1}, {"a": 2}', ": not JSON: "),
        ('[{"a": 1}, {"a": "', ": not JSON: "),
        ('[{"a": 1}, {"a": ]}', ": not JSON: "),
        ('[{"a": 1}]]', ": not JSON: "),
        ('[{"a": 1}] {"b": 2}', ": not JSON: "),
        ('[,{"a": 1}]', ": not JSON: "),
        ('[{"a": }]', ": not JSON: "),
        ("[", ": not JSON: "),
    ],
)
def test_list_of_something_else_is_an_error_that_names_the_file(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}{words}"):
        JsonFile(path)


def test_list_in_another_encoding_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_bytes('[{"a": "é"}]'.encode("utf-16-le"))
    with pytest.raises(DataError, match=r"rows\.json: expected a list .*UTF-8"):
        JsonFile(tmp_path / "rows.json")


def test_list_longer_than_a_piece_and_behind_white_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_file, "_PIECE", 16)
    (tmp_path / "rows.json").write_text("\ufeff" + " " * 40 + json.dumps(ROWS) + "\n" * 40)
    assert list(JsonFile(tmp_path / "rows.json")) == ROWS
