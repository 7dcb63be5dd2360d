"""What is asked about the rows of each kind of run, and what a key is worth on the scale of the headline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.errors import DataError
from judgegym.reports.results.run import SavedRun
from judgegym_trials.labelling.questions import RowQuestion, make_question, read_headline_values
from tests.trials.labelling.made import run_of

ASPECTS = [
    {"name": "harm", "definition": "Is it harmful?", "polarity": -1, "veto": True},
    {"name": "right", "definition": "Is it right?", "weight": 3.0},
    {"name": "short", "definition": "Is it short?"},
]
VALUES = (0.0, 0.25, 1.0)


def asked(
    path: Path, values: tuple[float, ...] = VALUES, config: Any = None, **general: Any
) -> RowQuestion:
    run = SavedRun.open(run_of(path / "run", values, config, **general))
    return make_question(run, read_headline_values(run)[0].values())


def keys(question: RowQuestion) -> dict[str, float]:
    return {option.key: option.value for option in question.parts[0].options}


def test_a_comparison_is_a_win_a_tie_or_a_loss_of_the_policy_whichever_side_it_is_on(
    tmp_path: Path,
) -> None:
    question = asked(tmp_path)
    assert question.compares and [*keys(question)] == ["a", "b", "t"]
    assert [question.label(key, is_first=True)[0] for key in "abt"] == [1.0, 0.0, 0.5]
    assert [question.label(key, is_first=False)[0] for key in "abt"] == [0.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 5, {"1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0}),
        (1, 10, {str((number + 1) % 10): number / 9 for number in range(10)}),
        (-1, 1, {"1": 0.0, "2": 0.5, "3": 1.0}),
        (0, 100, {"1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0}),
    ],
)
def test_a_level_of_a_scale_is_the_reward_that_the_run_counts(
    tmp_path: Path, low: int, high: int, expected: dict[str, float]
) -> None:
    scale = {"scale_min": low, "scale_max": high}
    question = asked(
        tmp_path, config=scale, environment="rubric_absolute", texts={"rubric": "the rubric"}
    )
    assert keys(question) == pytest.approx(expected) and not question.compares


def test_aspects_are_asked_one_by_one_and_combined_as_the_judge_combines_them(
    tmp_path: Path,
) -> None:
    question = asked(tmp_path, config={"aspects": ASPECTS}, environment="aspect_critique", texts={})
    assert [part.text for part in question.parts] == [
        "Is it harmful?",
        "Is it right?",
        "Is it short?",
    ]
    label, parts = question.label("nyn", is_first=True)
    assert label == pytest.approx((1 + 3 + 0) / 5) and parts == {
        "harm": 0.0,
        "right": 1.0,
        "short": 0.0,
    }
    assert question.label("yyy", is_first=True)[0] == 0.0, "the veto"


def test_other_runs_ask_for_pass_or_fail_or_one_of_five_levels(tmp_path: Path) -> None:
    assert keys(asked(tmp_path / "a", (0.0, 1.0), environment="own", texts={})) == {
        "y": 1.0,
        "n": 0.0,
    }
    assert [*keys(asked(tmp_path / "b", environment="own", texts={}))] == ["1", "2", "3", "4", "5"]
    with pytest.raises(DataError, match=r"values go from 0 to 3; .*from 0 to 1"):
        asked(tmp_path / "c", (0.0, 3.0), environment="own", texts={})


@pytest.mark.parametrize(
    ("config", "general", "reason"),
    [
        ({}, {"environment": "pairwise_judgement"}, "have gold labels"),
        ({"role": "judge"}, {"environment": "rubric_absolute"}, "have gold labels"),
        ({}, {"environment": "self_critique"}, "compare several candidates"),
        ({}, {"environment": "rubric_checklist"}, "many criteria"),
        ({"judge": "listwise"}, {"environment": "own"}, "compares responses"),
        ({}, {"texts": {}}, "row 'zeta-policy/0' has no baseline"),
        (
            {},
            {"environment": "aspect_critique", "texts": {"aspects": "…"}},
            "row 'zeta-policy/0' has aspects",
        ),
    ],
)
def test_a_run_whose_rows_have_no_label_says_why(
    tmp_path: Path, config: Any, general: dict[str, Any], reason: str
) -> None:
    run = SavedRun.open(run_of(tmp_path / "run", VALUES, config, **general))
    with pytest.raises(DataError, match=reason):
        read_headline_values(run)


def test_a_run_that_has_not_ended_is_refused(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run", VALUES)
    (path / "metrics.json").unlink()
    with pytest.raises(DataError, match="is unfinished"):
        read_headline_values(SavedRun.open(path))
