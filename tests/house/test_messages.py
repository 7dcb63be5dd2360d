"""The messages to users stand in one file, where an editor reads them."""

from __future__ import annotations

import pytest

from tests.command import ROOT
from tests.house.messages import FILE, Message, find_messages, list_messages
from tests.house.wording import find_repetitions, list_repetitions, read_wording


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


def test_no_test_repeats_the_wording_of_a_message() -> None:
    """A test names the facts: an editor rewords a message and writes one file again."""
    assert [*list_repetitions(ROOT / "tests")] == []


_LISTED = """## judgegym/data/rows.py
error: {…}: the row {…} has no id in column {…}

## judgegym/judges/aspects/prompt.py
text: the answer to be judged is {…}
"""


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('match="the row x has no id in column y"', 1),
        ('match="row x has no id.* y"', 0),
        ('match="has no id in"', 1),
        ('match=f"{name}: x Has no id in column"', 1),
        ('"""It has no id in column a."""', 0),
        ('match="the answer to be judged is"', 0),
    ],
)
def test_wording_is_found(source: str, count: int) -> None:
    repetitions = find_repetitions(source, read_wording(_LISTED), "tests/test_rows.py")
    assert len([*repetitions]) == count
