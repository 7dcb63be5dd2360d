"""tinker-cookbook's `do_sync_training` on our datasets: its rollouts, advantages, data and logs, in its own process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judgegym.data.task_list import TaskList, epoch_order, list_uids
from judgegym.llm.cost.models import DEFAULT_POLICY
from judgegym.llm.wire import Choice
from judgegym_trainers.scores.results import CompletionReward
from judgegym_trainers.single_turn import (
    EnvironmentRow,
    EnvironmentSource,
    close_all,
    get_environment,
)
from tests.core.server.running import running
from tests.scripted import Json
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge, offline_judge

NAMES = (
    ('"Qwen/Qwen3-8B"', '"judgegym/environments/rollouts/tokenizers/bytes"'),
    ("batch_size=32", "batch_size=2"),
)
REPLIES = [
    "Bees gather nectar and fan it dry.",
    "Magic.",
    "First split the text into numbers and units, then add up the seconds; raise ValueError for "
    "anything else.",
    "I do not know.",
]
ANSWERS = [Choice(text, finish_reason="stop") for text in REPLIES]
PROMPTS = [
    {"id": "honey", "prompt": "How do bees make honey?", "rubric": "Is it right?"},
    {"prompt": "Who are you?"},
]


@dataclass(frozen=True)
class Trained:
    """What the cookbook has after training; `rewards` by row and reply."""

    result: Json

    @property
    def rollouts(self) -> list[Json]:
        return list(self.result["rollouts"])

    def of_row(self, uid: str) -> list[Json]:
        return [each for each in self.rollouts if each["steps"][0]["logs"]["row"] == uid]

    @property
    def uids(self) -> list[str]:
        return [uid for batch in self.result["batches"] for uid in batch]


async def trained(
    place: Path, code: str, replies: Sequence[str] = REPLIES, *, workers: int = 0, cut_off: int = -1
) -> Trained:
    """Train on all batches; check what holds whatever the judge does."""
    ended = await trainers.run(
        "tinker", "program.py", str(place), code, list(replies), workers, cut_off
    )
    assert ended.code == 0, ended.err
    assert "Unclosed" not in ended.err
    result = Trained(ended.result)
    groups: dict[tuple[int, int], list[float]] = {}
    for each in result.rollouts:
        assert each["steps"][0]["reward"] == 0.0
        assert math.isfinite(each["total_reward"])
        groups.setdefault((each["iteration"], each["group_idx"]), []).append(each["total_reward"])
    expected = [
        reward - math.fsum(rewards) / len(rewards)
        for rewards in groups.values()
        for reward in rewards
    ]
    assert result.result["advantages"] == pytest.approx(expected, abs=1e-6)
    return result


def of_environment(group_size: int = 4, extra: str = "", **settings: object) -> str:
    given = {"judge_model_name": "the-judge", **settings}
    code = swap(
        example("tinker-cookbook"),
        *NAMES,
        (repr({"judge_model_name": DEFAULT_POLICY}).replace("'", '"'), repr(given)),
        ("settings=settings,", f"settings=settings, offline=True{extra},"),
        ("group_size=8", f"group_size={group_size}"),
    )
    return f"{code}\ndataset_builder = with_rewards"


def of_prompts(judge: str) -> str:
    code = swap(
        example("tinker-cookbook"),
        *NAMES,
        ('"prompts.jsonl"', repr(PROMPTS)),
        ('url="http://127.0.0.1:8400"', judge),
        ("group_size=8", "group_size=4"),
    )
    return f"{code}\ndataset_builder = with_a_judge"


def serve_order(uids: Sequence[str], *, seed: int) -> list[str]:
    """The order in which `serve` would have these rows."""
    names = sorted(uids)
    rows = TaskList(names, lambda place: EnvironmentRow(names[place], (), ""))
    return list(list_uids(epoch_order(rows, seed=seed, epoch=0)))


@pytest.fixture(autouse=True)
def closed() -> Any:
    yield
    close_all()


async def ours(
    uid: str, choices: Sequence[Choice] = ANSWERS, **settings: object
) -> list[CompletionReward]:
    """What the environment itself gives for the answers, in this process."""
    source = EnvironmentSource.from_settings(
        "arena_hard", {"judge_model_name": "the-judge", **settings}, offline=True
    )
    return await get_environment(source).rewards(uid, choices)


@pytest.mark.timeout(150)
@pytest.mark.parametrize(("group_judge", "workers"), [("none", 0), ("listwise", 1)])
async def test_rewards_of_an_environment(tmp_path: Path, group_judge: str, workers: int) -> None:
    """In the trainer's process, and in another one, to which the groups are pickled."""
    async with offline_judge() as (base_url, _):
        settings = {"judge_base_url": base_url, "group_judge": group_judge}
        extra = ", with_test=True, test_group_size=2, epochs=1, seed=3"
        result = await trained(tmp_path, of_environment(extra=extra, **settings), workers=workers)
        for uid in result.uids:
            rollouts = result.of_row(uid)
            expected = await ours(uid, **settings)
            assert [each["steps"][0]["logs"]["response"] for each in rollouts] == REPLIES
            assert [each["total_reward"] for each in rollouts] == [each.reward for each in expected]
            for each, rewarded in zip(rollouts, expected, strict=True):
                flags = {"judge_failed": 0.0, "invalid_completion": 0.0}
                assert each["trajectory_metrics"] == {**rewarded.metrics, **flags}
                assert each["steps"][0]["logs"]["judge_explanation"] == rewarded.explanation
    assert result.uids == serve_order(result.uids, seed=3)
    assert len(set(result.uids)) == len(result.uids) > 2
    assert result.result["skipped"] == 0.0
    assert result.result["pickled"] < 2_000
    assert all(tags[0] == "arena_hard" for tags in result.result["tags"])
    assert "test/env/all/reward/total" in result.result["tested"]
    assert all(
        line["env/all/judge_failed"] == 0.0
        for line in result.result["metrics"]
        if "env/all/reward/total" in line
    )


@pytest.mark.timeout(150)
async def test_thinking_is_apart_from_the_answer(tmp_path: Path) -> None:
    """The renderer parts them; a reply with a second turn, or without thinking, has the wrong format."""
    replies = [
        f"<think>Hm.</think>{REPLIES[0]}",
        REPLIES[1],
        f"<think>Well.</think>{REPLIES[2]}<|im_end|>More.",
    ]
    choices = [
        Choice(REPLIES[0], "Hm.", "stop"),
        Choice(REPLIES[1], None, "stop"),
        Choice(f"{replies[2]}<|im_end|>", None, "stop"),
    ]
    async with offline_judge() as (base_url, _):
        settings = {
            "judge_base_url": base_url,
            "thinking_mode": True,
            "invalid_thinking_reward": -1.0,
        }
        result = await trained(tmp_path, of_environment(group_size=3, **settings), replies)
        for uid in result.uids:
            expected = await ours(uid, choices, **settings)
            rollouts = result.of_row(uid)
            assert [each["total_reward"] for each in rollouts] == [each.reward for each in expected]
            invalid = [each["trajectory_metrics"]["invalid_completion"] for each in rollouts]
            assert invalid == [float(each.is_invalid) for each in expected] and invalid[:2] == [
                0.0,
                1.0,
            ]
            assert [each["steps"][0]["metrics"]["parse_success"] for each in rollouts] == [
                1.0,
                1.0,
                0.0,
            ]
            assert rollouts[0]["steps"][0]["logs"]["response"] == REPLIES[0]


def check_group(rollouts: list[Json], rewards: Sequence[float | None]) -> None:
    """A missing reward is the mean of the others and flagged, and the others are as they are."""
    there = [reward for reward in rewards if reward is not None]
    assert [each["trajectory_metrics"]["judge_failed"] for each in rollouts] == [
        float(each is None) for each in rewards
    ]
    for each, reward in zip(rollouts, rewards, strict=True):
        assert each["total_reward"] == (math.fsum(there) / len(there) if reward is None else reward)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("kind", ["rubric", "listwise"])
async def test_prompts_with_a_reward_server(tmp_path: Path, kind: str) -> None:
    replies = [*REPLIES[:3], ""]
    async with running(f"--judge={kind}", judge=OfflineJudge()) as server:
        result = await trained(tmp_path, of_prompts(f"url={server.url!r}"), replies, cut_off=1)
        for uid, given in zip(("honey", "row-2"), PROMPTS, strict=True):
            body = {name: value for name, value in given.items() if name != "id"}
            answer = (await server.post("/v1/score", {**body, "responses": replies})).json[
                "results"
            ]
            rollouts = result.of_row(uid)
            assert [each["total_reward"] for each in rollouts] == [
                *(each["score"] for each in answer[:3]),
                0.0,
            ]
            assert [each["trajectory_metrics"]["invalid_completion"] for each in rollouts] == [
                0.0,
                0.0,
                0.0,
                1.0,
            ]
            steps = [each["steps"][0]["metrics"] for each in rollouts]
            assert steps[0] == {"parse_success": 1.0, "stop/completed": 1.0}
            assert steps[1] == {"parse_success": 0.0, "stop/max_tokens": 1.0}


# Losses: tinker-cookbook | any | data set builders | mean
@pytest.mark.timeout(150)
async def test_a_failed_judge_of_prompts(tmp_path: Path) -> None:
    """Two of eight requests fail: of both groups at least two are left."""
    async with offline_judge(every_third_fails=True) as (base_url, judge):
        settings = {
            "judge_base_url": base_url,
            "judge_model_name": "the-judge",
            "judge_max_retries": 0,
        }
        result = await trained(tmp_path, of_prompts(f"judge={ {'judge': 'rubric', **settings}!r}"))
        assert len(judge.failed) == 2
    async with running("--judge=rubric", judge=OfflineJudge()) as server:
        for uid, given in zip(("honey", "row-2"), PROMPTS, strict=True):
            body = {name: value for name, value in given.items() if name != "id"}
            answer = (await server.post("/v1/score", {**body, "responses": REPLIES})).json[
                "results"
            ]
            failed = [
                any(given["prompt"] in text and reply in text for text in judge.failed)
                for reply in REPLIES
            ]
            rewards = [
                None if is_failed else each["score"]
                for is_failed, each in zip(failed, answer, strict=True)
            ]
            check_group(result.of_row(uid), rewards)


@pytest.mark.timeout(150)
async def test_a_setting_that_cannot_work_ends_the_training_with_one_line(tmp_path: Path) -> None:
    async with running(judge="unused") as server:
        code = of_prompts(f"url={server.url!r}, mount='nobody'")
        ended = await trainers.run("tinker", "program.py", str(tmp_path), code, REPLIES, 0, -1)
        assert server.judge.requests == []
    assert ended.code == 1
    last = ended.err.strip().splitlines()[-1]
    assert "SettingsError" in last and "HTTP 404" in last
