"""The score in a peer's text: the last object with a score that can be used, and never one that is made up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judgegym.judges.parsing.scores import ScoreObject, score_object


def said(score: Any, reasoning: Any = "since") -> str:
    return json.dumps({"reasoning": reasoning, "score": score})


def test_quotes_braces_and_line_breaks_in_the_reason() -> None:
    reason = 'He wrote "score": 10}, {"score": 3} and\n\n```\nmore```'
    assert score_object(said(85, reason)) == ScoreObject(85, reason)
    assert score_object('{"reasoning": "one\nline, and another", "score": 85}') == ScoreObject(
        85, "one\nline, and another"
    )


@pytest.mark.parametrize("reasoning", [None, 3, ["good"], {}])
def test_a_reason_that_is_no_text(reasoning: Any) -> None:
    assert score_object(said(85, reasoning)) == ScoreObject(85, None)


def test_a_lone_surrogate_in_a_reason_can_be_written_to_a_file() -> None:
    found = score_object('{"reasoning": "half \\ud83d of it", "score": 85}')
    assert found is not None
    assert found.reasoning is not None
    found.reasoning.encode()


def test_the_last_usable_score_counts() -> None:
    assert score_object(f"{said(20)}\n{said(85)}") == ScoreObject(85, "since")
    assert score_object(said(20) + said(85)) is None
    assert score_object(f'{said(85)}\n{{"note": "done"}}') == ScoreObject(85, "since")


@pytest.mark.parametrize(
    ("text", "scale", "value"),
    [
        (said(5), (1, 5), 5),
        (said("5/5"), (1, 5), 5),
        (said("5/100"), (1, 5), None),
        (said("5%"), (1, 5), None),
        (said(0), (1, 5), None),
        (said(-2), (-3, 3), -2),
        (said("-2"), (-3, 3), -2),
    ],
)
def test_score_is_read_on_other_scales(
    text: str, scale: tuple[int, int], value: int | None
) -> None:
    found = score_object(text, scale)
    assert (None if found is None else found.score) == value


def test_a_broken_object_that_quotes_a_whole_one_has_no_score() -> None:
    assert score_object(f'{{"reasoning": "I said {said(60)} before", "score": 85}}') is None


@pytest.mark.parametrize(
    "broken", ["{'score': 85}", "{\u201cscore\u201d: 85}", '{reasoning: "n", score: 85}']
)
def test_a_last_score_in_json_of_another_kind_is_no_licence_for_a_quoted_one(broken: str) -> None:
    assert score_object(f'I gave {{"reasoning": "old", "score": 40}}. Revised:\n{broken}') is None
    assert score_object(f'{broken}\nThat is: {{"reasoning": "new", "score": 85}}') == (85, "new")


def test_a_word_in_prose_contests_nothing() -> None:
    assert score_object('{"reasoning": "r", "score": 40}\nThe score: 40 of 100.') == (40, "r")
