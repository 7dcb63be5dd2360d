"""Conversations of trainers as the judge is sent them."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from judgegym.integrations.scores.requests import CellError, conversation_json
from judgegym.judges.core.turns import ChatTurn, UnseenPart, answer_of

CALL = {"function": {"name": "look", "arguments": {"at": 1}}}
PICTURE = object()


@pytest.mark.parametrize(
    ("turn", "shown"),
    [
        ({"content": "Hello."}, "Hello."),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]}, "Hello."),
        ({"content": numpy.array([{"type": "text", "text": "Hello."}], dtype=object)}, "Hello."),
        ({"content": ["Hello."]}, "Hello."),
        ({"content": [{"type": "reasoning", "text": "secret"}, {"type": "text", "text": "Yes."}]}, "[reasoning]Yes."),
        ({"content": "Look:", "tool_calls": [CALL]}, 'Look:\n[tool call: look({"at":1})]'),
        (
            {"content": [{"type": "text", "text": "Look:"}], "tool_calls": [CALL]},
            'Look:\n[tool call: look({"at":1})]',
        ),
        ({"tool_calls": [{"function": {"name": "look", "arguments": PICTURE}}]}, "[tool call: look(…)]"),
        ({"content": b"bytes"}, ""),
    ],
)
def test_all_that_a_turn_says_is_shown(turn: dict[str, Any], shown: str) -> None:
    sent = conversation_json([{"role": "assistant", **turn}])
    given = sent if isinstance(sent, str) else [ChatTurn.model_validate(each) for each in sent]  # type: ignore[union-attr]
    assert answer_of(given) == shown


def test_an_image_is_refused_by_its_kind() -> None:
    sent = conversation_json([{"role": "user", "content": [{"type": "image", "image": PICTURE}]}])
    assert sent == [{"role": "user", "content": [{"type": "image"}]}]
    with pytest.raises(UnseenPart, match="a part of type image, which no judge is shown"):
        answer_of([ChatTurn.model_validate(each) for each in sent])


def test_what_is_no_message_is_said() -> None:
    with pytest.raises(CellError, match="messages of role and content, found str"):
        conversation_json(["Hello."])  # type: ignore[list-item]
    with pytest.raises(CellError, match="expected text or messages, found int"):
        conversation_json(5)  # type: ignore[arg-type]
