"""The prompt that a policy is asked, in each schema.

The prompt and the responses of a row, in every schema that is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from judgegym.data.rows import Row
from judgegym.datasets.rows.schema import ColumnSettings, read_responses, read_turns
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
        (
            {"instruction": "i", "input": "x"},
            {"prompt_column": "instruction, input"},
            [("user", "i\n\nx")],
        ),
        ({"prompt": [SYSTEM, user("p")]}, {}, [("system", "s"), ("user", "p")]),
        ({"messages": [user("p"), assistant("r")]}, {}, [("user", "p")]),
        (
            {"messages": [user("p"), assistant("r"), user("q")]},
            {},
            [("user", "p"), ("assistant", "r"), ("user", "q")],
        ),
        (
            {"chosen": [user("p"), assistant("a")], "rejected": [user("p"), assistant("b")]},
            {},
            [("user", "p")],
        ),
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


USER = {"role": "user", "content": "Name a prime."}
SEVEN, NINE = {"role": "assistant", "content": "Seven."}, {"role": "assistant", "content": "Nine."}
RANKED = [{"answer": "Nine.", "rank": 2}, {"answer": "Seven.", "rank": 1}]


@pytest.mark.parametrize(
    ("values", "texts", "several"),
    [
        ({"prompt": "Name a prime.", "response": "Seven."}, ("Seven.",), False),
        ({"prompt": [USER], "completion": [SEVEN]}, ("Seven.",), False),
        ({"question": "Name a prime.", "answer": "Seven.", "context": "x"}, ("Seven.",), False),
        (
            {"problem": "Name a prime.", "answer": "7", "generations": ["Seven.", "Nine."]},
            ("Seven.", "Nine."),
            True,
        ),
        ({"messages": [USER, SEVEN]}, ("Seven.",), False),
        ({"messages": [USER, SEVEN], "response": "Nine."}, ("Nine.",), False),
        ({"prompt": "Name a prime.", "responses": ["Seven.", ""]}, ("Seven.", ""), True),
        ({"prompt": "Name a prime.", "responses": ["Seven."]}, ("Seven.",), True),
        ({"prompt": "Name a prime.", "completions": [[SEVEN], [NINE]]}, ("Seven.", "Nine."), True),
        (
            {"prompt": "Name a prime.", "chosen": "Seven.", "rejected": "Nine."},
            ("Seven.", "Nine."),
            True,
        ),
        ({"chosen": [USER, SEVEN], "rejected": [USER, NINE]}, ("Seven.", "Nine."), True),
        (
            {"prompt": "Name a prime.", "chosen": ["Seven."], "rejected": ["Nine.", "One."]},
            ("Seven.", "Nine.", "One."),
            True,
        ),
        (
            {
                "context": [USER],
                "response1": "Seven.",
                "response2": "Nine.",
                "overall_preference": 0,
            },
            ("Seven.", "Nine."),
            True,
        ),
        (
            {"question": "Name a prime.", "response_A": "Seven.", "response_B": "Nine."},
            ("Seven.", "Nine."),
            True,
        ),
        (
            {
                "prompt": "Name a prime.",
                "answers": [{"answer": "Nine.", "rank": 2}, {"answer": "Seven.", "rank": 1}],
            },
            ("Nine.", "Seven."),
            True,
        ),
    ],
)
def test_usual_schemas_are_found(
    values: Mapping[str, JSON], texts: tuple[str, ...], several: bool
) -> None:
    found = read_responses(Row("data.jsonl", 1, values), ColumnSettings())
    assert (found.prompt, found.texts, found.several) == ("Name a prime.", texts, several)


def test_equal_scores_of_a_pair_do_not_hide_its_responses() -> None:
    values = {"prompt": "p", "chosen": "a", "rejected": "b", "score_chosen": 1, "score_rejected": 1}
    assert read_responses(Row("data.jsonl", 1, values), ColumnSettings()).texts == ("a", "b")


def test_named_columns_go_first() -> None:
    values = {
        "instruction": "Add.",
        "input": "2 and 2",
        "empty": None,
        "response": "wrong",
        "a": "4",
        "b": "5",
    }
    named = ColumnSettings(prompt_column="instruction,input,empty", response_column="a,b")
    found = read_responses(Row("data.jsonl", 1, values), named)
    assert (found.prompt, found.texts, found.several) == ("Add.\n\n2 and 2", ("4", "5"), True)
    assert found.columns == ("instruction", "input", "empty", "a", "b")


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ({"text": "no more"}, {}, "expected a prompt .*--prompt_column; columns found: text"),
        ({"question": "q"}, {}, "prompt in question .*--response_column; .*found: question"),
        ({"prompt": "p", "response": 3}, {}, "columns found: prompt, response"),
        ({"prompt": "p", "x": 3}, {"response_column": "x"}, "in x, .*type int"),
        ({"prompt": "p"}, {"response_column": "x"}, "in x, .*holds nothing"),
        ({"prompt": "p", "x": []}, {"response_column": "x"}, "in x, .*an empty list"),
        (
            {"prompt": "p", "x": ["a", None]},
            {"response_column": "x"},
            "in x, .*entry 2 is nothing",
        ),
        ({"prompt": "p", "responses": ["a", 3]}, {}, "responses holds .*entry 2 .*type int"),
        (
            {"prompt": 5, "response": "r"},
            {"prompt_column": "prompt"},
            "in prompt; columns found: prompt, response",
        ),
        (
            {"prompt": "p", "a": ["1", "2"], "b": "3"},
            {"response_column": "a,b"},
            "one response in a, .*--response_column",
        ),
        ({"messages": [USER]}, {}, "in messages .*the user; .*--responses_per_prompt"),
        (
            {
                "conversations": [
                    {"from": "gpt", "value": "Hello"},
                    {"from": "human", "value": "Bye"},
                ]
            },
            {},
            "in conversations .*the user; .*--responses_per_prompt",
        ),
        (
            {"prompt": ["a", "b"], "response": ["c", "d"]},
            {},
            "file of rows",
        ),
    ],
)
def test_a_row_without_them_is_named(
    values: Mapping[str, JSON], settings: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=rf"^data\.jsonl, row 7: .*{message}"):
        read_responses(Row("data.jsonl", 7, values), ColumnSettings(**settings))
