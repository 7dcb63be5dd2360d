"""Completions without text are the policy's failures and cost nothing; groups are judged without them."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from judgegym.judges.scorers.settings import JudgeKind
from tests.core.server.bodies import by_response
from tests.core.server.running import asked, running
from tests.scripted import Json, Meeting

EMPTY: list[Any] = [
    "",
    " \n",
    [],
    [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
]


@pytest.mark.parametrize("judge", ["rubric", "aspect", "peer", "arena_hard"])
async def test_native_an_empty_completion_is_invalid_and_not_judged(judge: str) -> None:
    async with running(f"--judge={judge}") as server:
        for response in EMPTY:
            answer = await server.post(
                "/v1/score", {"prompt": "Q", "response": response, "baseline": "B"}
            )
            assert (answer.status, answer.json["score"], answer.json["status"]) == (
                200,
                None,
                "invalid_completion",
            )
        metrics = (await server.get("/metrics")).text
    assert server.judge.requests == []
    assert (
        f'judgegym_responses_total{{judge="",status="invalid_completion"}} {len(EMPTY)}.0'
        in metrics
    )


async def test_openrlhf_and_slime_get_the_number_for_an_empty_completion() -> None:
    logs = {"judge_failed": [0.0], "invalid_completion": [1.0]}
    async with running("--fallback_score=0.5", "--invalid_completion_score=-1") as server:
        for response in ("", "<|im_end|>", " </s>\n"):
            many = await server.post(
                "/get_reward", {"query": [f"Q: {response}"], "prompts": ["Q: "], "labels": [None]}
            )
            one = await server.post("/slime", {"prompt": "Q", "response": response})
            assert many.json == {"rewards": [-1.0], "scores": [-1.0], "extra_logs": logs}
            assert (one.json, one.headers["X-Invalid-Completion"]) == (-1.0, "1")
            assert "X-Judge-Failed" not in one.headers
    assert server.judge.requests == []


async def test_of_several_responses_the_empty_ones_alone_are_invalid() -> None:
    async with running(judge=by_response) as server:
        answer = await server.post(
            "/v1/score", {"prompt": "Q", "responses": ["", "4", [], "5", "FAIL"]}
        )
        asked_for = len(server.judge.requests)
    assert [each["score"] for each in answer.json["results"]] == [None, 1.0, None, 0.0, None]
    assert [each["status"] for each in answer.json["results"]] == [
        "invalid_completion",
        "ok",
    ] * 2 + ["unparsable"]
    assert asked_for == 2 + 3, "one without a verdict is drawn again, twice"


def best(request: Json, number: int) -> str:
    """The answer that says so; which letter it has depends on the order."""
    before = asked(request).partition("BEST")[0]
    letter = "ABCDEF"[before.count("[The Start of Assistant") - 1]
    return f"{letter} is the best. [[{letter}]]"


async def test_choices_that_are_judged_together_are_each_told_in_their_own_order() -> None:
    """Equal requests share a call; those that differ in their order, or in empty responses, do not mix up letters."""
    meeting = Meeting(4)

    async def met(request: Json, number: int) -> str:
        await meeting.wait()
        return best(request, number)

    groups = [["BEST", "one"], ["one", "BEST"], ["", "one", "BEST"], ["one", "", "BEST"]]
    async with running("--judge=choice", judge=met) as server:
        bodies = [{"prompt": "Q", "responses": group} for group in groups]
        answers = await asyncio.gather(
            *(server.post("/v1/score", body) for body in [*bodies, *bodies])
        )
        asked_for = len(server.judge.requests)
    assert asked_for == len(groups)
    for group, answer in zip([*groups, *groups], answers, strict=True):
        winner = answer.json["results"][group.index("BEST")]
        legend, _, own = winner["explanation"].partition("\n\n")
        assert winner["score"] == 1.0
        assert f"{own[0]} is responses[{group.index('BEST')}]" in legend
        assert winner["components"]["position"] == "AB".index(own[0]) + 1


VERDICTS: dict[JudgeKind, str] = {
    "rubric": "[FEEDBACK] fine [SCORE] 4",
    "aspect": '{"reason": "r", "verdict": 1}',
    "peer": '{"reasoning": "r", "score": 70}',
    "arena_hard": "[[A=B]]",
}


@pytest.mark.parametrize(
    ("judge", "calls"), [("rubric", 4), ("aspect", 8), ("peer", 4), ("arena_hard", 8)]
)
async def test_all_responses_of_a_request_are_judged_at_once(judge: JudgeKind, calls: int) -> None:
    """The judge answers nobody until all have met: it would wait for ever for calls that are sent one by one."""
    meeting = Meeting(calls)

    async def met(request: Json, number: int) -> str:
        await meeting.wait()
        return VERDICTS[judge]

    flags = ('--aspects=["coherence", "conciseness"]',) if judge == "aspect" else ()
    body = {"prompt": "Q", "responses": ["one", "two", "three", "four"], "baseline": "B"}
    async with running(f"--judge={judge}", *flags, "--deadline=20", judge=met) as server:
        answer = await server.post("/v1/score", body)
        peak = server.judge.peak
    assert [each["status"] for each in answer.json["results"]] == ["ok"] * 4
    assert peak == calls


async def test_tool_turns_of_messages_are_written_out() -> None:
    prompt = [{"role": "user", "content": "What is 2 + 2?"}]
    response = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "add", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "four"},
        {"role": "assistant", "content": [{"type": "text", "text": "It is 4."}]},
    ]
    async with running() as server:
        answer = await server.post("/v1/score", {"prompt": prompt, "response": response})
        (request,) = server.judge.bodies
    assert answer.json["status"] == "ok"
    shown = "assistant: [tool call: add({})]\n\ntool (add): four\n\nassistant: It is 4."
    assert f"### Response To Evaluate\n\n{shown}\n\n" in asked(request)


WRONG_FIELDS: list[tuple[Json, str]] = [
    ({"rubric": {"criteria": "C", "scale_min": "1"}}, "rubric.scale_min: unknown field"),
    ({"rubric": {"criteria": "C", "scale_min": 1}}, "rubric.scale_min: unknown field"),
    ({"rubric": {"criteria": 1}}, "rubric.criteria: expected text, found int"),
    ({"rubric": 5}, "rubric: Input should be a valid string or Input should be a valid dictionary"),
    (
        {"prompt": [{"role": "user", "content": 3}]},
        "prompt.0.content: Input should be a valid string",
    ),
    ({"prompt": [{"content": "Q"}]}, "prompt.0.role: Field required"),
    (
        {"prompt": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "a message .*of type image,",
    ),
    (
        {"response": [{"role": "assistant", "content": [{"type": "audio"}]}]},
        "a message .*of type audio,",
    ),
]


async def test_an_error_names_the_field_as_it_is_in_the_body() -> None:
    async with running() as server:
        for body, words in WRONG_FIELDS:
            answer = await server.post("/v1/score", {"prompt": "Q", "response": "A", **body})
            assert answer.status == 422
            assert re.match(words, answer.json["error"]["message"]), answer.json


async def test_definitions_of_tools_stand_before_the_conversation_at_each_door() -> None:
    tool = {
        "name": "add",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    }
    asked_for = {
        "input": [{"role": "user", "content": "2 + 2?"}],
        "tools": [{"type": "function", **tool}],
    }
    answer = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Four."}],
    }
    messages = [{"role": "user", "content": "2 + 2?"}]
    async with running("--judge=rubric") as server:
        native = {
            "prompt": messages,
            "response": "Four.",
            "tools": [{"type": "function", "function": tool}],
        }
        gym = {"responses_create_params": asked_for, "response": {"output": [answer]}}
        for path, body in (("/v1/score", native), ("/verify", gym)):
            assert (await server.post(path, body)).status == 200, path
        shown = [asked(request) for request in server.judge.bodies]
    assert len(shown) == 2
    assert all(text.count('"name":"add"') == text.count("system (tools): ") == 1 for text in shown)
