"""`judgegym score --judge rule`: no endpoint, key or price is needed, and what cannot work is one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from judgegym.engine.runs.directory import locate_run_directory
from judgegym.llm.wire import JSON
from tests.command import RunFiles, write_lines
from tests.core.datasets.scoring import read_rows, score
from tests.plans import read_plan

ROWS: list[dict[str, JSON]] = [
    {"prompt": "6 * 7?", "response": "It is 42.", "reference": "#### 42"},
    {"prompt": "6 * 8?", "response": "It is 49.", "reference": "48"},
    {"prompt": "6 * 9?", "response": "I do not know.", "reference": "54"},
    {"prompt": "Name it.", "response": "It is 7."},
]
NUMBER = ("--judge=rule", "--rule=number")


def test_a_rule_asks_nobody_and_has_no_score_where_it_cannot_say(tmp_path: Path) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", ROWS), tmp_path / "scored.jsonl"
    ended = score(data, "--out", out, *NUMBER, "--budget_usd=0.01", "--max_judge_error_rate=0.5")
    assert ended.code == 0, ended.said
    rows = read_rows(out)
    assert [(row["judge/score"], row["judge/status"]) for row in rows] == [
        *((1.0, "ok"), (0.0, "ok")),
        *((None, "unparsable"), (None, "unparsable")),
    ]
    of_text, of_row = [str(row["judge/explanation"]) for row in rows[2:]]
    assert "has no number" in of_text
    assert "has no reference" in of_row and "rule_expected" in of_row
    run = RunFiles(locate_run_directory(out))
    assert run.report["config_general"]["judge_model_name"] == "rule-number"
    assert run.metrics["mean_score"] == 0.5 and not any(
        "cost" in name or "calls" in name for name in run.metrics
    )
    assert "price" not in ended.said and "stand-in" not in ended.said


def test_a_rule_that_cannot_say_of_the_first_rows_ends_no_run(tmp_path: Path) -> None:
    rows = [{**ROWS[2], "prompt": f"Question {number}"} for number in range(12)]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "scored.jsonl"
    ended = score(data, "--out", out, *NUMBER, "--max_judge_error_rate=1")
    assert ended.code == 0, ended.said
    assert {row["judge/status"] for row in read_rows(out)} == {"unparsable"}


def test_a_plan_has_no_calls_and_no_cost(tmp_path: Path) -> None:
    planned = score(write_lines(tmp_path / "data.jsonl", ROWS), *NUMBER, "--plan", "--budget_usd=1")
    assert planned.code == 0, planned.said
    plan = read_plan(planned.out)
    assert (plan.models, plan.words["calls"], plan.words["budget"]) == ({}, "0", "$1 are enough")
    assert plan.words["cost"] == "$0.00"


def test_offline_there_is_no_stand_in(tmp_path: Path) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", ROWS[:2]), tmp_path / "scored.jsonl"
    ended = score(data, "--out", out, *NUMBER, "--offline")
    assert ended.code == 0, ended.said
    assert "stand-in" not in ended.said


def test_a_run_is_resumed_by_the_same_rule_alone(tmp_path: Path) -> None:
    data, out, own = (
        write_lines(tmp_path / "data.jsonl", ROWS[:2]),
        tmp_path / "scored.jsonl",
        tmp_path / "own.py",
    )
    own.write_text("def fine(response):\n    return True\n")
    words = (data, "--out", out, "--judge=rule", f"--rule={own}:fine")
    assert score(*words).code == 0
    assert score(*words, "--resume").code == 0
    own.write_text("def fine(response):\n    return False\n")
    changed = score(*words, "--resume")
    assert changed.code == 2 and "rule_digest: 'sha256:" in changed.err
    other = score(data, "--out", out, *NUMBER, "--resume")
    assert other.code == 2 and "rule: " in other.err and "'number' now" in other.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--judge=rule",), r"rule: .*number, expression, .*FILE\.py:NAME"),
        (("--judge=rule", "--rule=numbers"), "--rule .*'numbers' .*number, expression, "),
        (("--judge=rule", "--rule=length"), "--rule_hard_limit: .*rule length"),
        (
            ("--judge=rule", "--rule=length", "--rule_hard_limit=3", "--rule_soft_limit=4"),
            "--rule_soft_limit: .*rule_hard_limit, got 4",
        ),
        (
            ("--judge=rule", "--rule=exact", "--rule_tolerance=0.1"),
            "--rule_tolerance: .*rule exact",
        ),
        (
            ("--judge=rule", "--rule=number", "--rule_expected=many"),
            "rule_expected: .*no number, .*many",
        ),
        (
            ("--judge=rule", "--rule=missing.py:f"),
            r"rule: missing\.py:f: FileNotFoundError: ",
        ),
        (
            (*NUMBER, "--judge_temperature=0.5"),
            "--judge_temperature .*with --judge=rule",
        ),
        (("--judge=rubric", "--rule=number"), "--rule .*without --judge=rule"),
    ],
)
def test_wrong_combinations_are_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ended = score(
        write_lines(tmp_path / "data.jsonl", ROWS), "--out", tmp_path / "scored.jsonl", *words
    )
    assert ended.code == 2
    assert re.search(said, ended.err), ended.err
    assert len([line for line in ended.err.splitlines() if "INFO" not in line]) == 1
