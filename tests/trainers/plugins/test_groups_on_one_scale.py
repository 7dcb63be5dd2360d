"""Samples that are judged by themselves, whose scores are on one scale only with the others of their prompt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgegym_trainers.group_rewards import GroupSettings
from judgegym_trainers.openrlhf import reward_function
from judgegym_trainers.scores.requests import CompletionRow, make_completion_row
from judgegym_trainers.single_turn import close_all
from judgegym_trainers.trl import close, judge_reward
from tests.core.server.running import asked
from tests.scripted import Json, ScriptedEndpoint

RESPONSES = ["sure one", "sure two", "doubtful one", "doubtful two"]
BY_STRONG, BY_CHEAP = 0.25, 1.0


def judge(request: Json, number: int) -> str:
    """The strong judge is the stricter one; the cheap one is unsure of what is doubtful."""
    if request["model"] == "strong":
        return "[FEEDBACK] f [SCORE] 2"
    return f"[FEEDBACK] f [SCORE] {5 if 'sure' in asked(request) else 3}"


def cascade(endpoint: ScriptedEndpoint) -> dict[str, Any]:
    judges = [{"judge_model_name": "cheap"}, {"judge_model_name": "strong"}]
    own = {"cascade_threshold": 0.5, "cascade_recheck": 0.0, "judge_base_url": endpoint.base_url}
    return {"judge": "cascade", "rubric": "Is it right?", "cascade": judges, **own}


async def gathered(settings: GroupSettings, rows: list[CompletionRow]) -> list[float]:
    """The scores of samples that come one by one, as in verl."""
    batcher = settings.make_batcher(len(RESPONSES))
    return [each.score for each in await asyncio.gather(*(batcher.score("g", row) for row in rows))]


async def test_one_judge_of_a_cascade_decides_a_group_of_trl_whose_size_nobody_has_told() -> None:
    async with ScriptedEndpoint(judge) as endpoint:
        reward = judge_reward(judge=cascade(endpoint))
        rewards = await reward(["Q"] * 4 + ["P"] * 2, [*RESPONSES, *RESPONSES[:2]])
        await close(reward)
    assert rewards == [BY_STRONG] * 4 + [BY_CHEAP] * 2


async def test_one_judge_of_a_cascade_decides_samples_that_come_one_by_one() -> None:
    async with ScriptedEndpoint(judge) as endpoint:
        settings = GroupSettings(judge=cascade(endpoint), group_wait_s=0.2)
        whole = await gathered(
            settings, [make_completion_row("Q", response) for response in RESPONSES]
        )
        alone = await gathered(
            settings, [make_completion_row("Q", RESPONSES[0])]
        )  # the others never come
    assert (whole, alone) == ([BY_STRONG] * 4, [BY_CHEAP])


def section(endpoint: ScriptedEndpoint) -> dict[str, Any]:
    """The settings of `cascade` as a section, which has its judges by their names."""
    flat = cascade(endpoint)
    del flat["judge"]
    cheap, strong = flat.pop("cascade")
    return {"judge": {"kind": "cascade", "cheap": cheap, "strong": strong}, **flat}


@pytest.mark.parametrize("settings", [cascade, section])
async def test_one_judge_of_a_cascade_decides_a_group_of_openrlhf(
    settings: Callable[[ScriptedEndpoint], dict[str, Any]],
) -> None:
    async with ScriptedEndpoint(judge) as endpoint:
        function = reward_function(judge=settings(endpoint), group_size=4, estimator="rloo")
        queries = [f"Q{response}" for response in RESPONSES]
        rewarded = await asyncio.to_thread(function, queries, ["Q"] * 4, [None] * 4)
    assert rewarded["rewards"] == [BY_STRONG] * 4


async def test_rewards_of_an_environment_are_those_of_serve_where_samples_come_one_by_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "r", "prompt": "Q"}))
    async with ScriptedEndpoint(judge) as endpoint:
        settings = {**cascade(endpoint), "train_dataset": str(tmp_path / "rows.jsonl")}
        environment = {"environment": "prompts", "settings": settings}
        rows = [CompletionRow({"uid": "r"}, response) for response in RESPONSES]
        scores = await gathered(
            await asyncio.to_thread(lambda: GroupSettings(environment=environment)), rows
        )
        await asyncio.to_thread(close_all)
    assert scores == [BY_STRONG] * 4
