"""Peer evaluation as the specification's notebook shows it."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym import RL4FEvaluator, SettingsError
from tests.command import serving
from tests.scripted import Json, Reply

MODELS = ("alpha", "beta", "gamma")


def models(request: Json, _: int) -> Reply | str:
    """Each model answers with its name; beta's critique lowers its score by ten, alpha's cannot be read."""
    text, judge = request["messages"][-1]["content"], request["model"]
    if "CANDIDATE RESPONSE" not in text:
        return f"I am {judge}."
    if "YOUR PREVIOUS EVALUATION" not in text:
        return '{"reasoning": "fine", "score": 80}'
    return {"alpha": "no", "beta": '{"reasoning": "harsh", "score": 70}'}.get(
        judge, '{"reasoning": "so", "score": 80}'
    )


async def test_models_answer_score_each_other_and_revise() -> None:
    with serving(models) as endpoint:
        evaluator = RL4FEvaluator(*MODELS, judge_base_url=endpoint.base_url)
        await evaluator.evaluate("How much VRAM?", "Rubric.", iterations=2)
    assert [answer["response"] for answer in evaluator.user_query_answers] == [
        f"I am {name}." for name in MODELS
    ]
    assert evaluator.score_table().rows == [
        ("alpha", "–", "80", "80"),
        ("beta", "70", "–", "70"),
        ("gamma", "80", "80", "–"),
    ]
    (first_round,) = evaluator.critique_history
    entries = {
        (entry["evaluating_model"], entry["evaluated_model"]): entry for entry in first_round
    }
    assert (entries["beta", "alpha"]["before_score"], entries["beta", "alpha"]["after_score"]) == (
        80,
        70,
    )
    assert (
        entries["alpha", "beta"]["after_score"] is None
        and entries["alpha", "beta"]["raw_response"] == "no"
    )
    assert "After:\n    Score: 70" in evaluator.format_critique_entry(entries["beta", "alpha"])


def test_a_model_that_fails_has_no_scores_and_a_reason() -> None:
    def script(request: Json, number: int) -> Reply | str:
        is_answer = "CANDIDATE RESPONSE" not in request["messages"][-1]["content"]
        return (
            Reply(status=400)
            if request["model"] == "beta" and is_answer
            else models(request, number)
        )

    with serving(script) as endpoint:
        evaluator = RL4FEvaluator("alpha", "beta", judge_base_url=endpoint.base_url)
        evaluator.evaluate_sync("How much VRAM?", iterations=1)
    error = evaluator.user_query_answers[1]["error"]
    assert error is not None and "400" in error
    assert evaluator.score_table().rows == [("alpha", "–", "–"), ("beta", "80", "–")]
    assert evaluator.critique_history == []
    with pytest.raises(ValueError, match="expected 1 or more"):
        evaluator.evaluate_sync("?", iterations=0)


def test_models_judge_themselves_where_they_are_told_to() -> None:
    with serving(models) as endpoint:
        evaluator = RL4FEvaluator(
            "alpha", "beta", include_self=True, judge_base_url=endpoint.base_url
        )
        evaluator.evaluate_sync("How much VRAM?", iterations=1)
    assert evaluator.score_table().rows == [("alpha", "80", "80"), ("beta", "80", "80")]


def test_models_with_endpoints_of_their_own_are_asked_there() -> None:
    with serving(models) as one, serving(models) as other:
        evaluator = RL4FEvaluator(
            {"name": "alpha", "model_name": "m", "base_url": one.base_url},
            {"name": "beta", "base_url": other.base_url},
        )
        evaluator.evaluate_sync("How much VRAM?", iterations=1)
    assert {request.json["model"] for request in one.requests} == {"m"}
    assert {request.json["model"] for request in other.requests} == {"beta"}


def test_models_with_endpoints_of_their_own_have_no_key_of_the_others() -> None:
    with serving(models) as one, serving(models) as other:
        shared: dict[str, Any] = {
            "judge_base_url": one.base_url,
            "judge_api_key": "secret",
            "judge_temperature": 0.4,
        }
        evaluator = RL4FEvaluator("alpha", {"name": "beta", "base_url": other.base_url}, **shared)
        evaluator.evaluate_sync("How much VRAM?", iterations=1)
    assert {request.headers.get("Authorization") for request in one.requests} == {"Bearer secret"}
    assert {request.headers.get("Authorization") for request in other.requests} == {None}
    assert {request.json["temperature"] for request in (*one.requests, *other.requests)} == {0.4}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("alpha",), "two or more"),
        (("alpha", "alpha"), "two or more"),
        (("alpha", {"name": "beta", "modelname": "m"}), "'modelname' is unknown"),
    ],
)
def test_models_that_cannot_be_meant_are_refused(
    given: tuple[str | dict[str, object], ...], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        RL4FEvaluator(*given)
