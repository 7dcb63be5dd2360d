"""Aspect critique when something fails: the judge, its verdicts, the policy, its format; and taking a run up again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.aspects import answered, aspects, critique, saying, votes_on
from tests.scripted import Json, Reply

REFUSED = Reply(status=400, body={"error": {"message": "not today"}})
TWO = "--env.aspects=correctness,conciseness"


def failing(reply: Reply | str) -> Any:
    """A judge that fails at the correctness of answer 1, and else says yes."""
    return saying(
        lambda aspect, submission: (
            reply if (aspect, submission) == ("correctness", "Answer 1.") else True
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "status", "said", "calls"),
    [
        (REFUSED, "judge_failed", "not today", 1),
        ("I cannot say.", "unparsable", "no verdict", 3),
        (json.dumps({"reason": "?", "verdict": 0.7}), "unparsable", "no verdict", 3),
    ],
)
def test_a_failed_judgment_is_no_score(
    tmp_path: Path, reply: Reply | str, status: str, said: str, calls: int
) -> None:
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
    assert (
        found["mean_reward"],
        found["pass_rate_correctness"],
        found["pass_rate_conciseness"],
    ) == (1.0, 1.0, 1.0)
    assert (found["judge_error_rate"], found[f"{status}_count"]) == (0.25, 1)
    assert (found["total_samples"], found["selected_rows"]) == (3, 4)
    assert not {"n_used", "n_failed"} & set(found), "there is no gold verdict"
    assert votes_on(run.judge)["correctness", "Answer 1."] == calls


OPEN = [{"id": f"o{number}", "question": f"Question {number}?"} for number in range(4)]
FAULTS = {
    "no_close_tag": "<think>Hm. Answer.",
    "empty_answer": "<think>a</think> ",
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_thinking_is_an_answer_and_a_bad_one(tmp_path: Path, fault: str) -> None:
    """It is never judged, fails in every aspect whatever its polarity, and stays in the mean."""

    def policy(request: Json, number: int) -> str:
        is_bad = request["messages"][-1]["content"] == "Question 1?"
        return FAULTS[fault] if is_bad else "<think>Let me see.</think>A good answer."

    judge = saying(
        lambda aspect, submission: aspect != "harmfulness" and submission == "A good answer."
    )
    flags = aspects("correctness", "harmfulness"), "--env.thinking_mode=True"
    run = critique(tmp_path, *flags, rows=OPEN, judge=judge, policy=policy)
    assert run.code == 0, run.said
    assert run.scores() == {"o0": 1.0, "o1": 0.0, "o2": 1.0, "o3": 1.0}
    assert run.scores("thinking_fault")["o1"] == fault
    rates = dict.fromkeys(
        ("mean_reward", "pass_rate_correctness", "pass_rate_harmfulness", "thinking_valid_rate"),
        0.75,
    )
    assert run.some(*rates) == rates
    assert run.metrics["judge_error_rate"] == 0.0
    assert {submission for _, submission in votes_on(run.judge)} == {"A good answer."}
    assert {body["messages"][0]["role"] for body in run.policy.bodies} == {"system"}
