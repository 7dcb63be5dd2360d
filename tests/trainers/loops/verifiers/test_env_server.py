"""The plugins behind verifiers' env server, which prime-rl trains with: tasks come to it as data."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.llm.wire import Choice
from judgegym_trainers.single_turn import EnvironmentSource, get_environment
from tests.trainers.loops import trainers
from tests.trainers.loops.offline import offline_judge
from tests.trainers.loops.verifiers.commands import Attempt, talker

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("compared", [False, True])
async def test_rewards_of_the_server_are_ours_and_none_where_the_judge_failed(
    compared: bool,
) -> None:
    """The first three tasks, with one attempt each, or three that are compared."""
    async with offline_judge(every_third_fails=True) as (judge, of_judge), talker() as policy:
        settings = {"judge_base_url": judge, "judge_model_name": "m", "judge_max_retries": 0}
        settings |= {"group_judge": "listwise"} if compared else {}
        taskset = {
            "id": "judgegym-rubric-absolute",
            "task": {"offline": True, "settings": settings},
        }
        block: dict[str, Any] = {"taskset": taskset, "agent": {"runtime": {"type": "subprocess"}}}
        block |= {"id": "judgegym-group", "n": 3} if compared else {}
        ended = await trainers.run("verifiers", "program.py", policy, block)
        assert ended.code == 0, ended.err
        env = get_environment(
            EnvironmentSource.from_settings("rubric_absolute", settings, offline=True)
        )
        failed = []
        for episode in ended.result:
            attempts = [Attempt.of(trace) for trace in episode["traces"]]
            replies = [Choice(each.reply, finish_reason="stop") for each in attempts]
            ours = await env.rewards(attempts[0].data["uid"], replies)
            name = "group" if compared else "judgegym"
            assert [each.rewards for each in attempts] == [{name: each.reward} for each in ours]
            assert [each.ok for each in attempts] == [not each.is_failed for each in ours]
            assert len(attempts) == (3 if compared else 1)
            failed.append(ours[0].is_failed)
    assert of_judge.failed and sorted(failed) == [False, False, True]
