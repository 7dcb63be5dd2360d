"""The plugins behind verifiers' env server, which prime-rl trains with: tasks come to it as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from judgegym.llm.wire import Choice
from judgegym_trainers.single_turn import EnvironmentSource, opened
from tests.trainers.loops import trainers
from tests.trainers.loops.offline import offline_judge
from tests.trainers.loops.verifiers.commands import Attempt, talker

pytestmark = pytest.mark.timeout(240)


async def served(policy: str, block: Mapping[str, Any]) -> list[tuple[bool, list[Attempt]]]:
    """The episodes of the first three tasks: whether they are ok, and their attempts."""
    ended = await trainers.run("verifiers", "program.py", policy, block)
    assert ended.code == 0, ended.err
    return [(each["ok"], [Attempt.of(trace) for trace in each["traces"]]) for each in ended.result]


def block_of(judge: str, **settings: Any) -> dict[str, Any]:
    """The block `env` of prime-rl's configuration, for the environment of rubrics."""
    settings = {"judge_base_url": judge, "judge_model_name": "m", "judge_max_retries": 0, **settings}
    taskset = {"id": "judgegym-rubric-absolute", "task": {"offline": True, "settings": settings}}
    return {"taskset": taskset, "agent": {"runtime": {"type": "subprocess"}}}


async def test_rewards_of_the_server_are_ours() -> None:
    async with offline_judge(every_third_fails=True) as (judge, of_judge), talker() as policy:
        block = block_of(judge)
        found = [attempt for _, attempts in await served(policy, block) for attempt in attempts]
        settings = block["taskset"]["task"]["settings"]
        env = opened(EnvironmentSource.of("rubric_absolute", settings, offline=True))
        ours = [(await env.rewards(each.data["uid"], [Choice(each.reply, finish_reason="stop")]))[0] for each in found]
    assert len(found) == 3 and of_judge.failed and [each.is_failed for each in ours].count(True) == 1
    assert [each.rewards for each in found] == [{"judgegym": each.reward} for each in ours]
    assert [each.ok for each in found] == [not each.is_failed for each in ours]


async def test_prime_rl_keeps_the_rewards_of_a_group() -> None:
    async with offline_judge() as (judge, _), talker() as policy:
        block = {"id": "judgegym-group", "n": 3, **block_of(judge, group_judge="listwise")}
        found = await served(policy, block)
        settings = block["taskset"]["task"]["settings"]
        env = opened(EnvironmentSource.of("rubric_absolute", settings, offline=True))
        for is_ok, attempts in found:
            replies = [Choice(each.reply, finish_reason="stop") for each in attempts]
            ours = await env.rewards(attempts[0].data["uid"], replies)
            assert is_ok and len(attempts) == 3
            assert [each.rewards for each in attempts] == [{"group": each.reward} for each in ours]
