"""Endpoints that refuse request fields: all rows are judged, each field costs one refused request, and it is told.

A scripted endpoint refuses one field at a time, as OpenAI does. The cases with many fields at once are `slow`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm import request_fields
from tests.arena import Arena
from tests.scripted import Json, Reply, Script

CONSEQUENCES = {
    "temperature": "left out",
    "top_p": "left out",
    "seed": "left out",
    "max_tokens": "sent as max_completion_tokens",
    "system": "put before the first message of the user",
    "response_format": "replaced by a form in words",
}
EXTRA = json.dumps({"top_p": 0.9, "seed": 7})
"""What the settings ask beside temperature and limit."""


def has(request: Json, name: str) -> bool:
    if name == "system":
        return any(message["role"] == "system" for message in request["messages"])
    return name in request


def refusal(name: str, style: str = "param") -> Reply:
    """A refusal of a field, by `error.param` as OpenAI has it, or in words alone."""
    param = "messages[0].role" if name == "system" else name
    said = f"Unsupported value: '{param}' does not support '{name}' with this model."
    error: Json = {"message": said if style == "words" else "Unsupported value.", "code": "unsupported_value"}
    return Reply(status=400, body={"error": error if style == "words" else {**error, "param": param}})


def refusing(names: Sequence[str], script: Script, style: str = "param") -> tuple[Script, list[str]]:
    """A script that refuses fields, one at a time, and the list of what it has refused."""
    refused: list[str] = []

    def refuse(request: Json, number: int) -> Any:
        name = next((name for name in names if has(request, name)), None)
        if name is None:
            return script(request, number)
        refused.append(name)
        return refusal(name, style)

    return refuse, refused


@pytest.fixture(autouse=True)
def _head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request goes ahead for as long as it does for users, however slow the machine."""
    monkeypatch.setattr(request_fields, "HEAD_START_S", 10.0)


@pytest.mark.parametrize("style", ["param", "words"])
@pytest.mark.parametrize("names", [(name,) for name in CONSEQUENCES] + [tuple(CONSEQUENCES)], ids="+".join)
def test_each_field_that_a_judge_refuses_costs_one_request(tmp_path: Path, names: tuple[str, ...], style: str) -> None:
    script, refused = refusing(names, lambda request, number: "So.\n\n[[A>B]]", style)
    run = (
        Arena(tmp_path)
        .rows(6)
        .evaluate(
            f"--env.judge_extra_body={EXTRA}",
            "--env.judge_output=json_schema",
            "--openai.num_requests_for_eval=256",
            judge_script=script,
        )
    )
    assert run.code == 0, run.said
    assert len(run.files.samples) == 6
    assert sorted(refused) == sorted(names)
    found = run.files.report["config_general"]["refused_fields"]
    assert found == {"judge": {"the-judge": {name: CONSEQUENCES[name] for name in sorted(names)}}}
