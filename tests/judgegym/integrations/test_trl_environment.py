"""An environment for TRL: rows, the reward function, and the environments of `environment_factory`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from judgegym.integrations.single_turn.opened import close_all, opened
from judgegym.integrations.single_turn.source import EnvironmentSource
from judgegym.integrations.trl import JudgeEnvironment, judge_environment
from tests.integrations.offline import offline_judge

ANSWERS = ["a short answer", "a rather longer answer with many words in it", "", "yes"]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


def settings_of(url: str, **further: object) -> dict[str, object]:
    return {"judge_base_url": url, "judge_model_name": "m", "judge_api_key": "k", "judge_max_retries": 0, **further}


def environment_of(
    url: str, name: str = "arena_hard", group_size: int | None = None, **settings: object
) -> JudgeEnvironment:
    return judge_environment(name, settings_of(url, **settings), offline=True, group_size=group_size)


async def ours(
    url: str, uid: str, answers: list[Any], name: str = "arena_hard", **settings: object
) -> list[float | None]:
    source = EnvironmentSource.of(name, settings_of(url, **settings), offline=True)
    environment = await asyncio.to_thread(opened, source)
    return [result.reward for result in await environment.rewards(uid, answers)]


def columns_of(rows: list[Any], *, times: int) -> dict[str, Any]:
    names = ("uid", "environment", "split")
    return {name: [row[name] for row in rows for _ in range(times)] for name in names}


async def test_rows_have_what_the_policy_is_asked() -> None:
    async with offline_judge() as (url, _):
        arena = environment_of(url)
        rows = await asyncio.to_thread(arena.rows)
    assert {row["environment"] for row in rows} == {"arena_hard"}
    assert len({row["uid"] for row in rows}) == len(rows) > 1
    assert all(row["prompt"][-1]["role"] == "user" and row["prompt"][-1]["content"] for row in rows)


async def test_the_reward_function_gives_the_rewards_of_the_rows() -> None:
    metrics: dict[str, float] = {}
    extra: dict[str, list[Any]] = {}
    async with offline_judge() as (url, _):
        arena = environment_of(url)
        one, other = (await asyncio.to_thread(arena.rows))[:2]
        plain = ["first", "second"]
        turns = [[{"role": "assistant", "content": text}] for text in ANSWERS]
        rewards = await arena.reward(
            ["Q"] * 4,
            turns,
            **columns_of([one], times=4),
            log_metric=lambda name, value: metrics.update({name: value}),
            log_extra=lambda name, values: extra.update({name: values}),
        )
        assert rewards == await ours(url, one["uid"], ANSWERS)
        assert await arena.reward(["Q"] * 2, plain, **columns_of([other], times=2)) == await ours(
            url, other["uid"], plain
        )
    assert arena.reward.__name__ == "arena_hard"
    assert (metrics["arena_hard_failed"], metrics["arena_hard_invalid"]) == (0.0, 0.25)
    assert extra["arena_hard_status"] == ["ok", "ok", "invalid_completion", "ok"]
    assert "arena_hard/win_rate" in metrics
