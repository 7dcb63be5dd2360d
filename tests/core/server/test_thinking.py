"""Thinking in requests to the server, and in the texts of its judges."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from tests.core.server.bodies import VERIFY
from tests.core.server.running import asked, running
from tests.scripted import Json
from tests.thinking import stand_in

THOUGHT = "◁think▷SECRET PLAN◁/think▷\n"
WRITTEN = f"{THOUGHT}It is 42."
ITEM = {"prompt": "What is 6 * 7?", "response": WRITTEN}
CONVERSATION = [
    {"role": "user", "content": "What is 6 * 6?"},
    {"role": "assistant", "content": f"{THOUGHT}It is 36.\n\nIs there more?"},
    {"role": "user", "content": "<think> is a tag. What is 6 * 7?"},
]
BODIES: Mapping[str, tuple[str, Json]] = {
    "native": ("/v1/score", ITEM),
    "native, messages": ("/v1/score", {**ITEM, "response": [{"role": "assistant", "content": WRITTEN}]}),
    "native, a trace": (
        "/v1/score",
        {**ITEM, "response": [
            {"role": "assistant", "content": f"{THOUGHT}I search.", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "search", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "42"},
            {"role": "assistant", "content": WRITTEN},
        ]},
    ),
    "openrlhf": ("/get_reward", {"query": [f"What is 6 * 7?{WRITTEN}"], "prompts": ["What is 6 * 7?"], "labels": [""]}),
    "nemo gym": (
        "/verify",
        {**VERIFY, "response": {**VERIFY["response"], "output": [
            {**VERIFY["response"]["output"][0], "content": [
                {"type": "output_text", "text": WRITTEN, "annotations": []}]}
        ]}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
async def test_no_protocol_shows_a_judge_the_thinking_of_a_response(name: str) -> None:
    path, body = BODIES[name]
    async with running() as server:
        answer = await server.post(path, body)
        (request,) = server.judge.bodies
        metrics = (await server.get("/metrics")).text
    assert answer.status == 200, answer.text
    assert 'judgegym_thinking_removed_total{judge=""} 1.0' in metrics
    assert "SECRET" not in asked(request) and "It is 42." in asked(request)


@pytest.mark.parametrize("words", [(), ("--judge=listwise", "--group_size=2", "--group_wait=60")])
async def test_an_earlier_answer_in_a_prompt_is_shown_without_its_thinking(
    words: tuple[str, ...],
) -> None:
    async with running(*words, judge=lambda request, number: stand_in(request)) as server:
        for prompt in (
            CONVERSATION,
            [*CONVERSATION, {"role": "assistant", "content": "<think>SECRET"}, CONVERSATION[0]],
        ):
            sent = [
                server.post("/v1/score", {"prompt": prompt, "response": text})
                for text in ("42", "41")
            ]
            assert [answer.json["status"] for answer in await asyncio.gather(*sent)] == ["ok", "ok"]
        shown = [asked(request) for request in server.judge.bodies]
    said = (
        "user: What is 6 * 6?\n\nassistant: It is 36.\n\nIs there more?\n\nuser: <think> is a tag. "
        "What is 6 * 7?"
    )
    assert len(shown) >= 2 and not any("SECRET" in text for text in shown)
    assert all(said in text for text in shown)


async def test_thinking_that_never_ends_is_an_invalid_completion() -> None:
    async with running() as server:
        answer = await server.post("/v1/score", {**ITEM, "response": "<think>It is 42."})
        assert (answer.json["status"], answer.json["score"]) == ("invalid_completion", None)
        assert server.judge.bodies == []
        assert (
            'judgegym_thinking_removed_total{judge=""} 1.0' in (await server.get("/metrics")).text
        )
        await server.post("/v1/score", {**ITEM, "response": "It is 42."})
        assert (
            'judgegym_thinking_removed_total{judge=""} 1.0' in (await server.get("/metrics")).text
        )
