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
def test_prompt_of_a_row(
    tmp_path: Path, row: dict[str, Any], messages: list[Any], question: str
) -> None:
    (task,) = tasks(tmp_path, {**row, "category": "c"})
    assert (task.uid, task.messages, task.question, task.category) == (
        "row-1",
        messages,
        question,
        "c",
    )


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"text": "Why?"}, "a prompt, "),
        ({"prompt": " "}, "a prompt, "),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
                ]
            },
            "type image,",
        ),
        ({"messages": [{"role": "tool", "content": "7"}, *SAID]}, "without tool calls"),
    ],
)
def test_row_that_cannot_be_asked_is_an_error_that_names_it(
    tmp_path: Path, row: dict[str, Any], what: str
) -> None:
    with pytest.raises(DataError, match=rf"rows\.jsonl.* 1.*{what}"):
        tasks(tmp_path, row)


FIRST, SECOND = SAID[0]["content"], SAID[2]["content"]


@pytest.mark.parametrize(
    ("row", "asked", "messages", "follow_ups"),
    [
        (
            {"turns": [FIRST, SECOND, "So?"], "prompt": "Not this."},
            "last",
            SAID[:1],
            (SECOND, "So?"),
        ),
        ({"turns": [FIRST]}, "last", SAID[:1], ()),
        ({"turns": 2, "prompt": FIRST}, "last", SAID[:1], ()),
        ({"turns": [FIRST, SECOND], "prompt": FIRST}, None, SAID[:1], ()),
        ({"messages": SAID}, "last", SAID, ()),
        ({"messages": SAID}, "all", SAID[:1], (SECOND,)),
        ({"messages": SAID[:2]}, "all", SAID[:1], ()),
        ({"messages": [*SAID, SAID[2]]}, "all", SAID[:1], (f"{SECOND}\n\n{SECOND}",)),
        ({"messages": [SAID[1], *SAID]}, "all", [SAID[1], SAID[0]], (SECOND,)),
        (
            {"messages": [*SAID[:2], SAID[1], *SAID[2:], SAID[1], SAID[0]]},
            "all",
            SAID[:1],
            (SECOND, FIRST),
        ),
    ],
)
def test_turns_of_the_user(
    tmp_path: Path,
    row: dict[str, Any],
    asked: Any,
    messages: list[Any],
    follow_ups: tuple[str, ...],
) -> None:
    path = write_lines(tmp_path / "rows.jsonl", [row])
    (task,) = prompt_tasks(str(path), turns=asked)
    assert (task.messages, task.follow_ups) == (messages, follow_ups)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"turns": []}, "in turns .*of the user"),
        ({"turns": ["Why?", " "]}, "in turns .*of the user"),
        ({"turns": ["Why?", 3]}, "in turns .*of the user"),
        ({"turns": "Why?"}, "list of texts .*turns"),
        (
            {"messages": [*SAID[:2], {"role": "system", "content": "Stop."}, SAID[2]]},
            "found one of system: 'Stop.'",
        ),
        ({"messages": [*SAID[:2], {"role": "user", "content": " "}]}, "found one of user: ' '"),
    ],
)
def test_turns_that_cannot_be_asked_are_an_error_that_names_the_row(
    tmp_path: Path, row: dict[str, Any], what: str
) -> None:
    path = write_lines(tmp_path / "rows.jsonl", [row])
    with pytest.raises(DataError, match=rf"rows\.jsonl.* 1.*{what}"):
        list(prompt_tasks(str(path), turns="all"))


def test_prompt_beside_turns_is_named_as_unread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"turns": ["Why?"], "prompt": "Not this."}, {"turns": 1, "question": "This."}]
    list(prompt_tasks(str(write_lines(tmp_path / "rows.jsonl", rows)), turns="last"))
    (record,) = caplog.records
    assert "not read" in record.getMessage() and record.getMessage().endswith(": prompt")
