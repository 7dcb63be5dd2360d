"""Put the output into a page of the handbook, between two marks."""

from __future__ import annotations

from pathlib import Path

from judgegym.llm.errors import SettingsError

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def put_into(page: Path, text: str) -> None:
    """Replace the text between the marks of a page.

    Raises:
        SettingsError: there is no such page, or it lacks a mark.
    """
    before, begin, after, end = _parts(page)
    page.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def check(page: Path) -> None:
    """Check that a page has the marks, before anything is measured.

    Raises:
        SettingsError: there is no such page, or it lacks a mark.
    """
    _parts(page)


def _parts(page: Path) -> tuple[str, str, str, str]:
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--page: {page} cannot be read: {error.strerror}") from error
    before, begin, remainder = text.partition(BEGIN)
    _, end, after = remainder.partition(END)
    if not begin or not end:
        lacking_line = BEGIN if not begin else END
        raise SettingsError(f"--page: {page} lacks a line {lacking_line}")
    return before, begin, after, end
