"""Prompts and responses as turns: what is written says what the judge saw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.data.rows import Row
from judgegym.datasets.rows.schema import ColumnSettings, read_responses
from judgegym.judges.conversations.turns import completion_text, render_transcript
from judgegym.llm.wire import JSON

SYSTEM = {"role": "system", "content": "Be brief."}
Q, A, MORE = (
    {"role": "user", "content": "Q"},
    {"role": "assistant", "content": "A"},
    {"role": "user", "content": "M"},
)
TRANSCRIPT = "\n\nHuman: Q\n\nAssistant: A\n\nHuman: M\n\nAssistant:"
NAMED = {"prompt_column": "rules,asked", "response_column": "said"}
TOOL = {"role": "tool", "content": "42"}


def read(
    values: dict[str, JSON], **columns: str
) -> tuple[list[tuple[str, str]], list[list[tuple[str, str]]]]:
    found = read_responses(Row("data", 1, values), ColumnSettings(**columns))
    assert render_transcript(found.turns) == found.prompt
    assert [completion_text(turns) for turns in found.response_turns] == list(found.texts)
    pairs = [
        [(turn.role, turn.text) for turn in turns] for turns in (found.turns, *found.response_turns)
    ]
    return pairs[0], pairs[1:]


def pairs(*messages: dict[str, str]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in messages]


@pytest.mark.parametrize(
    ("values", "columns", "prompt", "responses"),
    [
        ({"prompt": "Q", "response": "A"}, {}, pairs(Q), [pairs(A)]),
        ({"prompt": [SYSTEM, Q], "response": "A"}, {}, pairs(SYSTEM, Q), [pairs(A)]),
        (
            {"prompt": [SYSTEM, Q, A, MORE], "responses": [[A], [A, TOOL, A]]},
            {},
            pairs(SYSTEM, Q, A, MORE),
            None,
        ),
        ({"messages": [SYSTEM, Q, A, MORE, A]}, {}, pairs(SYSTEM, Q, A, MORE), [pairs(A)]),
        ({"messages": [Q, A]}, {}, pairs(Q), [pairs(A)]),
        ({"chosen": [SYSTEM, Q, A], "rejected": [SYSTEM, Q, TOOL]}, {}, pairs(SYSTEM, Q), None),
        ({"prompt": [SYSTEM], "chosen": [Q, A], "rejected": [Q, TOOL]}, {}, pairs(SYSTEM, Q), None),
        ({"prompt": "Q", "chosen": [Q, A], "rejected": [Q, TOOL]}, {}, pairs(Q), None),
        ({"prompt": TRANSCRIPT, "response": "A"}, {}, pairs(Q, A, MORE), [pairs(A)]),
        (
            {"chosen": "\n\nHuman: Q\n\nAssistant: A", "rejected": "\n\nHuman: Q\n\nAssistant: B"},
            {},
            pairs(Q),
            None,
        ),
        (
            {"rules": "Be brief.", "asked": "Q", "said": "A"},
            NAMED,
            [("user", "Be brief.\n\nQ")],
            [pairs(A)],
        ),
        (
            {"prompt": "Q", "answers": [{"answer": "A", "rank": 1}, {"answer": "M", "rank": 2}]},
            {},
            pairs(Q),
            None,
        ),
        (
            {"context": [Q, A, MORE], "response1": "A", "response2": "M"},
            {},
            pairs(Q, A, MORE),
            None,
        ),
    ],
)
def test_schemas(
    values: dict[str, JSON], columns: dict[str, str], prompt: object, responses: object
) -> None:
    found = read(values, **columns)
    assert found[0] == prompt
    if responses is not None:
        assert found[1] == responses


def test_a_response_of_several_turns_stays_in_turns() -> None:
    _, responses = read({"prompt": [SYSTEM, Q], "responses": [[A], [A, TOOL, A]]})
    assert responses == [pairs(A), pairs(A, TOOL, A)]


ROLES, CONTENTS = st.sampled_from(["user", "assistant", "system"]), st.text("ab\n:", max_size=4)
TURNS = st.lists(
    st.fixed_dictionaries({"role": ROLES, "content": CONTENTS}), min_size=1, max_size=4
)


@pytest.mark.slow
@given(TURNS, st.lists(TURNS, min_size=1, max_size=3))
def test_any_messages(prompt: list[dict[str, str]], responses: list[list[dict[str, str]]]) -> None:
    if shown_empty(prompt):
        return
    read({"prompt": prompt, "responses": responses})


def shown_empty(prompt: list[dict[str, str]]) -> bool:
    return len(prompt) == 1 and not prompt[0]["content"]
