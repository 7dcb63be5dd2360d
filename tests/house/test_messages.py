"""The messages to users stand in one file, where an editor reads them."""

from __future__ import annotations

import pytest

from tests.house.messages import FILE, Message, find_messages, list_messages


def test_the_file_has_all_messages() -> None:
    """After a change: `python -m tests.house.messages --write`, and read the difference."""
    assert list_messages().splitlines() == FILE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("source", "messages"),
    [
        ('"""About a module and more."""\n', []),
        ('raise DataError("a row has no id")', [Message(1, "error", "a row has no id")]),
        ('log.warning("no id in %s", row)', [Message(1, "log", "no id in %s")]),
        (
            'raise DataError(f"{row}: has no " f"id here")',
            [Message(1, "error", "{…}: has no id here")],
        ),
        ('x: int = setting(1, "how many there are")', [Message(1, "help", "how many there are")]),
        ('return "no id"', []),
        ('return f"no id in {row}"', [Message(1, "text", "no id in {…}")]),
    ],
)
def test_messages_are_found(source: str, messages: list[Message]) -> None:
    assert [*find_messages(source)] == messages
