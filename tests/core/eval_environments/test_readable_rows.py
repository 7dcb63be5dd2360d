"""What the lines of each environment say to a reader: the texts of their rows, and the points in each order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS
from tests.arena import Arena
from tests.aspects import answered, critique, gold_row, verdict
from tests.pairwise import choice_row, evaluate, knowing, shown
from tests.rubrics import labelled, rubric, score, task
from tests.scripted import Json, Reply

SWAPPED = "--env.swap_evaluate=True"


def only(samples: list[dict[str, Any]]) -> dict[str, Any]:
    (sample,) = samples
    return sample


@pytest.mark.slow
def test_strong_verdicts_weigh_more_in_the_headline_and_not_in_the_orders(arena: Arena) -> None:
    def verdict(uid: str, as_a: bool) -> str:
        return "[[A>>B]]" if as_a else "[[A=B]]"

    run = arena.evaluate("--env.judge_protocol=arena_hard_v0.1", verdict=verdict)
    for sample in run.files.samples:
        assert sample["headline"] == {"total": 3.5, "weight": 4.0}
        assert sample["orders"] == {"model_is_a": 1.0, "model_is_b": 0.5}


@pytest.mark.slow
def test_answers_of_a_choice_stand_in_the_order_shown_with_the_right_one_marked(
    tmp_path: Path,
) -> None:
    run = evaluate(tmp_path, SWAPPED, rows=[choice_row(number) for number in range(4)])
    asked = [
        {f"answer {letter}": text for letter, text in shown(body).items()}
        for body in run.policy.bodies
    ]
    for sample in run.files.samples:
        assert {
            title.removesuffix(" (right)"): text for title, text in sample["texts"].items()
        } in asked
        (right,) = (title for title in sample["texts"] if title.endswith(" (right)"))
        assert sample["texts"][right].startswith("RIGHT")
        assert right == f"answer {sample['detail']['gold'][0]} (right)", (
            "in the order that is asked first"
        )
        assert sample["orders"] == {"as_shown": 1.0, "reversed": 1.0}


@pytest.mark.parametrize("said", ["[[A]]", "no letter"])
def test_orders_of_a_choice_say_which_was_right(tmp_path: Path, said: str) -> None:
    """A policy that always says A, of two answers, is right in one order; one that says nothing in none."""
    run = evaluate(
        tmp_path, SWAPPED, "--env.num_choices=2", rows=[choice_row(0, wrong=1)], policy=said
    )
    expected = {"as_shown": 0.0, "reversed": 0.0}
    if said == "[[A]]":
        first = next(iter(only(run.files.samples)["texts"]))
        expected["as_shown" if first == "answer A (right)" else "reversed"] = 1.0
    assert only(run.files.samples)["orders"] == expected


def test_a_policy_as_judge_that_failed_counts_as_wrong_in_the_headline(tmp_path: Path) -> None:
    def policy(request: Json, number: int) -> Reply | str:
        if "Question 1" in request["messages"][-1]["content"]:
            return Reply(status=400, body={"error": {"message": "no"}})
        return knowing(request)

    rows = [choice_row(number) for number in range(3)]
    run = evaluate(tmp_path, "--env.max_judge_error_rate=1", rows=rows, policy=policy)
    failure = only(run.files.failures)
    assert (failure["status"], failure["headline"]) == (
        "policy_failed",
        {"total": 0.0, "weight": 1.0},
    )
    assert run.metrics["percent_correct"] == pytest.approx(2 / 3)


@pytest.mark.slow
def test_rubric_rows_have_rubric_and_reference_and_the_response_that_a_policy_judges(
    tmp_path: Path,
) -> None:
    levels = {
        "criteria": "Is it good?",
        "score1_description": "Bad.",
        "score5_description": "Good.",
    }
    rows = [task(0, reference_answer="Like so."), task(1, rubric=levels)]
    first, second = rubric(
        tmp_path, rows=rows, judge=score(3), policy="A response.", run="policy"
    ).files.samples
    assert first["texts"] == {"rubric": "Is it good?", "reference": "Like so."}
    assert second["texts"] == {"rubric": "Is it good?\nScore 1: Bad.\nScore 5: Good."}
    assert first["headline"] == {"total": 0.5, "weight": 1.0}
    judged = rubric(
        tmp_path, "--env.role=judge", rows=[labelled(0, 3)], policy=score(3), run="judge"
    )
    assert only(judged.files.samples)["texts"] == {
        "rubric": "Is it good?",
        "response": "Response 0.",
    }


@pytest.mark.slow
def test_aspect_rows_have_contexts_and_reference_and_what_a_policy_judges(tmp_path: Path) -> None:
    row = {"contexts": ["one", "two"], "reference": "R"}
    flags = ("--env.aspects=correctness",)
    plain = critique(tmp_path, *flags, rows=[answered(0, **row)], judge=verdict(1), run="policy")
    assert only(plain.files.samples)["texts"] == {"contexts": "one\ntwo", "reference": "R"}
    gold_rows = [gold_row(0, correctness=1) | row]
    judged = critique(
        tmp_path, "--env.role=judge", *flags, rows=gold_rows, policy=verdict(1), run="judge"
    )
    assert only(judged.files.samples)["texts"] == {
        "contexts": "one\ntwo",
        "reference": "R",
        "aspect": SUPPORTED_ASPECTS["correctness"].definition,
        "answer": "Answer 0.",
    }
