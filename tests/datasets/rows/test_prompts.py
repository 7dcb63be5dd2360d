"""The prompt that a policy is asked, in each schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from judgegym.data.rows import Row
from judgegym.datasets.rows.schema import ColumnSettings, read_turns
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


SYSTEM = {"role": "system", "content": "s"}


@pytest.mark.parametrize(
    ("values", "settings", "turns"),
    [
        ({"prompt": "p"}, {}, [("user", "p")]),
        ({"prompt": "p", "response": "r"}, {}, [("user", "p")]),
        ({"question": None, "instruction": "i"}, {}, [("user", "i")]),
        ({"instruction": "i", "input": "x"}, {"prompt_column": "instruction, input"}, [("user", "i\n\nx")]),
        ({"prompt": [SYSTEM, user("p")]}, {}, [("system", "s"), ("user", "p")]),
        ({"messages": [user("p"), assistant("r")]}, {}, [("user", "p")]),
        ({"messages": [user("p"), assistant("r"), user("q")]}, {}, [("user", "p"), ("assistant", "r"), ("user", "q")]),
        ({"chosen": [user("p"), assistant("a")], "rejected": [user("p"), assistant("b")]}, {}, [("user", "p")]),
        ({"prompt": "p", "chosen": "a", "rejected": "b"}, {}, [("user", "p")]),
        (
            {"chosen": "\n\nHuman: p\n\nAssistant: a", "rejected": "\n\nHuman: p\n\nAssistant: b"},
            {},
            [("user", "p")],
        ),
        ({"prompt": "\n\nHuman: p\n\nAssistant:"}, {}, [("user", "p")]),
    ],
)
def test_what_a_policy_is_asked(
    values: Mapping[str, JSON], settings: Mapping[str, Any], turns: list[tuple[str, str]]
) -> None:
    found = read_turns(Row("data.jsonl", 1, values), ColumnSettings(**settings))
    assert [(turn.role, turn.text) for turn in found.turns] == turns


@pytest.mark.parametrize(
    "values", [{"id": 1}, {"prompt": "  "}, {"messages": [SYSTEM]}, {"messages": [assistant("a")]}]
)
def test_a_row_without_a_prompt_is_named(values: Mapping[str, JSON]) -> None:
    with pytest.raises(DataError, match=r"row 1.*--prompt_column"):
        read_turns(Row("data.jsonl", 1, values), ColumnSettings())
