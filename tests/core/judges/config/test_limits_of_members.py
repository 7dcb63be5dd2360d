"""Prices and limits hold for the model that they were given for, and for no other one, at the same host either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from judgegym import Jury, RewardJudge
from tests.command import PATIENCE_S
from tests.scripted import Json, Meeting, ScriptedEndpoint

VERDICT = "[FEEDBACK] So. [SCORE] 3"
VOTES = 3
Made = Callable[..., Any]


def jury(member: Json, **whole: Any) -> Jury:
    return Jury({"same": {}, "m": member}, **whole)


def composite(member: Json, **whole: Any) -> RewardJudge:
    return RewardJudge(
        reward={"same": {"judge": "rubric"}, "m": {"judge": "rubric", **member}}, **whole
    )


def nested(member: Json, **whole: Any) -> Jury:
    """The member in a jury in a cascade in a jury; `same` of the outermost jury is beside it."""
    cascade = {
        "kind": "cascade",
        "cheap": {},
        "strong": {"kind": "jury", "members": {"o": {}, "m": member}},
    }
    return Jury(
        {"same": {}, "m": {**cascade, "cascade_threshold": 1.0, "cascade_share": 0.0}}, **whole
    )


def whole_at(endpoint: ScriptedEndpoint, **more: Any) -> Json:
    return {"judge_base_url": endpoint.base_url, "judge_model_name": "w", **more}


@pytest.mark.parametrize("made", [jury, composite, nested])
async def test_another_model_has_no_price_of_the_whole(made: Made) -> None:
    async with ScriptedEndpoint(VERDICT) as endpoint:
        whole = whole_at(endpoint, judge_price_input=3, judge_price_output=15)
        for member, cost in (
            ({"judge_model_name": "n"}, None),
            ({"judge_max_tokens": 9}, (10 * 3 + 5 * 15) / 1e6),
        ):
            (judgment,) = await made(member, **whole).judge("Why?", ["Because."])
            costs = {call.name.split("/")[-2]: call.run.usage.cost for call in judgment.calls}
            assert costs["m"] == (cost if cost is None else pytest.approx(cost))
            assert costs["same"] == pytest.approx((10 * 3 + 5 * 15) / 1e6)


@pytest.mark.parametrize("made", [jury, composite, nested])
async def test_another_model_has_no_limit_of_the_whole(made: Made) -> None:
    meeting = Meeting(VOTES)

    async def script(request: Json, _: int) -> str:
        if request["model"] == "n":
            await meeting.wait()  # until all votes are in flight at once
        return VERDICT

    async with ScriptedEndpoint(script) as endpoint:
        member = {"judge_model_name": "n", "samples_per_item": VOTES}
        judge = made(member, **whole_at(endpoint, judge_max_concurrency=1))
        (judgment,) = await asyncio.wait_for(judge.judge("Why?", ["Because."]), PATIENCE_S)
    assert judgment.score == 0.5
