"""What a process holds of a table that is mapped into memory does not grow with the rows that it has read."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from judgegym.data.arrow import MappedFiles
from judgegym.data.rows import load_rows

ROWS, LENGTH = 24_000, 4_000
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="pages are given back on Linux alone"
)


def held_of_files() -> int:
    """The bytes of mapped files that this process holds."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("RssFile")
    )
    return int(line.split()[1]) * 1024


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows_of_a_parquet_file(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"id": [0]}), tmp_path / "one.parquet")
    load_rows(str(tmp_path / "one.parquet"), split="train")  # the libraries are mapped, too
    before = held_of_files()
    text = "x" * LENGTH
    table = pyarrow.table(
        {"id": list(range(ROWS)), "text": [f"{number} {text}" for number in range(ROWS)]}
    )
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=2_000)
    del table
    rows = load_rows(str(tmp_path / "rows.parquet"), split="train")
    for number, row in enumerate(rows):
        assert row.values["id"] == number
    assert held_of_files() - before < ROWS * LENGTH / 2
    assert rows[5].text("text").startswith("5 xxx")


def test_a_page_that_was_given_back_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc" * 100_000)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        content = mapped[:]
        files = MappedFiles([str(path)])
        assert files.size >= 300_000
        path.unlink()
        files.give_back()
        assert mapped[:] == content
    assert MappedFiles([]).size == 0
