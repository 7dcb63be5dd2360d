"""The scores in a listwise judge's text: all of them, each by its id, or none."""

from __future__ import annotations

import json
import re

import pytest

from judgegym.judges.parsing.scores import (
    LISTWISE_CHARACTERS_READ,
    ScoredAnswer,
    listwise_fault,
    listwise_scores,
)
from judgegym.judges.parsing.verdict_parser import ParsedVerdict

IDS = ("ghjkm", "npqrt")
FIRST, SECOND = (
    {"id": own, "explanation": "So.", "score": score}
    for own, score in zip(IDS, (0.25, 1), strict=True)
)
SCORES = {"ghjkm": ScoredAnswer(0.25, "So."), "npqrt": ScoredAnswer(1.0, "So.")}


def said(*entries: object, **more: object) -> str:
    return json.dumps({"scores": entries, **more})


SOUND = said(FIRST, SECOND)


@pytest.mark.parametrize(
    "text",
    [
        SOUND,
        said(SECOND, FIRST),
        f"I compared them.\n```json\n{SOUND}\n```\n",
        f"<think>{said(FIRST, {**SECOND, 'score': 0})}</think>{SOUND}<|im_end|>",
        f"{said(FIRST)} No, I forgot one: {SOUND} That is all.",
        f"{said({**FIRST, 'score': 1}, SECOND)}\n{SOUND}",
        SOUND.replace('"scores"', '"Scores"').replace('"id"', '"ID"'),
        said({**FIRST, "rank": 2}, SECOND, best="npqrt"),
        f'{SOUND} {{"note": "the second one is the best"}}',
    ],
)
def test_scores_of_every_id_are_read_in_any_order(text: str) -> None:
    assert listwise_scores(text, IDS) == SCORES


def test_scores_of_a_large_group_are_read_with_an_explanation_for_each() -> None:
    ids = [f"ghjkm{number}" for number in range(256)]
    text = said(*({"id": own, "explanation": "x" * 500, "score": 0.5} for own in ids))
    assert len(text) > 2 * LISTWISE_CHARACTERS_READ
    assert set(listwise_scores(text, ids) or ()) == {*ids}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("They are fine.", 'no JSON object .*"scores"'),
        ("", 'no JSON object .*"scores"'),
        (json.dumps([FIRST, SECOND]), 'no JSON object .*"scores"'),
        (
            json.dumps({"result": {"scores": [FIRST, SECOND]}}),
            'no JSON object .*"scores"',
        ),
        (f"<think>{SOUND}", 'no JSON object .*"scores"'),
        (
            f"{SOUND}{'x' * LISTWISE_CHARACTERS_READ}",
            'no JSON object .*"scores"',
        ),
        (
            f"{SOUND} <think> {said(SECOND, {**FIRST, 'score': 1})}",
            "verdict before `<think>`",
        ),
        (said(FIRST), "missing: npqrt"),
        (said(), "missing: ghjkm, npqrt"),
        (f"{SOUND} {said(FIRST)}", "missing: npqrt"),
        (said(FIRST, FIRST), "missing: npqrt; .*more than once: ghjkm"),
        (said(FIRST, SECOND, FIRST), "more than once: ghjkm"),
        (said(FIRST, SECOND, {**FIRST, "score": 0.9}), "more than once: ghjkm"),
        (said(FIRST, SECOND, {**FIRST, "id": "other"}), 'ids of answers: "other"'),
        (
            said(FIRST, {**SECOND, "id": "NPQRT"}),
            'missing: npqrt; .*ids of answers: "NPQRT"',
        ),
        (said(FIRST, {**SECOND, "id": " npqrt"}), 'ids of answers: " npqrt"'),
        (said(FIRST, {**SECOND, "id": "x" * 99}), f'ids of answers: "{"x" * 30}…"'),
        (
            said(FIRST, {**SECOND, "id": 2}),
            'entry of "scores" .*"id"',
        ),
        (said(FIRST, "npqrt"), 'entry of "scores" .*"id"'),
        (json.dumps({"scores": {"ghjkm": 0.1, "npqrt": 0.2}}), '"scores" .*a list'),
        (
            SOUND.replace('"score": 1', '"score": 1, "score": 0'),
            'the field "score" twice',
        ),
        (
            SOUND.replace('"score": 1', '"score": 1, "Score": 0'),
            'the field "Score" twice',
        ),
        (
            SOUND.replace('"npqrt"', '"npqrt", "id": "ghjkm"'),
            'the field "id" twice',
        ),
        (SOUND[:-1] + ', "scores": []}', 'the field "scores" twice'),
        (f'{SOUND} or "scores": [', "the last thing"),
        (f'{SOUND} and {{"id": "npqrt", "score": 0', "the last thing"),
        (f"{SOUND} }}", "the last thing"),
    ],
)
def test_text_without_every_id_once_has_no_scores_and_a_reason(text: str, fault: str) -> None:
    assert listwise_scores(text, IDS) is None
    assert re.search(fault, listwise_fault(text, IDS))


@pytest.mark.parametrize(
    "score",
    [
        *(
            "1.01",
            "-0.01",
            "80",
            "1e999",
            "-1e999",
            "NaN",
            "Infinity",
            "true",
            "false",
            "null",
            '"0.8"',
            "[1]",
            "{}",
        ),
        "9" * 400,
    ],
)
def test_score_that_is_no_number_from_0_to_1_is_none(score: str) -> None:
    text = SOUND.replace('"score": 1', f'"score": {score}')
    assert listwise_scores(text, IDS) is None
    fault = listwise_fault(text, IDS)
    assert "numbers from 0 to 1: npqrt" in fault and ";" not in fault


def test_missing_score_is_none() -> None:
    assert listwise_scores(said(FIRST, {"id": "npqrt"}), IDS) is None


@pytest.mark.parametrize(
    ("score", "value"), [("0", 0.0), ("1.0", 1.0), ("1e-3", 0.001), ("-0.0", 0.0), ("0.7", 0.7)]
)
def test_score_in_range_is_read_as_it_is(score: str, value: float) -> None:
    found = listwise_scores(SOUND.replace('"score": 1', f'"score": {score}'), IDS)
    assert (
        found is not None and found["npqrt"].score == value and type(found["npqrt"].score) is float
    )


@pytest.mark.parametrize(
    ("explanation", "read"), [(None, ""), (7, ""), (" It\nis. ", "It\nis."), ("\ud800", "�")]
)
def test_explanation_is_text_or_empty(explanation: object, read: str) -> None:
    found = listwise_scores(said({**FIRST, "explanation": explanation}, SECOND), IDS)
    assert found is not None and found["ghjkm"].explanation == read


def test_fault_names_a_few_of_many_ids() -> None:
    ids = [f"id{number}" for number in range(9)]
    assert "missing: id0, id1, id2, id3, id4 and 4 more" in listwise_fault(said(), ids)


def test_place_is_that_of_the_object() -> None:
    text = f"<think>{SOUND}</think> {SOUND} So it is."
    assert listwise_scores.find(text, IDS) == ParsedVerdict(
        SCORES, (text.rindex('{"scores'), text.index(" So it is."))
    )
