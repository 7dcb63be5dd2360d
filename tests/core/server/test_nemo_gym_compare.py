"""NeMo Gym's `/compare`: a reward for each response, a failure that is never a number without a flag."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.server.bodies import by_response
from tests.core.server.nemo_rl import battle
from tests.core.server.running import asked, running
from tests.scripted import Json

HISTORY = [{"role": "user", "content": "What is 2 + 2?"}]


def body(*texts: str, **fields: Any) -> Json:
    responses = [
        {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}
        for text in texts
    ]
    return {"conversation_history": HISTORY, "response_objs": responses, **fields}


def best(request: Json, number: int) -> str:
    """Chooses the response that says `good`."""
    for letter in "ABCD":
        if (
            "good"
            in asked(request)
            .partition(f"Start of Assistant {letter}")[2]
            .partition("The End of")[0]
        ):
            return f"[[{letter}]]"
    return "nobody"


async def test_rewards_are_in_the_order_of_the_responses() -> None:
    async with running("--judge=choice", judge=best) as server:
        answer = await server.post("/compare", body("bad", "good", "", principle="Be brief."))
        (request,) = server.judge.bodies
    assert (answer.status, answer.json["rewards"]) == (200, [0.0, 1.0, 0.0])
    assert answer.json["metrics"]["judge_failed"] == 0.0
    assert answer.json["metrics"]["mean_reward"] == pytest.approx(1 / 3)
    assert [each["status"] for each in answer.json["comparison_results"]] == [
        "ok",
        "ok",
        "invalid_completion",
    ]
    assert "What is 2 + 2?" in asked(request)


async def test_a_response_that_has_failed_is_not_compared_and_gets_the_mean_of_the_others() -> None:
    request = body("a", "b", "d")
    request["response_objs"][1] |= {"status": "failed"}
    async with running("--judge=tournament", judge=battle) as server:
        answer = await server.post("/compare", request)
        asked_for = len(server.judge.requests)
    first, failed, last = answer.json["rewards"]
    assert (first > 0.5 > last, failed) == (True, pytest.approx((first + last) / 2))
    assert [each["status"] for each in answer.json["comparison_results"]] == [
        "ok",
        "policy_failed",
        "ok",
    ]
    assert asked_for == 2  # one pair, in both orders


@pytest.mark.parametrize("kind", ["arena_hard", "tournament"])
async def test_a_response_without_a_score_gets_the_mean_of_the_others_and_is_flagged(
    kind: str,
) -> None:
    async with running(
        f"--judge={kind}", "--invalid_completion_score=0.25", judge=battle
    ) as server:
        answer = await server.post("/compare", body("a", "c", "b", ""))
    a, c, b, empty = answer.json["rewards"]
    assert (answer.status, empty) == (200, 0.25)
    assert a > 0.5 > b
    assert c == pytest.approx((a + b + empty) / 3)
    assert answer.json["metrics"]["judge_failed"] == 1.0
    assert answer.json["metrics"]["mean_reward"] == c
    compared = answer.json["comparison_results"]
    assert [each["judge_failed"] for each in compared] == [False, True, False, False]
    assert "out of order" in compared[1]["explanation"]
    assert compared[0]["looks"] == 2.0  # the games against c cost games, and no answers


@pytest.mark.parametrize(
    ("flags", "texts"), [((), ("a", "b")), (("--on_failure=http",), ("a", "b", ""))]
)
async def test_a_failure_that_no_reward_can_stand_for_is_an_http_error(
    flags: tuple[str, ...], texts: Any
) -> None:
    async with running("--judge=choice", *flags, judge="nobody") as server:
        answer = await server.post("/compare", body(*texts))
    assert (answer.status, answer.json["error"]["type"]) == (503, "judge_failed")


async def test_a_judge_that_sees_each_response_by_itself_is_refused_in_words() -> None:
    mounts = json.dumps({"best": {"judge": "choice"}})
    async with running(f"--mounts={mounts}", judge=by_response) as server:
        refused = await server.post("/compare", body("a", "b"))
        unknown = await server.post("/compare", body("a", "b", judge_mount="nobody"))
        named = await server.post("/compare", body("a", "b", judge_mount="best"))
    assert (refused.status, unknown.status, named.status) == (422, 422, 503)
    message = refused.json["error"]["message"]
    assert "the judge rubric " in message
    assert "expected one of arena_hard, choice, listwise, tournament" in message


@pytest.mark.parametrize(
    "fault",
    [
        {"conversation_history": "Q"},
        {"response_objs": {}},
        {"response_objs": [{}]},
        {"principle": 5},
    ],
)
async def test_a_body_of_another_shape_names_the_field(fault: Json) -> None:
    async with running("--judge=choice", judge=best) as server:
        answer = await server.post("/compare", {**body("a", "b"), **fault})
    assert (answer.status, next(iter(fault)) in answer.json["error"]["message"]) == (422, True)
    assert server.judge.requests == []


async def test_fewer_than_two_responses_are_no_comparison() -> None:
    async with running("--judge=choice", judge=best) as server:
        one, none = [await server.post("/compare", body(*texts)) for texts in (("a",), ())]
    assert (one.status, none.status, none.json["rewards"]) == (422, 200, [])
