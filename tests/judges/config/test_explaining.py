"""Texts that a setting holds or reads from a file."""

from pathlib import Path

import pytest

from judgegym.judges.config.explaining import text_or_file


def test_a_text_is_taken_as_it_is_and_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rubric.md"
    path.write_text("Is it right?\n", "utf-8")
    assert text_or_file(f"@{path}") == "Is it right?\n"
    for text in ("Is it right?", "", "no_such_file.md", f"See {path}.", "a\0b.md", "x." * 4000):
        assert text_or_file(text) == text


def test_the_name_of_a_file_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "rubric.md"
    path.write_text("Is it right?\n", "utf-8")
    with pytest.raises(ValueError, match="there is a file of this name; to read it write @"):
        text_or_file(str(path))
