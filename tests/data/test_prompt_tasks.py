"""Rows that are asked as they are: texts and conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.data.answers import PromptTask, prompt_tasks
from judgegym.llm.errors import DataError
from tests.command import write_lines

SAID: list[dict[str, Any]] = [
    {"role": "user", "content": "Name a prime."},
    {"role": "assistant", "content": "Seven."},
    {"role": "user", "content": "Why?"},
]


def tasks(tmp_path: Path, *rows: dict[str, Any]) -> list[PromptTask]:
    return list(prompt_tasks(str(write_lines(tmp_path / "rows.jsonl", list(rows)))))


@pytest.mark.parametrize(
    ("row", "messages", "question"),
    [
        ({"prompt": "Why?"}, [{"role": "user", "content": "Why?"}], "Why?"),
        ({"question": "Why?", "answer": "So."}, [{"role": "user", "content": "Why?"}], "Why?"),
        ({"messages": SAID}, SAID, "user: Name a prime.\n\nassistant: Seven.\n\nuser: Why?"),
        ({"messages": SAID[:2]}, SAID[:1], "Name a prime."),
        (
            {"prompt": "Why?", "system": "Be short."},
            [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Why?"}],
            "system: Be short.\n\nuser: Why?",
        ),
    ],
)
def test_prompt_of_a_row(tmp_path: Path, row: dict[str, Any], messages: list[Any], question: str) -> None:
    (task,) = tasks(tmp_path, {**row, "category": "c"})
    assert (task.uid, task.messages, task.question, task.category) == ("row-1", messages, question, "c")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"text": "Why?"}, "a prompt, a text or messages"),
        ({"prompt": " "}, "a prompt, a text or messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "image_url"),
        ({"messages": [{"role": "tool", "content": "7"}, *SAID]}, "without tool calls"),
    ],
)
def test_row_that_cannot_be_asked_is_an_error_that_names_it(tmp_path: Path, row: dict[str, Any], what: str) -> None:
    with pytest.raises(DataError, match=rf"rows\.jsonl.* 1.*{what}"):
        tasks(tmp_path, row)


def test_column_that_is_not_read_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tasks(tmp_path, {"prompt": "Why?", "reference": "So.", "system": "Be short.", "response": "Since."})
    (record,) = caplog.records
    assert record.getMessage().endswith("that nobody is shown: reference")
