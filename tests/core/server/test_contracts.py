"""Each protocol as its trainer speaks it: the JSON in, the JSON out, empty lists, and a judge that fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.checklists import saying
from tests.core.server.bodies import DOWN, by_response, logs
from tests.core.server.running import asked, running
from tests.scripted import Json

CHATML = "<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n"
LLAMA = (
    "<|start_header_id|>user<|end_header_id|>\n\nWhat is 2 + 2?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)

OPENRLHF = {"query": ["Q: 4"], "prompts": ["Q: "], "labels": [None]}
SLIME = {"prompt": "Q", "response": "4", "label": None}


@pytest.mark.parametrize("template", [CHATML, LLAMA, "What is 2 + 2?"])
async def test_openrlhf_gets_rewards_in_the_order_of_the_queries(template: str) -> None:
    queries = [f"{template}4<|im_end|>", f"{template}five</s>"]
    body = {"query": queries, "prompts": [template] * 2, "labels": ["Four.", None]}
    async with running(judge=by_response) as server:
        answer = await server.post("/get_reward", body)
        shown = sorted(asked(request) for request in server.judge.bodies)
    assert answer.status == 200
    assert answer.json == {
        "rewards": [1.0, 0.0],
        "scores": [1.0, 0.0],
        "extra_logs": logs(0.0, 0.0),
    }
    assert all(
        "### Instruction\n\nWhat is 2 + 2?\n\n" in text and "<|" not in text for text in shown
    )
    assert sum("### Reference Response\n\nFour." in text for text in shown) == 1


async def test_an_empty_list_is_answered_by_empty_lists() -> None:
    async with running() as server:
        for labels in ({"labels": []}, {}):
            answer = await server.post("/get_reward", {"query": [], "prompts": [], **labels})
            assert (answer.status, answer.json) == (
                200,
                {"rewards": [], "scores": [], "extra_logs": logs()},
            )
        assert (await server.post("/v1/score", {"prompt": "Q", "responses": []})).json == {
            "results": []
        }
    assert server.judge.requests == []


# Losses: slime | any | `remote_rm` | refused
@pytest.mark.parametrize("judge", [DOWN, "I cannot say."])
async def test_a_failed_judge_is_no_number_for_those_who_read_nothing_else(judge: Any) -> None:
    """OpenRLHF and slime train every number as a reward, and send again what ends with an error."""
    async with running("--fallback_score=0.25", judge=judge) as server:
        for path, body in (("/get_reward", OPENRLHF), ("/slime", SLIME)):
            answer = await server.post(path, body)
            assert (answer.status, answer.json["error"]["type"]) == (503, "judge_failed")
            assert "rewards" not in answer.json
    async with running("--on_failure=score", "--fallback_score=0.25", judge=judge) as server:
        rewards, number = (
            await server.post("/get_reward", OPENRLHF),
            await server.post("/slime", SLIME),
        )
    assert rewards.json == {"rewards": [0.25], "scores": [0.25], "extra_logs": logs(1.0)}
    assert (number.status, number.text, number.headers["X-Judge-Failed"]) == (200, "0.25", "1")


async def test_a_label_may_hold_a_rubric() -> None:
    label = (
        '{"reference": "Four.", "rubric": {"criteria": "Is it right?", "score1_description": '
        '"Wrong."}}'
    )
    async with running() as server:
        await server.post("/get_reward", {"query": ["Q: 4"], "prompts": ["Q: "], "labels": [label]})
    (request,) = server.judge.bodies
    assert "### Score Rubric\n\nIs it right?\nScore 1: Wrong." in asked(request)
    assert "### Reference Response\n\nFour." in asked(request)


async def test_criteria_come_with_each_request_in_every_protocol() -> None:
    criteria = [{"criterion": "Is a number.", "points": 4}, {"criterion": "Is long.", "points": -2}]
    label = {"reference": "Four.", "criteria": criteria}
    verify = {
        "responses_create_params": {"input": "Q"},
        "response": {
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "4"}]}]
        },
        "criteria": criteria,
    }
    async with running(
        "--judge=checklist", judge=saying(lambda text, _: "number" in text)
    ) as server:
        scores = [
            (
                await server.post(
                    "/v1/score", {"prompt": "Q", "response": "4", "criteria": criteria}
                )
            ).json["score"],
            (
                await server.post(
                    "/get_reward", {"query": ["Q: 4"], "prompts": ["Q: "], "labels": [label]}
                )
            ).json["rewards"],
            (
                await server.post(
                    "/slime", {"prompt": "Q", "response": "4", "label": json.dumps(label)}
                )
            ).text,
            (await server.post("/verify", verify)).json["reward"],
        ]
        without = await server.post("/v1/score", {"prompt": "Q", "response": "4"})
        wrong = await server.post("/v1/score", {"prompt": "Q", "response": "4", "criteria": [" "]})
    assert scores == [1.0, [1.0], "1.0", 1.0]
    assert (
        "the setting criteria" in without.text
        and "criteria: criterion 1: expected a text" in wrong.text
    )
    assert 400 <= without.status < 500 and 400 <= wrong.status < 500


async def test_native_protocol_gives_the_result_of_one_response() -> None:
    body = {
        "prompt": "What is 2 + 2?",
        "response": "4",
        "reference": "Four.",
        "rubric": "Is it right?",
    }
    async with running(judge=by_response) as server:
        answer = await server.post("/v1/score", body)
    usage = {
        "prompt_tokens": 10,
        "cached_prompt_tokens": 0,
        "completion_tokens": 5,
        "cost_usd": None,
        "judge_calls": 1,
    }
    assert answer.json == {
        "score": 1.0,
        "status": "ok",
        "label": "5",
        "explanation": "Seen.",
        "components": {"raw": 5.0},
        "usage": usage,
        "cached": False,
        "shared": False,
        "injection_suspects": 0,
    }


async def test_aspects_of_a_request_replace_those_of_the_judge() -> None:
    def judge(request: Json, number: int) -> str:
        return f'{{"reason": "since", "verdict": {int("safe for children" in asked(request))}}}'

    own = {
        "name": "child_safety",
        "definition": "Is it safe for children?",
        "polarity": 1,
        "weight": 3,
    }
    body = {
        "prompt": "Q",
        "response": "A",
        "aspects": ["correctness", own],
        "context": ["one", "two"],
    }
    async with running("--judge=aspect", judge=judge) as server:
        answer = await server.post("/v1/score", body)
        unknown = await server.post("/v1/score", {**body, "aspects": ["wisdom"]})
        twice = await server.post("/v1/score", {**body, "aspects": ["coherence", "coherence"]})
    assert answer.json["score"] == 0.75
    assert answer.json["components"] == {"correctness": 0.0, "child_safety": 1.0}
    assert all("[Context]\none\ntwo" in asked(request) for request in server.judge.bodies)
    assert (unknown.status, twice.status) == (422, 422)
    assert "harmfulness" in unknown.json["error"]["message"]


async def test_a_field_that_a_trainer_has_added_is_ignored() -> None:
    async with running() as server:
        slime = await server.post("/slime", {**SLIME, "added": 1})
        openrlhf = await server.post("/get_reward", {"query": ["QA"], "prompts": ["Q"], "added": 1})
    assert (slime.status, openrlhf.status) == (200, 200)


def votes(request: Json, number: int) -> str:
    return (
        '{"reason": "so", "verdict": 1}'
        if "[Submission]" in asked(request)
        else "[FEEDBACK] fine [SCORE] 4"
    )


@pytest.mark.parametrize(
    ("flags", "temperatures"),
    [
        (("--judge=aspect",), {0.2}),
        (("--judge=aspect", "--strictness=3"), {0.7}),
        (("--judge=rubric", "--samples_per_item=2"), {0.7}),
        (("--judge=rubric",), {0.2}),
        (("--judge=aspect", "--strictness=3", "--judge_temperature=0.2"), {0.2}),
    ],
)
async def test_several_votes_are_sampled_at_the_temperature_that_environments_take(
    flags: tuple[str, ...], temperatures: set[float]
) -> None:
    async with running(*flags, judge=votes) as server:
        answer = await server.post("/v1/score", {"prompt": "Q", "response": "A", "aspects": None})
    assert answer.status == 200
    assert {request["temperature"] for request in server.judge.bodies} == temperatures
