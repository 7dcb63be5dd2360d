"""Conversations in data: chat messages, and transcripts as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.core.turns import UnseenPart, text_turn, transcript, turns_of, turns_of_transcript

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "text", "type"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("\n\nHuman: Q?\n\nAssistant: A.", [("user", "Q?"), ("assistant", "A.")]),
        ("Human: Q?\n\nAssistant:", [("user", "Q?")]),
        (
            "Human: 1\n2\n\n3\n\nAssistant: A: b\n\nHuman: 4\n\nAssistant: ",
            [("user", "1\n2\n\n3"), ("assistant", "A: b"), ("user", "4")],
        ),
        ("Human: What is Human: for?\n\nAssistant: You.", [("user", "What is Human: for?"), ("assistant", "You.")]),
    ],
)
def test_transcripts(text: str, turns: list[tuple[str, str]]) -> None:
    assert turns_of_transcript(text) == tuple(text_turn(*turn) for turn in turns)


@pytest.mark.parametrize(
    "text", ["", "Q?", "Human: Q?", "Assistant: A.\n\nHuman: Q?", "So, Human: Q?\n\nAssistant: A."]
)
def test_other_texts_are_no_transcript(text: str) -> None:
    assert turns_of_transcript(text) is None


@given(JSON)
def test_any_value_is_turns_or_none_or_holds_what_no_judge_is_shown(value: object) -> None:
    try:
        turns = turns_of(value)
    except UnseenPart:
        return
    assert turns is None or (turns and isinstance(transcript(turns), str))


@given(st.text())
def test_any_text_is_a_transcript_or_none(text: str) -> None:
    assert turns_of_transcript(text) is None or "Human:" in text
