"""Pairwise judgement end to end: policies of known verdicts give exactly the numbers that the method defines."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.judges import prompts
from judgegym.judges.pairwise import choice_instructions
from tests.pairwise import (
    CHOICES,
    SUBSETS,
    TIES,
    always,
    bundled_knowing,
    choice_row,
    evaluate,
    golds,
    is_choice,
    knowing,
)
from tests.scripted import Json, Reply, completion


@pytest.mark.slow
def test_a_policy_that_is_always_right_about_the_bundled_samples(tmp_path: Path) -> None:
    run = evaluate(tmp_path, "--env.thinking_mode=True", policy=bundled_knowing)
    assert run.code == 0, run.said
    found = run.metrics
    assert (
        {found[f"percent_correct_{subset}"] for subset in SUBSETS}
        == {found["percent_correct"]}
        == {1.0}
    )
    assert {found[f"rewardbench2/{subset}"] for subset in SUBSETS if subset != "ties"} == {1.0}
    assert found["rewardbench2/ties"] == pytest.approx(1.01)
    assert found["rewardbench2/score"] == pytest.approx((5 + 1.01) / 6)
    assert found["thinking_valid_rate"] == 1.0


@pytest.mark.slow
def test_a_policy_that_always_says_a(tmp_path: Path) -> None:
    """Short as they are, its answers are whole: none is asked for again."""
    run = evaluate(tmp_path, rows=[choice_row(number) for number in range(20)], policy="[[A]]")
    assert run.code == 0, run.said
    share = golds(run).count("A") / 20
    assert 0 < share < 1
    found = run.metrics
    assert found["percent_correct"] == found["gold_letter_freq_A"] == pytest.approx(share)
    assert (found["wrong_answer_a_bias_rate"], found["predicted_letter_freq_A"]) == (1.0, 1.0)
    assert len(run.policy.requests) == 20
    assert found["short_response_rate"] == 0.0


@pytest.mark.slow
def test_a_verdict_in_an_answer_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    """It may be one that the answer only quotes; the other two environments with a policy as judge say the same."""
    cut_off = Reply(body=completion("At first sight it is [[A]], but", finish_reason="length"))
    run = evaluate(tmp_path, rows=[choice_row(number) for number in range(8)], policy=cut_off)
    assert run.code == 0, run.said
    assert {sample["status"] for sample in run.files.samples} == {"invalid_completion"}
    assert (run.metrics["percent_correct"], run.metrics["choice_format_compliance_rate"]) == (
        0.0,
        0.0,
    )


@pytest.mark.slow
def test_a_policy_that_always_says_ten(tmp_path: Path) -> None:
    """Right by the specification's rule, and worth nothing by the official one."""
    run = evaluate(tmp_path, policy=always(), run="bundled")
    assert run.code == 0, run.said
    assert (run.metrics["percent_correct_ties"], run.metrics["rewardbench2/ties"]) == (1.0, 0.0)
    assert (run.metrics["avg_ties_rating"], run.metrics["ties_rating_freq_10"]) == (10.0, 1.0)


@pytest.mark.slow
def test_each_answer_of_a_tie_is_rated_on_its_own(tmp_path: Path) -> None:
    run = evaluate(tmp_path, rows=TIES)
    assert run.code == 0, run.said
    assert (
        len(run.policy.requests)
        == sum(len(row["chosen"]) + len(row["rejected"]) for row in TIES)
        == 15
    )
    assert {len(body["messages"]) for body in run.policy.bodies} == {1}
    assert [sample["detail"]["ratings"] for sample in run.files.samples] == [
        [9, 2, 2],
        [9, 9, 2, 2],
        [9, 2, 2],
        [9, 9, 9, 2, 2],
    ]
    assert run.metrics["percent_correct"] == 1.0
    assert run.metrics["rewardbench2/ties"] == pytest.approx(1.01)


@pytest.mark.slow
def test_truncated_ties_are_flagged_and_have_no_official_score(tmp_path: Path) -> None:
    run = evaluate(tmp_path, "--env.max_ties_responses=2", rows=TIES)
    assert run.code == 0, run.said
    assert [sample["detail"]["ratings"] for sample in run.files.samples] == [[9, 2]] * 4
    assert run.metrics["ties_truncated_rate"] == 1.0
    assert "env.max_ties_responses" in run.left_out["eval/rewardbench2/score"]


@pytest.mark.slow
def test_failed_rows_stay_in_the_denominator(tmp_path: Path) -> None:
    def policy(request: Json, number: int) -> Reply | str:
        asked = any(f"Question {row}:" in request["messages"][-1]["content"] for row in (2, 5))
        return knowing(request) if asked else Reply(status=400)

    run = evaluate(tmp_path, rows=CHOICES, policy=policy)
    assert run.code == 1
    assert len(run.policy.requests) == 8
    assert run.metrics["percent_correct"] == run.metrics["percent_correct_math"] == 2 / 8
    assert (run.metrics["policy_failed_count"], run.metrics["policy_error_rate"]) == (6, 0.75)
    failed = {failure["uid"]: failure["status"] for failure in run.files.failures}
    assert failed == {f"row-{number}": "policy_failed" for number in (0, 1, 3, 4, 6, 7)}
    assert "eval/rewardbench2/score" in run.left_out


@pytest.mark.slow
def test_no_readable_verdict_is_wrong_and_officially_a_quarter(tmp_path: Path) -> None:
    rows = [choice_row(number, category="Math") for number in range(4)]
    run = evaluate(tmp_path, rows=rows, policy="All of them are fine. [[E]]")
    assert run.code == 0, run.said
    assert (run.metrics["percent_correct"], run.metrics["rewardbench2/math"]) == (0.0, 0.25)
    assert run.metrics["choice_format_compliance_rate"] == 0.0
    assert {sample["status"] for sample in run.files.samples} == {"invalid_completion"}
    assert run.files.failures == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "opening", ["", "<think>a</think><think>b</think>", "<think>without an end "]
)
def test_malformed_thinking_is_wrong_however_right_the_letter(tmp_path: Path, opening: str) -> None:
    run = evaluate(
        tmp_path, "--env.thinking_mode=True", rows=CHOICES, policy=lambda r, n: opening + knowing(r)
    )
    assert run.code == 0, run.said
    assert run.metrics["percent_correct"] == run.metrics["thinking_valid_rate"] == 0.0
    assert run.metrics["selected_rows"] == run.metrics["total_samples"] == 8


def test_thinking_is_asked_for_in_the_system_message(tmp_path: Path) -> None:
    thinking = prompts.load("thinking_judge")
    run = evaluate(
        tmp_path,
        "--env.thinking_mode=True",
        rows=[CHOICES[0], TIES[0]],
        policy="<think></think>[[A]] 5",
    )
    for body in run.policy.bodies:
        system = body["messages"][0]
        assert system["role"] == "system"
        assert system["content"] == (
            f"{thinking}\n\n{choice_instructions(4)}" if is_choice(body) else thinking
        )
    assert {is_choice(body) for body in run.policy.bodies} == {True, False}


def test_the_policy_is_named_as_the_judge(tmp_path: Path) -> None:
    """There is no other one, so no default of one may stand beside the numbers."""
    general = evaluate(tmp_path, rows=CHOICES[:1]).files.report["config_general"]
    assert general["judge_model_name"] == general["model_name"]
    assert not any(name.startswith("judge") for name in general["generation_parameters"])
