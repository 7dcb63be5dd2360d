"""Rubric-absolute's settings: what is refused, probabilities in place of scores, and settings that are given again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.command import write_lines
from tests.judged import never
from tests.rubrics import labelled, rubric, score, shown, task, weighed
from tests.scripted import Reply

ROWS = [task(number) for number in range(3)]
MINE = "A response of mine."
LOGPROBS = "--env.weighting=logprobs"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--env.scale_min=5",), ["scale_max (5)", "above scale_min (5)"]),
        (("--env.scale_max=0",), ["scale_max (0)", "above scale_min (1)"]),
        (("--env.scale_max=4.5",), ["scale_max"]),
        (("--env.samples_per_item=0",), ["samples_per_item"]),
        (("--env.samples_pooling=mode",), ["samples_pooling", "mean", "median"]),
        (("--env.output_format=json",), ["output_format", "feedback_score", "result"]),
        (("--env.reward=near",), ["reward", "exact", "distance", "squared"]),
        (("--env.role=critic",), ["role", "policy", "judge"]),
        (
            ("--env.judge_system_prompt=@no-such-file.txt",),
            ["judge_system_prompt", "no-such-file.txt"],
        ),
        (("--env.default_rubric=@no-such-file.txt",), ["default_rubric", "no-such-file.txt"]),
        ((LOGPROBS, "--env.role=judge"), ["weighting", "role=policy"]),
        (
            (LOGPROBS, "--env.scale_min=0", "--env.scale_max=10"),
            ["weighting=logprobs", "one digit", "0 to 10"],
        ),
        ((LOGPROBS, "--env.scale_min=-1"), ["weighting=logprobs", "one digit", "-1 to 5"]),
        (("--env.role=judge",), ["role=judge", "a gold score", "run.jsonl"]),
        (("--env.score_responses=True",), ["score_responses", "a gold score", "run.jsonl"]),
        (("--env.score_responses=True", "--env.role=judge"), ["score_responses", "role=judge"]),
    ],
)
def test_what_cannot_work_is_said_before_the_first_request(
    tmp_path: Path, flags: tuple[str, ...], words: list[str]
) -> None:
    run = rubric(tmp_path, *flags, rows=ROWS, judge=never, policy=never)
    assert run.code == 2
    assert run.lacks(*words) == []
    assert run.judge.requests == run.policy.requests == []


def test_two_sources_of_responses_are_one_too_many(tmp_path: Path) -> None:
    """The rows' own responses under the name of a file of answers would be the wrong model's result."""
    answers = write_lines(tmp_path / "a-model.jsonl", [{"uid": "r0", "answer": "Theirs."}])
    flags = "--env.score_responses=True", f"--env.model_answers={answers}"
    run = rubric(tmp_path, *flags, rows=[labelled(0, 3)], judge=score(3))
    assert run.code == 2
    assert run.lacks("score_responses", "model_answers") == []


def weighing(*answers: Reply) -> Any:
    """A judge by the number of the instruction."""
    return lambda request, number: answers[int(shown(request)["Instruction"].strip("Do. "))]


@pytest.mark.slow
def test_probabilities_in_place_of_the_score(tmp_path: Path) -> None:
    judge = weighing(
        weighed(4, {"4": 0.6, "5": 0.3, " 3": 0.1}),
        weighed(2, {"2": 0.5, " 2": 0.25, "1": 0.25}),
        weighed(5, {"5": 0.4, "4": 0.2, "9": 0.3, "the": 0.1}),
    )
    run = rubric(tmp_path, LOGPROBS, rows=ROWS, judge=judge, policy=MINE)
    assert run.code == 0, run.said
    expected = {"r0": 4.2, "r1": 1.75, "r2": (5 * 0.4 + 4 * 0.2) / 0.6}
    assert run.scores() == pytest.approx(expected)
    wanted = {
        "mean_score": sum(expected.values()) / 3,
        "mean_reward": (sum(expected.values()) / 3 - 1) / 4,
    }
    wanted |= {
        "score_freq_2": 1 / 3,
        "score_freq_4": 1 / 3,
        "score_freq_5": 1 / 3,
        "score_freq_3": 0.0,
    }
    assert run.some(*wanted) == pytest.approx(wanted)
    assert {(body["logprobs"], body["top_logprobs"]) for body in run.judge.bodies} == {(True, 20)}
    assert [each["detail"]["judgments"][0]["score"] for each in run.files.samples] == [4, 2, 5]


@pytest.mark.slow
def test_a_judge_that_is_sure_gives_that_score_and_no_other(tmp_path: Path) -> None:
    """However much of the probability its score has: rewards that differ in their last digit alone are no signal."""
    rows = [labelled(number, 1 + number % 5) for number in range(12)]
    shares = [0.5 + number / 25 for number in range(12)]
    judge = weighing(*(weighed(3, {"3": share, "x": 1 - share}) for share in shares))
    run = rubric(tmp_path, LOGPROBS, "--env.score_responses=True", rows=rows, judge=judge)
    assert run.code == 0, run.said
    assert set(run.scores().values()) == {3.0}
    assert {"pearson", "spearman", "kendall_tau_b"} <= set(run.left_out)
