"""Criteria as rows and settings have them, and what is wrong with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS
from judgegym.judges.checklists.criteria import Criterion, read_criteria
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings

TAGS = ["level:example", "axis:accuracy"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            [{"criterion": "Names a dose.", "points": 7, "tags": TAGS}, {"criterion": "Guesses.", "points": -6}],
            [("criterion_1", "Names a dose.", 7, tuple(TAGS)), ("criterion_2", "Guesses.", -6, ())],
        ),
        (
            [
                {"title": "Dose", "description": "Essential Criteria: Names it.", "weight": 5},
                {"title": "Dose", "description": "Says when.", "weight": None, "category": "Important"},
            ],
            [
                ("Dose 1", "Essential Criteria: Names it.", 5, ()),
                ("Dose 2", "Says when.", 0.7, ()),
            ],
        ),
        (
            ["Optional Criteria: Is short.", "Pitfall Criteria: Guesses.", "Cites."],
            [
                ("criterion_1", "Is short.", 0.3, ()),
                ("criterion_2", "Guesses.", -0.9, ()),
                ("criterion_3", "Cites.", 1, ()),
            ],
        ),
        (
            {"short": "Is it short?", "cites": {"text": "Cites.", "points": 2}},
            [("short", "Is it short?", 1, ()), ("cites", "Cites.", 2, ())],
        ),
        (
            ["harmfulness"],
            [("harmfulness", SUPPORTED_ASPECTS["harmfulness"].definition, -1, ())],
        ),
        (json.dumps({"criteria": [{"name": "a", "text": "Is it?", "weight": "essential"}]}),
         [("a", "Is it?", 1, ())]),
    ],
)  # fmt: skip
def test_public_rows_are_read_as_they_are(value: object, expected: list[tuple[Any, ...]]) -> None:
    assert [(one.name, one.text, one.points, one.tags) for one in read_criteria(value)] == expected


def test_aspect_with_a_veto_is_required_and_options_are_ordinal() -> None:
    own = {"name": "safe", "definition": "Is it safe?", "polarity": 1, "weight": 2, "veto": True}
    graded = {"name": "depth", "text": "How deep?", "options": {"none": 0, "some": 0.5, "all": 1}}
    safe, depth = read_criteria([own, graded])
    assert (safe.points, safe.required, safe.allowed_words(cannot_assess=False)) == (
        2,
        True,
        {"met": 1.0, "unmet": 0.0},
    )
    assert depth.allowed_words(cannot_assess=True) == {
        "none": 0.0,
        "some": 0.5,
        "all": 1.0,
        "cannot_assess": None,
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected 1 to 256 criteria, found 0"),
        (["x"] * 257, "expected 1 to 256 criteria, found 257"),
        ("Is it short?", "list of criteria, .*not JSON"),
        (3, "list of criteria, .*int"),
        ([{"points": 3}], "criterion 1: expected a text, .*blank"),
        ([{"text": "Is it?", "points": 0}], "0 points; .*at least one"),
        ([{"text": "Is it?", "ponts": 3}], r"criterion 1: ponts: unknown field, did you mean points\?"),
        ([{"text": "Is it?", "points": 3, "weight": 3}], "criterion 1: points and weight .*same field"),
        ([{"text": "Is it?", "category": "vital"}], "criterion 1: category: .*essential, important.*'vital'"),
        ([{"text": "Is it?", "points": 5, "category": "Pitfall"}], "criterion 1: category: 'Pitfall' .*negative ones"),
        ([{"text": "Is it?", "options": {"a": 1, "b": 2}}], "criterion 1: options: 1: value: Input should be less"),
        ([{"name": "raw", "text": "Is it?"}], "the name raw, .*own score"),
        ([{"name": "A b", "text": "Is it?"}, {"name": "a_b", "text": "Was it?"}], "the same name: .*A b"),
    ],
)  # fmt: skip
def test_bad_criteria_are_told_in_one_line(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_criteria(value)
    assert "criteri" in str(caught.value) and "\n" not in str(caught.value)


def test_setting_is_json_or_a_file_with_yaml(tmp_path: Path) -> None:
    file = tmp_path / "criteria.yaml"
    file.write_text("short: Is it short?\ncites: {text: Cites., points: 2}\n", encoding="utf-8")
    of_file = ChecklistJudgeSettings.model_validate({"criteria": f"@{file}"}).criteria
    assert of_file == read_criteria(
        {"short": "Is it short?", "cites": {"text": "Cites.", "points": 2}}
    )
    assert (
        ChecklistJudgeSettings.model_validate({"criteria": '["Cites."]'}).criteria[0].text
        == "Cites."
    )
    with pytest.raises(ValidationError, match="criterion 1: expected a text"):
        ChecklistJudgeSettings.model_validate({"criteria": [" "]})
    assert isinstance(of_file[0], Criterion) and ChecklistJudgeSettings().criteria == ()
