"""The reward server with a rule as its judge: no endpoint is asked, and a rule that cannot say has no score."""

from __future__ import annotations

import pytest

from judgegym.llm.errors import SettingsError
from tests.core.server.running import running


async def test_a_rule_scores_without_its_endpoint() -> None:
    mounts = '--mounts={"short": {"rule": "length", "rule_hard_limit": 2}}'
    async with running("--judge=rule", "--rule=number", mounts) as server:
        body = {"prompt": "6 * 7?", "reference": "42"}
        right = await server.post("/v1/score", {**body, "response": "It is 42."})
        unknown = await server.post("/v1/score", {**body, "response": "No idea."})
        short = await server.post("/short/v1/score", {"prompt": "6 * 7?", "response": "It is 42."})
        ready = await server.get("/readyz")
        page = await server.get("/openapi.json")
    assert (right.json["score"], right.json["explanation"]) == (1.0, "found '42', expected '42'")
    assert (unknown.json["score"], unknown.json["status"]) == (None, "unparsable")
    assert (short.json["score"], ready.status) == (0.0, 200)
    assert "rule judge (rule-number)" in page.text
    assert server.judge.requests == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--judge=rule",), "rule: .*one of number"),
        (
            ('--mounts={"short": {"judge": "rule", "rule": "length"}}',),
            r"mounts\.short\.rule_hard_limit: the rule length",
        ),
    ],
)
async def test_a_server_with_a_wrong_rule_does_not_start(flags: tuple[str, ...], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        async with running(*flags):
            pass
