"""The Env `judgegym-group` in `vf-eval`: n attempts of a task, judged against each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.wire import Choice
from judgegym_trainers.single_turn import EnvironmentSource, get_environment
from tests.core.server.running import running
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge, offline_judge
from tests.trainers.loops.verifiers.commands import Episode, evaluated, talker

pytestmark = pytest.mark.timeout(240)

GROUP = ("--env.id", "judgegym-group", "--env.n", "3")


def check(found: Episode, expected: Sequence[float | None]) -> None:
    """The rewards of the group are ours to the digit; where ours is none, there is none, and the trace is not ok."""
    assert [each.rewards for each in found.attempts] == [{"group": reward} for reward in expected]
    assert [each.ok for each in found.attempts] == [reward is not None for reward in expected]
    assert [each.metrics["judge_failed"] for each in found.attempts] == [
        float(reward is None) for reward in expected
    ]
    assert found.ok == (sum(reward is not None for reward in expected) >= 2)


async def together(server: Any, found: Episode) -> list[float | None]:
    """What `/v1/score` says of the replies of a group."""
    data = found.attempts[0].data
    fields = {"rubric": data["rubric"], "reference": data["answer"], "baseline": data["baseline"]}
    body = {
        "prompt": data["prompt"],
        "responses": [each.reply for each in found.attempts],
        **fields,
    }
    return [result["score"] for result in (await server.post("/v1/score", body)).json["results"]]


async def test_without_a_judgment_of_the_group_no_attempt_has_a_reward(tmp_path: Path) -> None:
    judge = OfflineJudge(every_third_fails=True)
    async with running("--judge=listwise", judge=judge) as server, talker() as policy:
        found = await evaluated(
            tmp_path, policy, "judged-questions", *GROUP, "--env.judge.url", server.url
        )
        expected = [await together(server, each) for each in found]
    assert (
        judge.failed
        and [None, None, None] in expected
        and any(None not in rewards for rewards in expected)
    )
    for episode, rewards in zip(found, expected, strict=True):
        check(episode, rewards)


@pytest.mark.parametrize("keep_scored", [True, False])
async def test_an_attempt_without_a_verdict_does_not_spoil_the_others(
    keep_scored: bool, tmp_path: Path
) -> None:
    judge = OfflineJudge(every_third_fails=True)
    flags = ("--env.n", "5", "--env.keep-scored", str(keep_scored).lower(), "-n", "1")
    async with running("--judge=arena_hard", judge=judge) as server, talker() as policy:
        judged = ("--env.id", "judgegym-group", "--env.judge.url", server.url)
        (found,) = await evaluated(tmp_path, policy, "judged-questions", *judged, *flags)
        expected = await together(server, found)
    assert 0 < expected.count(None) < 4  # each attempt is judged twice
    assert found.ok == keep_scored
    check(Episode(True, found.attempts), expected)
    assert all(
        "no reward (judge_failed)" in each.errors[-1] for each in found.attempts if not each.ok
    )


async def test_the_example_compares_with_the_environments_own_judge(tmp_path: Path) -> None:
    async with offline_judge(every_third_fails=True) as (judge, _), talker() as policy:
        text = swap(
            example("verifiers", "toml", 1), ("n = 8", "n = 3"), ('"OPENAI_API_KEY"', '"HOME"')
        )
        settings = {"judge_base_url": judge, "judge_model_name": "m", "judge_max_retries": 0}
        (tmp_path / "group.toml").write_text(text)
        task = ("--env.taskset.task.offline", "true")
        named = [
            item
            for name, value in settings.items()
            for item in (f"--env.taskset.task.settings.{name}", value)
        ]
        found = await evaluated(
            tmp_path, policy, "@", tmp_path / "group.toml", *task, *map(str, named), "-n", "3"
        )
        env = get_environment(
            EnvironmentSource.from_settings(
                "rubric_absolute", {**settings, "group_judge": "listwise"}, offline=True
            )
        )
        expected = []
        for episode in found:
            replies = [Choice(each.reply, finish_reason="stop") for each in episode.attempts]
            expected.append(await env.rewards(episode.attempts[0].data["uid"], replies))
    failed = [rewards[0].is_failed for rewards in expected]
    assert any(failed) and not all(failed)
    for episode, rewarded in zip(found, expected, strict=True):
        check(episode, [each.reward for each in rewarded])
        for attempt, each in zip(episode.attempts, rewarded, strict=True):
            flags = {
                "judge_failed": float(each.is_failed),
                "invalid_completion": float(each.is_invalid),
            }
            assert attempt.metrics == {**each.metrics, **flags}


async def test_a_group_without_a_judge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"env\.judge: expected url"):
        await evaluated(tmp_path, "http://127.0.0.1:1/v1", "judged-questions", *GROUP)
