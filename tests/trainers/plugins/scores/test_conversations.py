"""Conversations and cells of trainers as the judge is sent them."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy
import orjson
import pytest

from judgegym.judges.conversations.messages import ChatTurn, render_completion
from judgegym.judges.conversations.turns import UnseenPart
from judgegym_trainers.scores.requests import (
    CellError,
    convert_conversation,
    make_completion_row,
    make_request_body,
    read_request_fields,
)
from tests.pictures import data_url, png

CALL = {"function": {"name": "look", "arguments": {"at": 1}}}
PICTURE = object()


class Label(str, Enum):
    """A text of an enum, as data frames and configurations have them."""

    YES = "yes"


def test_a_text_of_an_enum_is_sent_by_its_value() -> None:
    fields = read_request_fields({"prompt": "Q", "reference": Label.YES})
    assert orjson.loads(orjson.dumps(fields))["reference"] == "yes"


@pytest.mark.parametrize(
    ("turn", "shown"),
    [
        ({"content": "Hello."}, "Hello."),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]}, "Hello."),
        ({"content": numpy.array([{"type": "text", "text": "Hello."}], dtype=object)}, "Hello."),
        ({"content": ["Hello."]}, "Hello."),
        (
            {
                "content": [
                    {"type": "reasoning", "text": "secret"},
                    {"type": "text", "text": "Yes."},
                ]
            },
            "Yes.",
        ),
        ({"content": "Look:", "tool_calls": [CALL]}, 'Look:\n[tool call: look({"at":1})]'),
        (
            {"content": [{"type": "text", "text": "Look:"}], "tool_calls": [CALL]},
            'Look:\n[tool call: look({"at":1})]',
        ),
        (
            {"tool_calls": [{"function": {"name": "look", "arguments": PICTURE}}]},
            "[tool call: look(…)]",
        ),
        ({"content": b"bytes"}, ""),
    ],
)
def test_all_that_a_turn_says_is_shown(turn: dict[str, Any], shown: str) -> None:
    sent = convert_conversation([{"role": "assistant", **turn}])
    given = sent if isinstance(sent, str) else [ChatTurn.model_validate(each) for each in sent]  # type: ignore[union-attr]
    assert render_completion(given) == shown


def test_an_image_is_sent_with_its_data() -> None:
    sent = convert_conversation(
        [{"role": "user", "content": [{"type": "image", "image": {"bytes": png()}}]}]
    )
    part = {"type": "image_url", "image_url": {"url": data_url(png())}}
    assert sent == [{"role": "user", "content": [part]}]
    with pytest.raises(CellError, match=r"data URL .*found object"):
        convert_conversation([{"role": "user", "content": [{"type": "image", "image": PICTURE}]}])


def test_another_medium_is_refused_by_its_kind() -> None:
    sent = convert_conversation(
        [{"role": "user", "content": [{"type": "audio", "audio": PICTURE}]}]
    )
    assert sent == [{"role": "user", "content": [{"type": "audio"}]}]
    with pytest.raises(UnseenPart, match="part of type audio"):
        render_completion([ChatTurn.model_validate(each) for each in sent])


def test_what_is_no_message_is_said() -> None:
    with pytest.raises(CellError, match=r"role and content.*found str"):
        convert_conversation(["Hello."])  # type: ignore[list-item]
    with pytest.raises(CellError, match=r"text or messages.*found int"):
        convert_conversation(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (72, "72"),
        (1.5, "1.5"),
        (numpy.int64(7), "7"),
        (["a", "b"], "['a', 'b']"),
        (numpy.array(["a", "b"]), "['a', 'b']"),
        ({"answer": "x"}, "{'answer': 'x'}"),
        ({"reference": "Since.", "rubric": "Good?"}, "Since."),
        ('{"reference": 5}', "5"),
        (numpy.float64("nan"), None),
    ],
)
def test_a_label_of_any_type_becomes_text(label: object, text: str | None) -> None:
    assert make_request_body([make_completion_row("Why?", "A", {}, label)]).get("reference") == text


def test_cells_as_a_data_frame_has_them() -> None:
    """Arrays for lists, and structs in which what is missing is null."""
    missing = {"reference": None, "context": float("nan"), "rubric": "", "aspects": numpy.array([])}
    assert make_request_body(
        [make_completion_row("Why?", "A", missing, group=True, member="x" * 257)]
    ) == {
        "prompt": "Why?",
        "response": "A",
    }
    cells = {
        "rubric": {
            "criteria": "Is it good?",
            "score1_description": "Bad.",
            "score2_description": None,
        },
        "context": numpy.array(["one", "two"]),
        "aspects": ["coherence", {"name": "brief", "definition": "Is it brief?"}],
    }
    asked = numpy.array([{"role": "user", "content": "Why?"}])
    rows = [make_completion_row(asked, text, cells, group=3, member="m") for text in "AB"]
    assert make_request_body(rows) == {
        "prompt": [{"role": "user", "content": "Why?"}],
        "responses": ["A", "B"],
        "rubric": {"criteria": "Is it good?", "score1_description": "Bad."},
        "context": ["one", "two"],
        "aspects": ["coherence", {"name": "brief", "definition": "Is it brief?"}],
        "group": 3,
        "member": "m",
    }
    assert make_completion_row("Why?", "A", {"aspects": 5}).error.startswith(
        "aspects: expected names"
    )


@pytest.mark.parametrize(
    ("cells", "sent"),
    [
        ({"criteria": ["Is kind."]}, ["Is kind."]),
        ({"criteria": '[{"text": "Is kind.", "points": 3}]'}, [{"text": "Is kind.", "points": 3}]),
        (
            {"rubrics": numpy.array([{"criterion": "Is kind.", "points": 3}])},
            [{"criterion": "Is kind.", "points": 3}],
        ),
        ({"rubrics": [{"other": "Is kind."}]}, None),
        ({"criteria": "Is it kind?"}, None),
    ],
)
def test_criteria_are_sent_where_the_cell_holds_some(
    cells: dict[str, object], sent: object
) -> None:
    assert make_completion_row("Why?", "A", cells).shared.get("criteria") == sent
