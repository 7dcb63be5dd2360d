"""`vf-eval`, `vf-replay` and `vf-validate` over the tasksets that are made from environments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.wire import Choice
from judgegym_trainers.scores.results import CompletionReward
from judgegym_trainers.single_turn import EnvironmentSource, get_environment
from tests.trainers.loops.offline import offline_judge
from tests.trainers.loops.trainers import ROOT
from tests.trainers.loops.verifiers.commands import (
    Attempt,
    attempts,
    command,
    episodes,
    evaluated,
    stand_in,
    talker,
)

pytestmark = pytest.mark.timeout(240)

JUDGED: Mapping[str, dict[str, Any]] = {
    "arena_hard": {},
    "aspect_critique": {"aspects": "correctness"},
    "rubric_absolute": {},
}
"""Those that ask a judge about each completion, with the settings that make it one call or two."""
OWN = f"{ROOT}/examples/own_environment/constitution_environment.py:ConstitutionEnv"
"""An environment of one's own."""


def settings_of(judge: str) -> dict[str, Any]:
    return {"judge_base_url": judge, "judge_model_name": "m", "judge_max_retries": 0}


def flags_of(settings: dict[str, Any]) -> tuple[object, ...]:
    return (
        "--env.taskset.task.offline",
        "true",
        "--env.taskset.task.settings",
        json.dumps(settings),
    )


def taskset_of(settings: dict[str, Any]) -> tuple[object, ...]:
    """The flags of `vf-replay` for a judge with other settings: they replace the saved taskset as a whole."""
    task = ("--taskset.task.offline", "true", "--taskset.task.settings", json.dumps(settings))
    return ("--taskset.id", "judgegym-rubric-absolute", *task)


async def ours(
    environment: str, settings: dict[str, Any], found: Sequence[Attempt]
) -> list[CompletionReward]:
    """What the environment itself says of the same completions."""
    env = get_environment(EnvironmentSource.from_settings(environment, settings, offline=True))
    return [
        (await env.rewards(each.data["uid"], [Choice(each.reply, finish_reason="stop")]))[0]
        for each in found
    ]


def check(
    found: Sequence[Attempt], rewarded: Sequence[CompletionReward], *, name: str = "judgegym"
) -> None:
    """The rewards are ours to the digit; where ours is none, there is none, and the trace is not ok."""
    for attempt, expected in zip(found, rewarded, strict=True):
        assert attempt.rewards == {name: expected.reward}
        assert attempt.ok == (expected.reward is not None)
        flags = {
            "judge_failed": float(expected.is_failed),
            "invalid_completion": float(expected.is_invalid),
        }
        assert attempt.metrics == {**expected.metrics, **flags}
        (call,) = attempt.judge_calls
        said = {"score": expected.reward, "status": expected.status, "label": expected.label}
        assert (call["response"]["parsed"], call["response"]["message"]["content"] or "") == (
            said,
            expected.explanation,
        )
        assert [expected.explanation in error for error in attempt.errors] == [
            True
        ] * expected.is_failed


# Losses: verifiers, prime-rl | any | judges, tasksets | safe
@pytest.mark.parametrize("environment", JUDGED)
async def test_a_failed_judge_is_no_reward(environment: str, tmp_path: Path) -> None:
    async with offline_judge(every_third_fails=True) as (judge, of_judge), talker() as policy:
        settings = {**settings_of(judge), **JUDGED[environment]}
        taskset = f"judgegym-{environment.replace('_', '-')}"
        run = await evaluated(tmp_path, policy, taskset, "-n", "3", "-r", "2", *flags_of(settings))
        found = attempts(run)
        rewarded = await ours(environment, settings, found)
    assert of_judge.failed and {each.is_failed for each in rewarded} == {True, False}
    check(found, rewarded)


async def test_an_environment_of_ones_own_by_its_file(tmp_path: Path) -> None:
    async with stand_in() as policy:
        named = ("--env.taskset.task.environment", OWN, "--env.taskset.task.offline", "true")
        found = attempts(
            await evaluated(tmp_path, policy, "judgegym-environment", *named, "-n", "2")
        )
    assert len(found) == 2
    check(found, await ours(OWN, {}, found))


async def test_replay_judges_again_also_with_another_judge(tmp_path: Path) -> None:
    async with offline_judge() as (judge, of_judge), stand_in() as policy:
        settings = settings_of(judge)
        run = await evaluated(
            tmp_path, policy, "judgegym-rubric-absolute", "-n", "3", *flags_of(settings)
        )
        asked = of_judge.asked
        await command("vf-replay", tmp_path / "run", "--no-rich", "-o", tmp_path / "again")
        again = attempts(episodes(tmp_path / "again"))
        assert of_judge.asked == 2 * asked
        other = {**settings, "judge_model_name": "another"}
        await command(
            "vf-replay",
            tmp_path / "run",
            "--no-rich",
            "-o",
            tmp_path / "other",
            *taskset_of(other),
        )
        rejudged = attempts(episodes(tmp_path / "other"))
        check(rejudged, await ours("rubric_absolute", other, rejudged))
    first = attempts(run)
    assert [each.rewards for each in again] == [each.rewards for each in first]
    assert [each.metrics for each in again] == [each.metrics for each in first]


async def test_validation_scores_a_task_that_nobody_worked_on(tmp_path: Path) -> None:
    flags = (
        "--taskset.task.offline",
        "true",
        "--runtime.type",
        "subprocess",
        "--no-rich",
        "-n",
        "2",
    )
    where = ("-o", tmp_path, "--run.name", "run")
    await command("vf-validate", "judgegym-rubric-absolute", *flags, *where)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    ]
    assert summary["checks"]["noop"]["valid"] == summary["total"] == 2
    assert summary["checks"]["gold"]["unchecked"] == 2  # a completion has no check without a judge
    assert [row["noop"]["rewards"] for row in rows] == [{"judgegym": 0.0}] * 2


async def test_a_wrong_setting_is_said_before_the_first_rollout(tmp_path: Path) -> None:
    flags = (
        "--taskset.task.offline",
        "true",
        "--runtime.type",
        "subprocess",
        "--no-rich",
        "-o",
        tmp_path,
    )
    for setting, reason in (
        ("judge_modell_name", "judge_model_name"),
        ("judge_api_key", "judge_api_key_env"),
    ):
        with pytest.raises(AssertionError, match=reason):
            await command(
                "vf-validate",
                "judgegym-rubric-absolute",
                *flags,
                "--taskset.task.settings",
                json.dumps({setting: "x"}),
            )
