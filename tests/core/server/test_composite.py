"""The reward server with a reward of several parts: sum and parts are answered, and a failed part is no number."""

from __future__ import annotations

from tests.core.server.running import running
from tests.scripted import Json, Reply

PARTS = '--reward={"maths": {"judge": "rule", "rule": "number"}, "style": {"judge": "rubric", "weight": 3}}'
BODY = {"prompt": "6 * 7?", "reference": "42"}


def judge(request: Json, number: int) -> Reply | str:
    text = request["messages"][-1]["content"]
    return Reply(status=400) if "fails" in text else "[FEEDBACK] So. [SCORE] 3"


async def test_sum_and_parts_are_answered() -> None:
    async with running("--judge=composite", PARTS, judge=judge) as server:
        right = await server.post("/v1/score", {**BODY, "response": "It is 42."})
        failed = await server.post("/v1/score", {**BODY, "response": "It is 42, and the judge fails."})
        number = await server.post("/get_reward", {"query": ["6 * 7? 42"], "prompts": ["6 * 7?"], "labels": ["42"]})
    assert right.json["score"] == (1 + 3 * 0.5) / 4
    assert right.json["components"] == {"maths": 1.0, "maths.raw": 1.0, "style": 0.5, "style.raw": 3.0}
    assert (failed.json["score"], failed.json["status"]) == (None, "judge_failed")
    assert failed.json["explanation"].startswith("style: ")
    assert number.json["rewards"] == [(1 + 3 * 0.5) / 4]
