"""Lines that are read back: whole ones, with file and number in every error."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from judgegym.engine.runs.lines import cut_torn_line, read_lines, whole_lines
from judgegym.llm.errors import RunDirectoryError


def test_lines_have_their_number_offset_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    data = '{"a":"\u2028\u0085"}\n{"b":1}\n{"c":'.encode()
    path.write_bytes(data)
    lines = list(whole_lines(path))
    assert [line.number for line in lines] == [1, 2]
    assert [data[line.offset :][: len(line.data)] for line in lines] == [line.data for line in lines]
    assert [line.fields() for line in lines] == [{"a": "\u2028\u0085"}, {"b": 1}]
    assert path.read_bytes() == data, "to read is not to cut"


def test_missing_file_has_no_lines(tmp_path: Path) -> None:
    assert not list(read_lines(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=re.escape(f"{tmp_path} cannot be read: ")):
        list(read_lines(tmp_path))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"[" * 20_000 + b"]" * 20_000, "not JSON: nested too deeply"),
        (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, "not JSON: nested too deeply"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"3", "expected an object"),
    ],
)
def test_line_that_is_no_object_is_an_error_with_file_and_number(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b"{}\n" + line + b"\n")
    with pytest.raises(RunDirectoryError, match=rf"^{re.escape(str(path))}, line 2: {words}"):
        list(read_lines(path))
    assert path.read_bytes().endswith(line + b"\n")


@pytest.mark.parametrize("whole", [b"", b"{}\n", b"{}\n" * 50_000, b"{}\n" + b" " * 200_000 + b"\n"])
@pytest.mark.parametrize("torn", [b"", b'{"a"', b"x" * 65_535, b"x" * 65_536, b"x" * 150_000, b"\0\0"])
def test_torn_line_of_any_length_is_cut(tmp_path: Path, whole: bytes, torn: bytes) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(whole + torn)
    descriptor = os.open(path, os.O_RDWR)
    assert cut_torn_line(descriptor) == len(whole)
    os.close(descriptor)
    assert path.read_bytes() == whole
