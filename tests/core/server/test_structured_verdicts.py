"""A judge of the server that is held to a schema: the same answers to the same requests, also if it refuses that."""

from __future__ import annotations

import json

import pytest

from judgegym.offline.answers import answers
from judgegym.offline.request import parse_request
from tests.core.server.running import running
from tests.scripted import Json, Reply

ITEM = {"prompt": "Why is the sky blue?", "response": "Air scatters blue light.", "baseline": "Nobody knows."}


def offline(request: Json, number: int) -> str:
    return answers(parse_request(json.dumps(request).encode()), judge_only=True)[0]


def text_only(request: Json, number: int) -> Reply | str:
    return (
        Reply(status=422, body={"detail": "extra field: response_format"})
        if "response_format" in request
        else offline(request, number)
    )


@pytest.mark.parametrize("judge", ["rubric", "aspect", "peer", "arena_hard"])
async def test_scores_are_those_of_text(judge: str) -> None:
    found = []
    for flags, script in (
        ((), offline),
        (("--judge_output=json_schema",), offline),
        (("--judge_output=json_schema",), text_only),
    ):
        async with running(f"--judge={judge}", *flags, judge=script) as server:
            answer = await server.post("/v1/score", ITEM)
            again = await server.post("/v1/score", ITEM)
            formatted = sum("response_format" in body for body in server.judge.bodies)
        assert answer.status == 200 and answer.json["status"] == "ok"
        found.append((answer.json["score"], again.json["score"], [*answer.json], formatted))
    (text, *_, never), (structured, *_, always), (refused, *_, some) = found
    assert text == structured == refused
    assert found[0][:3] == found[1][:3] == found[2][:3], "the answer has the same fields"
    assert never == 0 < some <= always
