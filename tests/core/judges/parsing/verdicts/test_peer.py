"""The score in a peer's text: the last object with a score that can be used, and never one that is made up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judgegym.judges.parsing.scores import ScoreObject, score_object


def said(score: Any, reasoning: Any = "since") -> str:
    return json.dumps({"reasoning": reasoning, "score": score})


@pytest.mark.parametrize(
    ("score", "value"),
    [
        (85, 85),
        (85.0, 85),
        ("85", 85),
        (" 85 ", 85),
        ("85.0", 85),
        ("85/100", 85),
        ("85 / 100", 85),
        ("85 out of 100", 85),
        ("85%", 85),
        ("85 %", 85),
        (0, 0),
        (100, 100),
        ("100/100", 100),
        ("0%", 0),
    ],
)
def test_score_in_any_usable_form_is_read(score: Any, value: int) -> None:
    found = score_object(said(score))
    assert found == ScoreObject(value, "since")
    assert type(found.score) is int


@pytest.mark.parametrize(
    "score",
    [
        85.5,
        "85.5",
        "85.5%",
        150,
        "150",
        "150%",
        101,
        -5,
        "-5",
        -0.5,
        True,
        False,
        None,
        float("nan"),
        float("inf"),
        float("-inf"),
        1e400,
        10**400,
        "n/a",
        "",
        "eighty-five",
        "80-90",
        "80 to 90",
        "85/50",
        "8/10",
        "85/100/100",
        "about 85",
        "85 points",
        "٨٥",
        [85],
        {"value": 85},
    ],
    ids=repr,
)
def test_unusable_score_is_none(score: Any) -> None:
    assert score_object(said(score)) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Score: 85",
        '"score": 85',
        '{"score": 85',
        '{"reasoning": "good"}',
        '{"points": 85}',
        "[85]",
        '{"reasoning": "good", "score": 85 - 5}',
        f"<think>{said(85)}</think> I cannot say.",
        f"<think>{said(85)}",
    ],
)
def test_a_text_without_a_score(text: str) -> None:
    assert score_object(text) is None


@pytest.mark.parametrize(
    "text",
    [
        said(85),
        f"  {said(85)}\n\n",
        f"```json\n{said(85)}\n```",
        f"```\n{said(85)}\n```\n",
        f"I may have been too strict.\n{said(85)}",
        f"{said(85)}\nThat is all.",
        f'The "answer" isn\'t {{quite}} right: }} or {{.\n{said(85)}',
        f'He said "score", and {{"more".\n{said(85)}',
        f"A set {{1, 2}} and code: `if (x) {{ y(); }}`\n{said(85)}",
        f"<think>{said(20)}</think>{said(85)}",
        '{\n  "reasoning": "since",\n  "score": 85\n}',
        '{"Reasoning": "since", "SCORE": 85}',
        '{"score": 85, "reasoning": "since"}',
        '{"score": 85, "reasoning": "since", "confidence": {"score": 3}}',
    ],
)
def test_score_among_prose_fences_and_braces_is_read(text: str) -> None:
    assert score_object(text) == ScoreObject(85, "since")


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


@pytest.mark.parametrize(
    "critique",
    [
        f"Previously I said {said(60)}, which was too harsh.\n",
        'Previously I gave a "score": 60, which was too harsh.\n',
        "I gave {score: 60}. Too harsh.\n",
        f"Before:\n```json\n{said(60)}\n```\nToo harsh. After:\n",
        "I gave 60/100 (60%). Too harsh.\n",
    ],
)
def test_a_critique_that_quotes_the_old_score(critique: str) -> None:
    assert score_object(critique + said(85)) == ScoreObject(85, "since")


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
def test_score_is_read_on_other_scales(text: str, scale: tuple[int, int], value: int | None) -> None:
    found = score_object(text, scale)
    assert (None if found is None else found.score) == value


def test_a_broken_object_that_quotes_a_whole_one_has_no_score() -> None:
    assert score_object(f'{{"reasoning": "I said {said(60)} before", "score": 85}}') is None


@pytest.mark.parametrize("broken", ["{'score': 85}", "{\u201cscore\u201d: 85}", '{reasoning: "n", score: 85}'])
def test_a_last_score_in_json_of_another_kind_is_no_licence_for_a_quoted_one(broken: str) -> None:
    assert score_object(f'I gave {{"reasoning": "old", "score": 40}}. Revised:\n{broken}') is None
    assert score_object(f'{broken}\nThat is: {{"reasoning": "new", "score": 85}}') == (85, "new")


def test_a_word_in_prose_contests_nothing() -> None:
    assert score_object('{"reasoning": "r", "score": 40}\nThe score: 40 of 100.') == (40, "r")
