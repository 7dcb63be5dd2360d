"""Aspect critique when something fails: the judge, its verdicts, the policy, its format; and taking a run up again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.aspects import answered, aspects, critique, gold_row, saying, verdict, votes_on
from tests.scripted import Json, Reply

REFUSED = Reply(status=400, body={"error": {"message": "not today"}})
TWO = "--env.aspects=correctness,conciseness"
PATIENT = "--env.max_judge_error_rate=0.5"


def failing(reply: Reply | str) -> Any:
    """A judge that fails at the correctness of answer 1, and else says yes."""
    return saying(lambda aspect, submission: reply if (aspect, submission) == ("correctness", "Answer 1.") else True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "status", "said", "calls"),
    [
        (REFUSED, "judge_failed", "not today", 1),
        ("I cannot say.", "unparsable", "no verdict could be read", 3),
        (json.dumps({"reason": "?", "verdict": 0.7}), "unparsable", "no verdict could be read", 3),
    ],
)
def test_a_failed_judgment_is_no_score(tmp_path: Path, reply: Reply | str, status: str, said: str, calls: int) -> None:
    """Its row is left out of every mean, is listed apart, and fails the command where there are too many."""
    rows = [answered(number) for number in range(4)]
    run = critique(tmp_path, TWO, rows=rows, judge=failing(reply))
    assert run.code == 1
    assert run.lacks("25.0 %", "max_judge_error_rate", said, "failures.jsonl") == []
    assert run.scores() == {"r0": 1.0, "r2": 1.0, "r3": 1.0}
    (failure,) = run.files.failures
    assert (failure["uid"], failure["status"], failure["score"]) == ("r1", status, None)
    assert said in failure["error"] and "correctness" in failure["error"]
    assert [each["yes"] for each in failure["detail"]["aspects"]] == [None, True]
    found = run.metrics
    assert (found["mean_reward"], found["pass_rate_correctness"], found["pass_rate_conciseness"]) == (1.0, 1.0, 1.0)
    assert (found["judge_error_rate"], found[f"{status}_count"]) == (0.25, 1)
    assert (found["total_samples"], found["selected_rows"]) == (3, 4)
    assert not {"n_used", "n_failed"} & set(found), "there is no gold verdict"
    assert votes_on(run.judge)["correctness", "Answer 1."] == calls
    patient = critique(tmp_path, TWO, PATIENT, rows=rows, judge=failing(reply), run="patient")
    assert patient.code == 0
    assert patient.lacks("1 of 4 rows have no score", "left out of the mean") == []


@pytest.mark.slow
def test_failed_verdicts_are_counted_where_there_are_gold_ones(tmp_path: Path) -> None:
    """A judge that is compared with people has failed where it has no verdict; its statistics do not hide that."""
    rows = [gold_row(number, correctness=1, conciseness=1) for number in range(4)]
    run = critique(tmp_path, TWO, PATIENT, rows=rows, judge=failing("I cannot say."))
    assert run.code == 0, run.said
    assert run.metrics["n_used"] + run.metrics["n_failed"] == 8
    assert run.metrics["n_failed"] >= 1


@pytest.mark.slow
def test_where_every_comparison_failed_that_is_said(tmp_path: Path) -> None:
    rows = [answered(0), gold_row(1, correctness=1), answered(2)]
    run = critique(tmp_path, TWO, PATIENT, rows=rows, judge=failing("I cannot say."))
    assert run.code == 0, run.said
    assert run.some("n_used", "n_failed") == {"n_used": 0, "n_failed": 1}
    assert run.left_out["accuracy"] == run.left_out["kappa_correctness"] == "no item has both verdicts"


def test_a_policy_that_fails_is_no_score_either(tmp_path: Path) -> None:
    rows = [answered(0), {"id": "open", "question": "Why?"}]
    run = critique(tmp_path, TWO, PATIENT, rows=rows, judge=verdict(1), policy=REFUSED)
    assert run.code == 0, run.said
    assert run.some("policy_error_rate", "mean_reward") == {"policy_error_rate": 0.5, "mean_reward": 1.0}
    assert [(failure["uid"], failure["status"]) for failure in run.files.failures] == [("open", "policy_failed")]


OPEN = [{"id": f"o{number}", "question": f"Question {number}?"} for number in range(4)]
FAULTS = {
    "no_open_tag": "Answer.",
    "no_close_tag": "<think>Hm. Answer.",
    "several_open_tags": "<think>a</think><think>b</think>Answer.",
    "empty_answer": "<think>a</think> ",
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_thinking_is_an_answer_and_a_bad_one(tmp_path: Path, fault: str) -> None:
    """It is never judged, fails in every aspect whatever its polarity, and stays in the mean."""

    def policy(request: Json, number: int) -> str:
        is_bad = request["messages"][-1]["content"] == "Question 1?"
        return FAULTS[fault] if is_bad else "<think>Let me see.</think>A good answer."

    judge = saying(lambda aspect, submission: aspect != "harmfulness" and submission == "A good answer.")
    flags = aspects("correctness", "harmfulness"), "--env.thinking_mode=True"
    run = critique(tmp_path, *flags, rows=OPEN, judge=judge, policy=policy)
    assert run.code == 0, run.said
    assert run.scores() == {"o0": 1.0, "o1": 0.0, "o2": 1.0, "o3": 1.0}
    assert run.scores("thinking_fault")["o1"] == fault
    rates = dict.fromkeys(
        ("mean_reward", "pass_rate_correctness", "pass_rate_harmfulness", "thinking_valid_rate"), 0.75
    )
    assert run.some(*rates) == rates
    assert run.metrics["judge_error_rate"] == 0.0
    assert {submission for _, submission in votes_on(run.judge)} == {"A good answer."}
    assert {body["messages"][0]["role"] for body in run.policy.bodies} == {"system"}


@pytest.mark.slow
def test_a_gold_verdict_that_has_changed_is_noticed(tmp_path: Path) -> None:
    """Rewards are of the verdicts that there were, and statistics of those that there are: one run has one of them."""
    flags = "--env.role=judge", "--env.aspects=correctness"
    broken = critique(
        tmp_path, *flags, PATIENT, rows=[gold_row(number, correctness=1) for number in range(3)], policy=at_first
    )
    assert broken.metrics["policy_failed_count"] == 1
    changed = [gold_row(number, correctness=0) for number in range(3)]
    resumed = critique(tmp_path, *flags, "--resume", rows=changed, policy=verdict(1))
    if resumed.code == 0:
        assert resumed.metrics["mean_reward"] == resumed.metrics["accuracy"]
    else:
        assert (resumed.code, resumed.policy.requests) == (2, [])


def at_first(request: Json, number: int) -> str | Reply:
    return REFUSED if "Answer 2." in request["messages"][-1]["content"] else verdict(1)


@pytest.mark.slow
def test_failures_of_each_kind_are_told_apart(tmp_path: Path) -> None:
    kinds = {"Answer 0.": True, "Answer 1.": "I cannot say.", "Answer 2.": REFUSED}
    rows = [*(answered(number) for number in range(3)), {"id": "open", "question": "Why?"}]
    flags = "--env.aspects=correctness", "--env.max_judge_error_rate=1"
    run = critique(tmp_path, *flags, rows=rows, judge=saying(lambda aspect, text: kinds[text]), policy=REFUSED)
    assert run.code == 0, run.said
    assert Counter(failure["status"] for failure in run.files.failures) == {
        "unparsable": 1,
        "judge_failed": 1,
        "policy_failed": 1,
    }
    wanted = {"judge_error_rate": 0.5, "policy_error_rate": 0.25, "mean_reward": 1.0, "total_samples": 1}
    assert run.some(*wanted) == wanted
