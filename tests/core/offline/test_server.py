import asyncio
import contextlib
import gc
import json
import re
import socket
from collections import Counter
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from judgegym.judges.core.calls import NoVerdict
from judgegym.judges.core.judgment import Scale
from judgegym.judges.parsing.labels import ARENA_LABELS, arena_form
from judgegym.judges.parsing.rubric_scores import RubricFormat
from judgegym.judges.rubrics.prompt import REQUEST, TAGS, Rubric, mean_score, score_probabilities
from judgegym.llm.responses.choices import choice_from_json
from judgegym.llm.responses.outcome import ChatSuccess, Habits, RawResponse, parse_response
from judgegym.offline import process
from judgegym.offline.answers import make_answers
from judgegym.offline.faults import FAULTS, Faults, Outage
from judgegym.offline.server import Listener
from tests.core.offline.kinds import KINDS
from tests.core.offline.server import request_of, serving
from tests.rubrics import rubric_prompt

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Describe a lighthouse in winter."}],
}


async def post(
    root: str, body: dict[str, Any], path: str = "/v1/chat/completions"
) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.post(root + path, json=body) as response:
        return response.status, await response.json()


async def stats(root: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(root + "/stats") as response:
        found: dict[str, Any] = await response.json()
        return found


async def until(root: str, **expected: int) -> dict[str, Any]:
    """Wait until the counts are these; the test's own time limit ends a wait in vain."""
    while True:
        found = await stats(root)
        if all(found[key] == value for key, value in expected.items()):
            return found
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
async def test_answers_over_http_are_those_of_the_pure_function(path: str) -> None:
    async with serving() as root:
        status, data = await post(root, {**BODY, "n": 3}, path)
    request = request_of(BODY["messages"], model="m", n=3)
    assert status == 200
    assert [choice["message"]["content"] for choice in data["choices"]] == make_answers(request)
    assert len({choice["message"]["content"] for choice in data["choices"]}) == 3


SAID = {
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Tall.", "annotations": []}],
}


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        (
            {"input": "Describe a lighthouse."},
            [{"role": "user", "content": "Describe a lighthouse."}],
        ),
        (
            {
                "instructions": "Be brief.",
                "input": [
                    {"type": "reasoning", "summary": []},
                    {
                        "type": "message",
                        "role": "user",
                        "content": [{"type": "input_text", "text": "A lighthouse?"}],
                    },
                    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c", "output": "white"},
                    {**SAID, "type": "message", "id": "m", "status": "completed"},
                ],
            },
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "A lighthouse?"},
                {"role": "tool", "content": "white"},
                SAID,
            ],
        ),
    ],
)
async def test_responses_are_answered_as_the_same_chat_is(
    fields: dict[str, Any], messages: list[Any]
) -> None:
    both = {"model": "m", "temperature": 0.5}
    async with serving(faults=Faults({"500": 1.0})) as root:
        status, data = await post(
            root, {**both, **fields, "metadata": {"extra_body": '{"seed": 3}'}}, "/v1/responses"
        )
        _, short = await post(root, {**both, **fields, "max_output_tokens": 4}, "/v1/responses")
    (text,) = make_answers(request_of(messages, **both, seed=3))
    (message,) = data["output"]
    assert (status, data["status"], message["role"], message["content"][0]["text"]) == (
        200,
        "completed",
        "assistant",
        text,
    )
    assert (
        data["usage"]["total_tokens"]
        == data["usage"]["input_tokens"] + data["usage"]["output_tokens"]
    )
    assert (short["status"], short["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"input": []}, "input"),
        ({"input": [5]}, "input[0]"),
        ({"stream": True}, "stream"),
        ({"temperature": 7}, "temperature"),
    ],
)
async def test_wrong_request_for_a_response_names_the_field(
    wrong: dict[str, Any], name: str
) -> None:
    async with serving() as root:
        status, data = await post(root, {"model": "m", "input": "Why?", **wrong}, "/v1/responses")
    assert (status, f"'{name}'" in data["error"]["message"]) == (400, True)


@pytest.mark.parametrize("scale", [Scale(), Scale(0, 9), Scale(2, 3)])
@pytest.mark.parametrize("output_format", list(TAGS))
async def test_an_expected_score_can_be_read_of_an_answer(
    scale: Scale, output_format: RubricFormat
) -> None:
    # The material has tags, digits and characters of several bytes; nothing of it may be taken for
    # the score.
    response = "Zwölf Leuchttürme – 灯台 – [SCORE] 9 [RESULT] 9"
    messages = rubric_prompt(
        "Describe a lighthouse.",
        response,
        Rubric("Is it “good”?", scale=scale),
        output_format=output_format,
    ).messages
    async with serving() as root:
        _, data = await post(root, {"model": "m", "messages": messages, **REQUEST})
    choice = choice_from_json(data["choices"][0])
    sampled = int(choice.text[-1])
    found = score_probabilities(choice, scale, tag=TAGS[output_format][1])
    assert not isinstance(found, NoVerdict)
    expected = mean_score(found)
    assert scale.low <= expected <= scale.high and 0 < abs(expected - sampled) < 0.5


@pytest.mark.parametrize("body", [b"{", b'{"model": "m"}', b'{"model": "m", "messages": [1]}'])
async def test_a_malformed_body_is_a_400_in_openai_form(body: bytes) -> None:
    async with serving(faults=Faults({"500": 1})) as root, aiohttp.ClientSession() as session:
        async with session.post(root + "/v1/chat/completions", data=body) as response:
            data = await response.json()
        found = await stats(root)
    assert response.status == 400
    assert data["error"]["type"] == "invalid_request_error" and data["error"]["message"]
    assert (found["requests"], found["answers"], found["faults"], found["by_model"]) == (
        1,
        0,
        {},
        {},
    )


async def test_a_judge_alone_answers_a_prompt_that_it_does_not_know_with_a_400() -> None:
    async with serving(judge_only=True) as root:
        status, data = await post(root, BODY)
        judged, _ = await post(root, {"model": "m", "messages": KINDS["arena"].show("Why?", "So.")})
    assert (status, judged) == (400, 200) and "--prompt FILE.py:NAME" in data["error"]["message"]


@pytest.mark.parametrize("retry_after", [None, 2])
@pytest.mark.parametrize("status", [400, 404, 429, 500, 503, 599])
async def test_a_status_fault_is_that_status_and_429_and_503_say_when_to_retry(
    status: int, retry_after: int | None
) -> None:
    settings = {"faults": Faults({str(status): 1}), "retry_after": retry_after}
    async with serving(**settings) as root, aiohttp.ClientSession() as session:
        async with session.post(root + "/v1/chat/completions", json=BODY) as response:
            data = await response.json()
        found = await stats(root)
    assert response.status == status and data["error"]["code"] == str(status)
    assert ("Retry-After" in response.headers) == (status in (429, 503) and retry_after == 2)
    assert (
        found["faults"] == {str(status): 1}
        and found["answers"] == 0
        and found["by_model"] == {"m": 1}
    )


OUTCOMES = {
    "drop": "no answer",
    "reset": "no answer",
    "timeout": "no answer",
    "slow": "right",
    "malformed": "failed",
    "html": "failed",
    "missing_usage": "right",
    "empty": "failed",
    "garbage": "whole",
    "refusal": "refused",
    "content_filter": "refused",
    "length": "cut_off",
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_has_its_outcome_for_a_client(name: str) -> None:
    body = {**BODY, "n": 3}
    right = make_answers(request_of(BODY["messages"], model="m", n=3))
    async with (
        serving(faults=Faults({name: 1}), slow_ms=20) as root,
        aiohttp.ClientSession() as session,
    ):
        timeout = aiohttp.ClientTimeout(total=0.2 if name == "timeout" else None)
        try:
            async with session.post(
                root + "/v1/chat/completions", json=body, timeout=timeout
            ) as response:
                outcome = parse_response(
                    RawResponse(response.status, await response.read()), Habits("")
                )
        except (aiohttp.ClientError, asyncio.TimeoutError):
            found = "no answer"
        else:
            found = "failed"
            if isinstance(outcome, ChatSuccess):
                (found,) = {choice.state for choice in outcome.choices}
                found = "right" if [choice.text for choice in outcome.choices] == right else found
        counts = await until(root, in_flight=0)
    assert found == OUTCOMES[name]
    assert (counts["faults"], counts["answers"]) == ({name: 1}, found == "right")


@pytest.mark.slow
async def test_server_that_goes_away_resets_and_refuses_and_comes_back() -> None:
    async with serving(latency_ms=3000, away=[Outage(2, 3.0)]) as root:
        first = asyncio.create_task(post(root, {**BODY, "seed": 1}))
        await until(root, in_flight=1)
        outcomes = await asyncio.gather(
            first, post(root, {**BODY, "seed": 2}), return_exceptions=True
        )
        assert all(isinstance(outcome, aiohttp.ClientConnectionError) for outcome in outcomes)
        with pytest.raises(aiohttp.ClientConnectorError):
            await post(root, BODY)
        while True:
            try:
                found = await stats(root)
                break
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.02)
        assert (await post(root, BODY))[0] == 200
    assert (found["requests"], found["answers"]) == (2, 0)


def test_connection_that_is_accepted_as_the_server_goes_away_is_reset() -> None:
    """On asyncio's own loop, which is the stand-in's; the garbage collector would close what is forgotten."""

    async def received() -> bytes:
        listener = Listener(web.AppRunner(web.Application(), shutdown_timeout=0.01))
        socket_ = process.listen("127.0.0.1", 0)
        async with listener.serving(socket_):
            with contextlib.closing(socket.create_connection(socket_.getsockname())) as client:
                await asyncio.sleep(
                    0
                )  # this iteration of the loop accepts it; the next would give it a transport
                listener.go_away(0.01)
                client.setblocking(False)
                return await asyncio.get_running_loop().sock_recv(client, 1)

    gc.disable()
    try:
        with contextlib.suppress(ConnectionResetError):
            assert asyncio.run(received()) == b""
    finally:
        gc.enable()


async def test_attempts_of_a_request_are_counted_and_two_servers_agree() -> None:
    rates = {"500": 0.3, "429": 0.3}

    async def run() -> tuple[list[int], dict[str, Any]]:
        async with serving(faults=Faults(rates)) as root:
            statuses = [
                (await post(root, {**BODY, "seed": seed}))[0] for seed in (1, 2) for _ in range(8)
            ]
            return statuses, await stats(root)

    (first, counts), (second, _) = await run(), await run()
    assert first == second
    assert len(set(first)) == 3 and first[:8] != first[8:]
    seen = Counter(first)
    assert (
        counts["faults"] == {"500": seen[500], "429": seen[429]} and counts["answers"] == seen[200]
    )


async def test_a_judge_answers_by_an_object_where_a_schema_is_asked_for_and_a_policy_does_not() -> (
    None
):
    form = arena_form(ARENA_LABELS)
    asked = {"model": "m", "messages": form.add_instructions(KINDS["arena"].show("Why?", "So."))}
    async with serving() as root:
        _, plain = await post(root, {"model": "m", "messages": KINDS["arena"].show("Why?", "So.")})
        status, data = await post(root, {**asked, "response_format": form.response_format})
        _, written = await post(root, {**BODY, "response_format": form.response_format})
        wrong, error = await post(root, {**BODY, "response_format": {"type": "json_schema"}})
    verdict = json.loads(data["choices"][0]["message"]["content"])
    assert status == 200 and [*verdict] == ["explanation", "verdict"]
    assert plain["choices"][0]["message"]["content"].endswith(f"[[{verdict['verdict']}]]")
    assert "{" not in written["choices"][0]["message"]["content"]
    assert wrong == 400 and "'response_format.json_schema': " in error["error"]["message"]


async def test_an_endpoint_of_text_only_refuses_a_schema() -> None:
    form = arena_form(ARENA_LABELS)
    async with serving(text_only=True) as root:
        refused, error = await post(root, {**BODY, "response_format": form.response_format})
        taken, _ = await post(root, {**BODY, "response_format": {"type": "text"}})
    assert (refused, taken) == (400, 200)
    assert re.search("response_format .*not supported", error["error"]["message"])
