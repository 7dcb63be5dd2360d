"""Verdicts of a run are read again: by other rules, and only on the answers that the policy was shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pairwise import CHOICES, TIES, Judged, evaluate
from tests.scripted import Json

ROWS = [*CHOICES, *TIES]
SWAP = "--env.swap_evaluate=True"


def twice(request: Json, number: int) -> str:
    """A policy that changes its mind, which RewardBench-2's own code does not see."""
    return "[[A]], or rather [[B]]" if "[[A]]" in json.dumps(request) else "3, or rather 7"


def again(path: Path, *flags: str) -> Judged:
    return evaluate(
        path, f"--env.model_answers={path / 'run'}", *flags, rows=path / "run.jsonl", run="again"
    )


@pytest.mark.slow
def test_verdicts_are_read_by_other_rules(tmp_path: Path) -> None:
    first = evaluate(tmp_path, SWAP, rows=ROWS, policy=twice)
    assert first.code == 0, first.said
    second = again(tmp_path, SWAP, "--env.parse_mode=official")
    assert second.code == 0, second.said
    assert second.policy.requests == []
    texts = [
        [each["model_answer"] for each in sample["completions"]] for sample in second.files.samples
    ]
    assert texts == [
        [each["model_answer"] for each in sample["completions"]] for sample in first.files.samples
    ]
    letters = [
        [sample["detail"]["letters"] for sample in run.files.samples[:8]] for run in (first, second)
    ]
    assert letters[0] != letters[1]


@pytest.mark.slow
def test_other_number_of_verdicts_is_refused(tmp_path: Path) -> None:
    assert evaluate(tmp_path, rows=CHOICES).code == 0
    second = again(tmp_path, SWAP)
    assert second.code == 2
    assert "row 'row-0' " in second.said
    assert "completions there: 1, conversations here: 2" in second.said


@pytest.mark.slow
def test_other_order_of_the_answers_is_refused(tmp_path: Path) -> None:
    assert evaluate(tmp_path, rows=CHOICES).code == 0
    second = again(tmp_path, "--env.seed=9")
    assert second.code == 2
    assert "shown other answers" in second.said


@pytest.mark.slow
def test_row_of_which_one_order_was_answered_is_no_answer(tmp_path: Path) -> None:
    first = evaluate(tmp_path, SWAP, rows=CHOICES)
    assert first.code == 0
    first.files.interrupt("row-3")
    calls = first.files.path / "calls.jsonl"
    lines = calls.read_text().splitlines(keepends=True)
    half = [line for line in lines if not ('"row-3"' in line and '"conversation_1/policy"' in line)]
    assert len(half) == len(lines) - 1
    calls.write_text("".join(half))
    second = again(tmp_path, SWAP)
    assert second.code == 2
    assert "row 'row-3' " in second.said and "after answer 1 of 2 " in second.said


def test_verdicts_on_changed_answers_are_refused_in_an_interrupted_run_too(tmp_path: Path) -> None:
    first = evaluate(tmp_path, rows=CHOICES)
    first.files.interrupt(*(row["id"] for row in CHOICES))
    rows = [{**row, "rejected": [*row["rejected"][:2], "something else"]} for row in CHOICES]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    second = again(tmp_path)
    assert second.code == 2
    assert "asked something else" in second.said
