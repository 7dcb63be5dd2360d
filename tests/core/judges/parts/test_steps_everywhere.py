"""The judge of steps, and rules over a trace, behind every door: the same trace has the same scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.core.datasets.scoring import response_in
from tests.core.server.running import running
from tests.scripted import Json

PROMPT = "What is the weather in Rome?"
CALL = {
    "id": "1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
}
TRACE: list[Mapping[str, Any]] = [
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "1", "content": "No such city.", "is_error": True},
    {"role": "assistant", "content": "I do not know."},
]
EXPECTED = {"step_0": 1.0, "step_0.raw": 5.0, "step_2": 0.25, "step_2.raw": 2.0}
STEPS = {"judge": "steps", "steps_combine": "min"}
RULES = {
    "called": {
        "judge": "rule",
        "rule": "tool_called",
        "rule_expected": {"name": "weather", "arguments": {}},
    },
    "safe": {"judge": "rule", "rule": "tool_not_called", "rule_expected": "delete_*"},
    "errors": {"judge": "rule", "rule": "tool_errors"},
}


def judge(request: Json, number: int) -> str:
    return f"[FEEDBACK] So. [SCORE] {5 if 'weather(' in response_in(request) else 2}"


async def test_server() -> None:
    mounts = {"rules": {"judge": "composite", "reward": RULES}}
    flags = [f"--{name}={value}" for name, value in STEPS.items()]
    async with running(*flags, f"--mounts={json.dumps(mounts)}", judge=judge) as server:
        steps = await server.post("/v1/score", {"prompt": PROMPT, "response": TRACE})
        rules = await server.post("/rules/v1/score", {"prompt": PROMPT, "response": TRACE})
        unknown = await server.post(
            "/rules/v1/score", {"prompt": PROMPT, "response": "I do not know."}
        )
    assert (steps.json["score"], steps.json["components"]) == (0.25, EXPECTED)
    assert [rules.json["components"][name] for name in RULES] == [1.0, 1.0, 0.0]
    assert (unknown.json["score"], unknown.json["status"]) == (None, "unparsable")
    assert "as a text" in unknown.json["explanation"]
