"""Bodies that are meant to hurt, or that a policy writes when it falls apart: an answer, in time, and never a 5xx."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from tests.command import ROOT
from tests.core.server.running import running
from tests.scripted import Json

ASK = {"prompt": "Q", "response": "A"}
ROLLOUT: Json = {
    "responses_create_params": {"input": "Q"},
    "response": {"output": [{"type": "message", "role": "assistant", "content": "A"}]},
}
PEER = '{"reasoning": "since", "score": 70}'
TOO_SLOW_S = 20.0
"""Beyond any patience: what takes this long holds up every other request."""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" + "\n" * 200_000 + "b", id="line breaks"),
        pytest.param("a" + " " * 200_000 + "b", id="spaces"),
        pytest.param("<|im_end|>" * 50_000 + "b", id="special tokens"),
        pytest.param(" <pad>" * 50_000 + "b", id="padding"),
    ],
)
@pytest.mark.parametrize(
    "read",
    ["plain_response(t)", "plain_prompt(t)", "find_response(t, t[: len(t) // 2] + 'b') or ''"],
)
def test_a_text_that_repeats_itself_is_read_in_linear_time(read: str, text: str) -> None:
    """In a process of its own: a regular expression cannot be interrupted."""
    module = "judgegym.server.protocols.chat_tokens"
    code = f"import sys; from {module} import *; t = sys.stdin.read(); print(len({read}))"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        timeout=TOO_SLOW_S,
        check=True,
    )
    assert int(ended.stdout) <= len(text)


@pytest.mark.parametrize("judge", ["rubric", "aspect", "peer"])
async def test_a_level_beyond_every_scale_is_no_server_error(judge: str) -> None:
    rubric = {"criteria": "Is it right?", "score99999999999999999999999_description": "Perfect."}
    async with running(f"--judge={judge}", judge=PEER) as server:
        answer = await server.post("/v1/score", {**ASK, "rubric": rubric})
        verified = await server.post("/verify", {**ROLLOUT, "rubric": rubric})
        label = await server.post(
            "/get_reward", {"query": ["QA"], "prompts": ["Q"], "labels": [{"rubric": rubric}]}
        )
    assert [each.status for each in (answer, label)] == [422] * 2
    assert (verified.status, verified.json["_ng_failure_class"]) == (200, "invalid_row")
    assert "rubric.score99999999999999999999999_description" in answer.json["error"]["message"]


async def test_a_row_that_is_nested_deeply_is_echoed_or_refused() -> None:
    async with running("--judge=peer", judge=PEER) as server:
        for depth in (100, 300, 900):
            body = json.dumps(ROLLOUT)[:-1] + ', "tree": ' + "[" * depth + "]" * depth + "}"
            answer = await server.post("/verify", body)
            assert answer.status in (200, 400)  # 400: too deep to be read at all
            if answer.status == 200:
                told = answer.json.get("_ng_failure_class") == "invalid_row"
                assert told or answer.json["tree"] == json.loads(body)["tree"]


async def test_brackets_without_end_are_not_json() -> None:
    async with running() as server:
        for path in ("/v1/score", "/get_reward", "/slime", "/verify", "/aggregate_metrics"):
            answer = await server.post(path, "[" * 200_000)
            assert (answer.status, answer.json["error"]["type"]) == (400, "malformed"), path


async def test_means_of_numbers_at_the_edge() -> None:
    async with running() as server:
        for rewards in ([1e308, 1e308], [-1e308, -1e308, 1e308], [10**400, 1.0]):
            rows = [{"reward": reward, "judge_components": {"raw": reward}} for reward in rewards]
            answer = await server.post("/aggregate_metrics", {"verify_responses": rows})
            assert answer.status == 200, rewards
            assert answer.json["agent_metrics"]["num_responses"] == len(rewards)


async def test_what_is_not_http_is_refused_and_no_more() -> None:
    async with running() as server:
        host, port = server.url.removeprefix("http://").split(":")
        for line in (
            b"GARBAGE\r\n\r\n",
            b"POST /v1/score HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(line)
            assert b" 400 " in await reader.readline()
            writer.close()
        assert (await server.get("/healthz")).status == 200
