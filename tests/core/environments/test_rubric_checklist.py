"""Rubric checklist: numbers against values computed by hand, gold, bad rows, and what training leaves out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.rubric_checklist_environment import RubricChecklistEnv
from tests.checklists import saying, shown, verdicts
from tests.command import in_process
from tests.judged import Row, evaluate
from tests.scripted import Json

check = partial(evaluate, RubricChecklistEnv)
NAMED = [
    {"name": "cites", "text": "Cites.", "points": 6, "tags": ["axis:form"]},
    {"name": "short", "text": "Is short.", "points": 4},
    {"name": "guesses", "text": "Guesses.", "points": -5, "tags": ["axis:accuracy"]},
]
WHAT = {"Cites.": "c", "Is short.": "s", "Guesses.": "g"}
JUDGE = saying(lambda text, submission: WHAT[text] in submission)


def row(number: int, answer: str, **values: Any) -> Row:
    """A row; the letters of its answer are the criteria that it meets."""
    return {
        "id": f"r{number}",
        "prompt": f"Question {number}?",
        "answer": answer,
        "criteria": NAMED,
        **values,
    }


def test_numbers_of_an_evaluation_are_those_by_hand(tmp_path: Path) -> None:
    rows = [
        row(0, "c", example_tags=["theme:a"]),
        row(1, "g", example_tags=["theme:a"]),
        row(2, "csg"),
        row(3, "cg"),
    ]
    run = check(tmp_path, rows=rows, judge=JUDGE)
    assert run.code == 0, run.said
    scores = {"r0": 0.6, "r1": -0.5, "r2": 0.5, "r3": 0.1}
    assert run.scores() == pytest.approx(scores)
    wanted = {
        "mean_score": 0.175,
        "met_rate_cites": 0.75,
        "met_rate_short": 0.25,
        "met_rate_guesses": 0.75,
    }
    wanted |= {"tag_score_axis_form": 0.75, "tag_score_theme_a": 0.05, "clipped_score": 0.175}
    wanted |= {
        "clipped_score_n_samples": 4,
        "clipped_score_tag_theme_a": 0.05,
        "clipped_score_n_samples_tag_theme_a": 2,
    }
    wanted |= {"criteria_always_met": 0, "criteria_never_met": 0, "criteria_in_several_rows": 3}
    wanted |= {
        "agreement": 1.0,
        "disagreement_rate": 0.0,
        "redraw_rate": 0.0,
        "cannot_assess_rate": 0.0,
    }
    assert run.some(*wanted) == pytest.approx(wanted)
    assert 0 < run.metrics["clipped_score_bootstrap_std"] < 0.25
    assert "tag_score_axis_accuracy" not in run.metrics  # no positive points: no score
    assert run.files.samples[1]["headline"] == {"total": -0.5, "weight": 1.0}
    assert [one["verdict"] for one in run.details("criteria")["r3"]] == ["met", "unmet", "met"]


def test_criteria_without_a_signal_are_counted_and_named(tmp_path: Path) -> None:
    run = check(tmp_path, rows=[row(0, "c"), row(1, "cg")], judge=JUDGE)
    wanted = {"criteria_always_met": 1, "criteria_never_met": 1, "criteria_in_several_rows": 3}
    assert run.some(*wanted) == wanted
    assert not run.lacks(
        "always met, in 2 rows: no signal: Cites.", "never met, in 2 rows: no signal: Is short."
    )


def test_disagreement_of_votes_and_verdicts_that_were_drawn_again(tmp_path: Path) -> None:
    def script(request: Json, number: int) -> str:
        criteria, _ = shown(request)
        told = verdicts(
            {own: request["seed"] == 1 and text == "Cites." for own, text in criteria.items()}
        )
        return told if request["seed"] != 2 else "I cannot say."

    run = check(tmp_path, "--env.strictness=3", rows=[row(0, "c")], judge=script)
    wanted = {
        "agreement": (2 / 3 + 2) / 3,
        "disagreement_rate": 1 / 3,
        "redraw_rate": 1.0,
        "mean_score": 0.0,
    }
    assert run.some(*wanted) == pytest.approx(wanted)
    assert len(run.judge.requests) == 4


def test_policy_as_judge_is_compared_with_gold(tmp_path: Path) -> None:
    rows = [
        row(0, "c", verdicts={"cites": 1, "guesses": 1}),
        row(1, "s", verdicts=[0, 0, 0]),
        row(2, "c"),
    ]
    run = check(tmp_path, "--env.role=judge", "--env.criteria_per_call=2", rows=rows, policy=JUDGE)
    assert run.code == 0, run.said
    assert run.scores() == {"r0:1": 0.5, "r1:1": 0.5, "r1:2": 1.0}
    wanted = {
        "n_used": 5,
        "n_failed": 0,
        "accuracy": 3 / 5,
        "accuracy_cites": 1.0,
        "accuracy_guesses": 0.5,
    }
    wanted |= {"kappa": (0.6 - 0.52) / 0.48, "mean_score": 2 / 3}
    assert run.some(*wanted) == pytest.approx(wanted)
    assert len(run.policy.requests) == 3 and "clipped_score" not in run.metrics
    unreadable = check(
        tmp_path,
        "--env.role=judge",
        rows=rows[:1],
        policy="Both are met, I think.",
        run="unreadable",
    )
    assert unreadable.some("n_failed", "mean_score") == {"n_failed": 2, "mean_score": 0.0}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            {"criteria": None},
            ("row 1: expected criteria", "criteria or rubrics or rubric or "),
        ),
        (
            {"criteria": [{"text": " "}]},
            ("row 1: criteria: criterion 1: ", "found a blank"),
        ),
        (
            {"criteria": None, "rubrics": [{"criterion": "Bad.", "points": -1}]},
            ("row 1: no criterion", "positive points"),
        ),
        (
            {"verdicts": {"cite": 1}},
            ("row 1: verdicts: ", "found 'cite'"),
        ),
        (
            {"verdicts": [1, "perhaps", 0]},
            ("row 1: ", "yes or no", "on short, not 'perhaps'"),
        ),
    ],
)
def test_bad_rows_are_one_line_before_the_first_call(
    tmp_path: Path, bad: Row, said: tuple[str, ...]
) -> None:
    run = check(tmp_path, rows=[row(0, "c", **bad)], judge=JUDGE)
    assert run.code == 2 and not run.lacks(*said)
    assert run.judge.requests == []


def test_settings_bring_criteria_and_a_column_is_named(tmp_path: Path) -> None:
    plain = {"id": "r0", "prompt": "Why?", "answer": "c", "mine": {"cites": "Cites."}}
    of_column = check(
        tmp_path, "--env.criteria_column=mine", rows=[plain], judge=JUDGE, run="column"
    )
    of_settings = check(
        tmp_path, f"--env.criteria={json.dumps(NAMED)}", rows=[plain], judge=JUDGE, run="settings"
    )
    assert (of_column.scores(), of_settings.scores()) == ({"r0": 1.0}, {"r0": pytest.approx(0.6)})
    nowhere = check(
        tmp_path,
        "--env.criteria_column=yours",
        f"--env.criteria={json.dumps(NAMED)}",
        rows=[plain],
        judge=JUDGE,
        run="no",
    )
    assert nowhere.code == 2 and not nowhere.lacks("row 1: expected criteria in yours")
    refused = check(
        tmp_path, "--env.judge_critique_rounds=1", rows=[plain], judge=JUDGE, run="refused"
    )
    assert refused.code == 2 and not refused.lacks("judge_critique_rounds")


def groups_of(path: Path, *flags: str) -> list[Any]:
    """The groups of `process` with the stand-in, by row."""
    data, out = path / "rows.jsonl", path / "groups.jsonl"
    path.mkdir()
    rows = [
        {**row(number, "c"), "criteria": [f"States fact {fact}." for fact in range(10)]}
        for number in range(4)
    ]
    data.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    where = (
        f"--env.train_dataset={data}",
        f"--env.data_path_to_save_groups={out}",
        "--env.include_messages=true",
    )
    ended = in_process(
        "process", "--offline", "--env.total_steps=4", *where, *flags, env_type=RubricChecklistEnv
    )
    assert ended.code == 0, ended.said
    groups = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return sorted(groups, key=lambda group: str(group["row"]["uid"]))


@pytest.mark.slow
def test_training_leaves_out_the_same_criteria_for_a_whole_group(tmp_path: Path) -> None:
    first, again, other = (
        groups_of(tmp_path / str(number), "--env.rubric_dropout=0.3", f"--env.seed={seed}")
        for number, seed in enumerate((0, 0, 1))
    )

    def left_out(groups: list[Any]) -> list[set[str]]:
        return [{*group["row"]["texts"]["criteria left out"].split(", ")} for group in groups]

    assert left_out(first) == left_out(again) != left_out(other)
    assert {len(names) for names in left_out(first)} == {3} and len(
        {*map(frozenset, left_out(first))}
    ) > 1
    for group, names in zip(first, left_out(first), strict=True):
        for turn in (messages[-1] for messages in group["messages"]):
            told = {
                line.partition(":")[0] for line in turn["judgment"]["explanation"].split("\n\n")
            }
            assert told == {f"criterion_{n}" for n in range(1, 11)} - names
            assert 0 <= turn["reward"] <= 1


def test_evaluations_leave_out_nothing(tmp_path: Path) -> None:
    run = check(tmp_path, "--env.rubric_dropout=0.3", rows=[row(0, "c")], judge=JUDGE)
    assert run.code == 2 and not run.lacks("rubric_dropout")
