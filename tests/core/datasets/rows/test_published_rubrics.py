"""Rubric data as it is published is read without conversion, by the same names at each door.

`published_rubric_rows.jsonl` has a row of each data set, with the numbers of its criteria and of
their different tags.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judgegym.data.checklist_rows import read_checklists
from judgegym.data.rows import DataSet
from judgegym.datasets.rows.schema import ColumnSettings
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym_trainers.scores.requests import read_request_fields
from tests.command import serving
from tests.core.datasets.scoring import Scoring

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("published_rubric_rows.jsonl").read_text().splitlines()
]
BIGGEN = {
    "system_prompt": "Answer in one word.",
    "input": "How much water?",
    "reference_answer": "About REFTEXT.",
    "score_rubric": {
        "criteria": "Is the amount RIGHTTEXT?",
        "score1_description": "No.",
        "score5_description": "Yes.",
    },
    "response": "Half a litre.",
}


@pytest.mark.parametrize("each", ROWS, ids=lambda each: each["from"])
def test_each_is_read_by_score_by_evaluate_and_by_plugins(each: dict[str, Any]) -> None:
    data = DataSet("data.jsonl", [each["row"]])
    scored = ScoreTasks(data, ColumnSettings(), lambda task: None)[0].judge_task
    evaluated = read_checklists([data[0]], (), column=None, formula="healthbench")[0]
    assert scored.criteria is not None and scored.criteria == evaluated.criteria
    assert len(scored.criteria) == each["criteria"]
    assert len({tag for one in scored.criteria for tag in one.tags}) == each["tags"]
    assert (
        scored.reference == evaluated.reference == ("About REFTEXT." if each["reference"] else None)
    )
    sent = read_request_fields(each["row"])
    assert sent.get("reference") == scored.reference and "criteria" in sent


def test_score_shows_the_judge_the_reference_and_the_rubric_of_published_rows(
    tmp_path: Path,
) -> None:
    with serving("[FEEDBACK] So. [SCORE] 4") as judge:
        ended = Scoring(tmp_path, judge)("--judge=rubric", rows=[BIGGEN])
    shown = str(judge.bodies)
    assert ended.code == 0 and "REFTEXT" in shown and "RIGHTTEXT" in shown
    assert "reference from reference_answer, rubric from score_rubric" in ended.err


def test_score_names_a_reference_that_its_judge_is_not_shown(tmp_path: Path) -> None:
    row = {name: value for name, value in BIGGEN.items() if name != "score_rubric"}
    with serving('{"reasoning": "So.", "score": 80}') as judge:
        ended = Scoring(tmp_path, judge)("--judge=peer", rows=[row])
    assert ended.code == 0 and "REFTEXT" not in str(judge.bodies)
    assert "nobody is shown: reference_answer" in ended.err


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        (
            {"prompt": "p", "response": "r", "my_rubric": ["a"]},
            (
                "row 1: criteria: ",
                "criteria, rubrics, rubric, Rubrics, rubric_items, reward_model.rubrics",
                "--criteria_column",
                "columns found: prompt, response, my_rubric",
            ),
        ),
        (
            {"instruction": "p", "generations": ["a", "b", None], "ratings": [4, None, None]},
            ("generations holds", "entry 3 is nothing", "--on_bad_row=skip", "--response_column"),
        ),
    ],
)
def test_what_a_row_lacks_is_said_with_its_columns_and_the_setting(
    tmp_path: Path, row: dict[str, Any], facts: tuple[str, ...]
) -> None:
    with serving("unused") as judge:
        ended = Scoring(tmp_path, judge)("--judge=checklist", rows=[row])
    assert ended.code == 2 and not judge.requests
    assert all(fact in ended.err for fact in facts), ended.err
