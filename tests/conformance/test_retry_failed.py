"""`--resume --retry_failed` judges the rows that failed, and leaves all others as they are."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.conformance.lab import DOWN, Lab, Undisturbed, row_of_sample, slow_with_several_models
from tests.conformance.subjects import JUDGED_BY_MORE_THAN_THE_QUESTION

RETRY = ("--resume", "--retry_failed")


def evaluated_with_failures(lab: Lab) -> set[str]:
    """Evaluate with a policy that fails at one row and a judge that fails at another; return these rows."""
    lab.policy.disturb(lambda uid: DOWN if uid == "row-1" else None)
    lab.judge.disturb(lambda uid: DOWN if uid == "row-3" else None)
    assert lab.evaluate().code == 1
    lab.restore()
    return {row_of_sample(failure) for failure in lab.files().failures}


@slow_with_several_models
def test_failed_rows_are_judged_and_rows_that_are_not_judged_yet_are_left_to_the_command_that_is_named(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    failed = evaluated_with_failures(lab)
    lab.files().interrupt("row-5")
    kept = (lab.files().path / "samples.jsonl").read_bytes()
    number = len(lab.files().failures)

    again = lab.evaluate(*RETRY)
    assert again.code == 1
    assert lab.policy.asked | lab.judge.asked == failed, "no other row is asked for"
    assert f"retried: {number}; rows left alone: " in again.err
    assert "not complete" in again.err
    samples = (lab.files().path / "samples.jsonl").read_bytes()
    assert samples.startswith(kept), "the lines of other rows are left as they are"
    assert {row_of_sample(json.loads(line)) for line in samples[len(kept) :].splitlines()} == failed
    assert not (lab.files().path / "metrics.json").exists()

    lab.restore()
    _, _, *command = shlex.split(again.err.rstrip().splitlines()[-1])
    assert "--resume" in command and "--retry_failed" not in command
    lab.command(*command).successful()
    assert lab.requests == 0, "its answers are in the ledger"
    assert lab.files().without_run() == undisturbed.files.without_run()
    assert (lab.files().path / "metrics.json").exists()


@slow_with_several_models
def test_run_whose_failed_rows_were_all_that_it_lacked_is_complete(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    failed = evaluated_with_failures(lab)
    lab.evaluate(*RETRY).successful()
    assert lab.policy.asked | lab.judge.asked == failed
    assert lab.files().without_run() == undisturbed.files.without_run()
    assert lab.files().failures == []


@pytest.mark.parametrize(
    "subject", JUDGED_BY_MORE_THAN_THE_QUESTION, indirect=True, ids=lambda each: each.title
)
def test_rows_that_have_changed_are_left_alone(lab: Lab) -> None:
    failed = evaluated_with_failures(lab)
    kept = (lab.files().path / "samples.jsonl").read_bytes()
    lab.subject.data(lab.path, changed={"row-2"})
    again = lab.evaluate(*RETRY)
    assert again.code == 1
    assert lab.policy.asked | lab.judge.asked == failed
    assert (lab.files().path / "samples.jsonl").read_bytes().startswith(kept)
    assert not (lab.files().path / "metrics.json").exists()


@slow_with_several_models
def test_finished_run_has_nothing_to_retry(lab: Lab) -> None:
    files = lab.finished()
    before = {
        path.name: path.read_bytes()
        for path in files.path.iterdir()
        if path.name.endswith(".jsonl")
    }
    lab.restore()
    again = lab.evaluate(*RETRY).successful()
    assert "retried: 0;" in again.err
    assert lab.requests == 0
    assert {name: (files.path / name).read_bytes() for name in before} == before


def test_retry_failed_needs_resume(lab: Lab) -> None:
    ended = lab.evaluate("--retry_failed")
    assert ended.code == 2
    assert "--retry_failed: " in ended.err and ended.err.strip().endswith("needs --resume")
    assert not lab.files().path.exists()
