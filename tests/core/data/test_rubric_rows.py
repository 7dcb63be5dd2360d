"""Rows of rubric data: the columns that people use, and what is said of those that cannot be read."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from judgegym.data.rows import Row
from judgegym.data.rubric_rows import RubricTask, read_rubric_rows
from judgegym.judges.core.judgment import Scale
from judgegym.judges.rubrics.prompt import Rubric
from judgegym.llm.errors import DataError

FIVE = Scale(1, 5)
LEVELS = {f"score{level}_description": f"level {level}" for level in range(1, 6)}
DESCRIBED = {level: f"level {level}" for level in range(1, 6)}

FEEDBACK_COLLECTION = {
    "orig_instruction": "Write a poem.",
    "orig_response": "Roses are red.",
    "orig_reference_answer": "A better poem.",
    "orig_criteria": "Is it a poem?",
    **{f"orig_{name}": text for name, text in LEVELS.items()},
    "orig_feedback": "It is short.",
    "orig_score": "2",
}
"""A row of prometheus-eval/Feedback-Collection without the prompts that are made of it."""


def rows(*values: dict[str, Any]) -> list[Row]:
    return [Row("data.jsonl", number, each) for number, each in enumerate(values, start=1)]


def read(scale: Scale = FIVE, default: str | None = None, **values: Any) -> RubricTask:
    values = {"instruction": "Do it.", "rubric": "Is it good?", **values}
    (task,) = read_rubric_rows(rows(values), scale, default_rubric=default)
    return task


def error(*values: dict[str, Any], scale: Scale = FIVE) -> str:
    with pytest.raises(DataError) as caught:
        read_rubric_rows(rows(*values), scale)
    return str(caught.value)


GOOD = {"instruction": "Do it.", "rubric": "Is it good?"}


@pytest.mark.parametrize("instruction", ["instruction", "orig_instruction", "question", "prompt"])
def test_every_name_of_a_column(instruction: str) -> None:
    responses, references = (
        ("response", "orig_response"),
        ("reference_answer", "orig_reference_answer", "reference"),
    )
    for response, reference, score in product(
        responses, references, ("score", "orig_score", "gpt4_scores")
    ):
        texts = {
            instruction: "Do it.",
            response: "Done.",
            reference: "Well done.",
            "rubric": "Is it good?",
        }
        (task,) = read_rubric_rows(rows({"id": 7, **texts, score: 4, "category": "Math"}), FIVE)
        assert task == RubricTask(
            "7", "Do it.", Rubric("Is it good?"), "Well done.", "Done.", 4.0, "Math"
        )


def test_a_whole_row_of_feedback_collection() -> None:
    """Its `instruction` is the judge's whole prompt, and its `output` the judge's answer: the parts are in `orig_*`."""
    prompt = (
        "###Task Description:\nAn instruction, a response to evaluate … ###Response to evaluate:\n"
        "Roses are red. …"
    )
    made = {"instruction": prompt, "input": "", "output": "It is short. [RESULT] 2"}
    (task,) = read_rubric_rows(rows({**made, **FEEDBACK_COLLECTION}), FIVE)
    rubric = Rubric("Is it a poem?", DESCRIBED)
    assert task == RubricTask(
        "row-1", "Write a poem.", rubric, "A better poem.", "Roses are red.", 2.0, None
    )


@pytest.mark.parametrize(
    ("given", "gold"),
    [
        (3, 3.0),
        (3.5, 3.5),
        ("3", 3.0),
        (" 3.0 ", 3.0),
        ([4], 4.0),
        ([2, 3, 3], 8 / 3),
        (["1", 2.0, "5"], 8 / 3),
        (1, 1.0),
        (5, 5.0),
        (None, None),
        ("", None),
    ],
)
@pytest.mark.parametrize("column", ["score", "orig_score", "gpt4_scores"])
def test_what_a_gold_score_may_be(column: str, given: Any, gold: float | None) -> None:
    assert read(**{column: given}).gold == pytest.approx(gold)


def test_of_several_gold_columns_the_first_one_with_a_value_decides() -> None:
    assert read(score=2, orig_score="3", gpt4_scores=[5]).gold == 2.0
    assert read(score=None, orig_score="3", gpt4_scores=[5]).gold == 3.0
    assert read(score="", orig_score=None, gpt4_scores=[5, 4]).gold == 4.5


def test_zero_is_a_score_of_a_scale_that_has_it() -> None:
    assert read(Scale(0, 10), score=0, orig_score=7).gold == 0.0
    assert read(Scale(-2, 2), score="-2").gold == -2.0


@pytest.mark.parametrize(
    "given",
    [
        0,
        6,
        -1,
        5.01,
        "0",
        "6",
        "good",
        "4/5",
        "nan",
        "inf",
        float("nan"),
        True,
        False,
        [3, 6],
        [3, None],
        [],
        {"a": 1},
    ],
)
def test_a_gold_score_that_is_none_of_the_scale_is_refused(given: Any) -> None:
    said = error(GOOD, {**GOOD, "score": given})
    assert said.startswith("data.jsonl, row 2: ")
    wanted = (
        "from 1 to 5",
        "env.scale_min",
        "env.scale_max",
        repr(given),
        "columns found: instruction, rubric, score",
    )
    assert [part for part in wanted if part not in said] == []


@pytest.mark.parametrize(
    ("given", "rubric"),
    [
        ("Is it a poem?", Rubric("Is it a poem?")),
        ({"criteria": "Is it a poem?"}, Rubric("Is it a poem?")),
        ({"criteria": "Is it a poem?", **LEVELS}, Rubric("Is it a poem?", DESCRIBED)),
        (
            {
                "orig_criteria": "Is it a poem?",
                **{f"orig_{name}": text for name, text in LEVELS.items()},
            },
            Rubric("Is it a poem?", DESCRIBED),
        ),
        (
            {
                "criteria": "Is it a poem?",
                "score1_description": "No.",
                "score3_description": None,
                "score5_description": "",
            },
            Rubric("Is it a poem?", {1: "No."}),
        ),
    ],
)
def test_what_a_rubric_may_be(given: Any, rubric: Rubric) -> None:
    assert read(rubric=given).rubric == rubric


@pytest.mark.parametrize(
    "missing", [None, "", "  \n", {}, {"criteria": ""}, {"criteria": None}, 5, ["Is it?"]]
)
def test_a_row_without_a_rubric_takes_the_default_or_is_refused(missing: Any) -> None:
    assert read(default="Is it kind?", rubric=missing).rubric == Rubric("Is it kind?")
    said = error(GOOD, {"instruction": "Do it.", "rubric": missing})
    assert said.startswith("data.jsonl, row 2: ")
    assert [
        part
        for part in ("criteria", "env.default_rubric", "found: instruction, rubric")
        if part not in said
    ] == []


def test_a_rubric_of_the_row_comes_before_the_default() -> None:
    assert read(default="Is it kind?").rubric == Rubric("Is it good?")
    assert read(default="Is it kind?", rubric=None, criteria="Is it new?").rubric == Rubric(
        "Is it new?"
    )


def test_levels_beyond_the_scale_are_refused() -> None:
    said = error({**GOOD, "rubric": {"criteria": "?", **LEVELS}}, scale=Scale(1, 3))
    assert said.startswith("data.jsonl, row 1: ") and "from 1 to 3" in said
    negative = {
        "criteria": "?",
        "score-1_description": "bad",
        "score0_description": "so so",
        "score1_description": "good",
    }
    assert read(Scale(-1, 1), rubric=negative).rubric.levels == {-1: "bad", 0: "so so", 1: "good"}


@pytest.mark.parametrize("level", ["٣", "３", "9" * 5000])
def test_a_level_in_other_digits_or_too_many_is_refused(level: str) -> None:
    said = error({**GOOD, "rubric": {"criteria": "?", f"score{level}_description": "good"}})
    assert (
        said.startswith("data.jsonl, row 1: ") and f"score{level}"[:20] in said and len(said) < 400
    )


def test_rubrics_have_the_runs_scale() -> None:
    assert read(Scale(0, 10)).rubric.scale == Scale(0, 10)
    assert read(Scale(0, 10), "Is it kind?", rubric="").rubric.scale == Scale(0, 10)


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_reference_is_none(empty: str | None) -> None:
    assert read(reference_answer=empty).reference is None
    assert read(reference_answer=empty, reference="Well done.").reference == "Well done."


@pytest.mark.parametrize("values", [{"text": "Do it."}, {"instruction": None, "prompt": 3}])
def test_a_row_has_an_instruction(values: dict[str, Any]) -> None:
    said = error(GOOD, {**values, "rubric": "Is it good?"})
    assert said.startswith("data.jsonl, row 2: ")
    names = (
        "instruction",
        "orig_instruction",
        "question",
        "prompt",
        f"columns found: {', '.join(values)}, rubric",
    )
    assert [name for name in names if name not in said] == []
