"""An environment's rewards in TRL's `GRPOTrainer`: as a reward function, and as `environment_factory`."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from judgegym.llm.wire import CUT_OFF, Choice
from tests.scripted import Reply, ScriptedEndpoint
from tests.trainers.loops import trainers
from tests.trainers.loops.offline import offline_judge
from tests.trainers.loops.trl.asked import TEXTS, environment, environments_rewards, logged, mean, rounded, single

TWO_ROWS = {"rows": 2, "per_device": 8, "generations": 4, "texts": [*TEXTS, "", "Yes.", "Seconds.", "It is 1h30m."]}
GROUPS = [TWO_ROWS["texts"][:4], TWO_ROWS["texts"][4:]]  # type: ignore[index]  # a list
OTHERS = [{"environment": "other", "prompt": [{"role": "user", "content": "Say a word."}]}]


def submitted(group: list[str]) -> list[Choice]:
    """Answers as the tool has them."""
    return [Choice(text, reasoning="") for text in group]


@pytest.mark.timeout(150)
async def test_rewards_are_those_of_the_environment(tmp_path: Path) -> None:
    async with offline_judge() as (url, _):
        peer = environment("self_critique", url)
        listwise = environment("arena_hard", url, group_judge="listwise")
        runs = {
            "written": {**TWO_ROWS, "environment": peer, "door": "reward"},
            "plain": {**TWO_ROWS, "environment": peer, "door": "reward", "plain": True},
            "submitted": {**TWO_ROWS, "environment": peer, "door": "factory"},
            "sampled": {**TWO_ROWS, "environment": peer, "door": "reward", "texts": []},
            "compared": {**TWO_ROWS, "environment": listwise, "door": "reward"},
            "compared_submitted": {**TWO_ROWS, "environment": {**listwise, "group_size": 4}, "door": "factory"},
            "mixed": {**TWO_ROWS, "environment": peer, "door": "mixed", "rows": 1, "others": OTHERS},
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
        assert ended.code == 0, ended.err
        result = ended.result
        written = single(await environments_rewards(peer, GROUPS))
        of_tool = single(await environments_rewards(peer, [submitted(group) for group in GROUPS]))
        compared = single(await environments_rewards(listwise, GROUPS))
        cut = [Choice(row["completion"][0]["content"], finish_reason=CUT_OFF) for row in result["sampled"]["tables"][0]]
        sampled = single(await environments_rewards(peer, [cut[:4], cut[4:]]))
    assert len(set(written)) > 3
    assert logged(result["written"], "self_critique") == logged(result["plain"], "self_critique") == written
    assert logged(result["submitted"], "self_critique") == of_tool
    assert logged(result["sampled"], "self_critique") == sampled
    assert len(set(compared)) > 3
    assert logged(result["compared"], "arena_hard") == compared
    assert logged(result["compared_submitted"], "arena_hard") == compared
    assert logged(result["mixed"], "self_critique") == [*of_tool[:4], None, None, None, None]
    assert logged(result["mixed"], "Other") == [None, None, None, None, 0.0, 0.5, 0.5, 0.5]
    assert result["written"]["log"][0]["self_critique_invalid"] == 0.125
    assert [run["open"] for name, run in result.items() if name != "mixed"] == [0] * 6
    assert "Unclosed" not in ended.err


@pytest.mark.timeout(150)
async def test_a_failed_judge_is_none_and_the_others_keep_their_rewards(tmp_path: Path) -> None:
    async with offline_judge(every_third_fails=True) as (url, _):
        peer = environment("self_critique", url)
        games = environment("arena_hard", url, group_judge="tournament", schedule="circular")
        runs = {
            "written": {**TWO_ROWS, "environment": peer, "door": "reward"},
            "submitted": {**TWO_ROWS, "environment": peer, "door": "factory"},
            "compared": {**TWO_ROWS, "environment": games, "door": "reward"},
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
        assert ended.code == 0, ended.err
        written, submissions, compared = (ended.result[name] for name in runs)
        of_written = await environments_rewards(peer, GROUPS)
        of_tool = await environments_rewards(peer, [submitted(group) for group in GROUPS])
        of_games = await environments_rewards(games, GROUPS)
    assert 0 < of_written.count(None) < 8
    for run, name, rewards in (
        (written, "self_critique", of_written),
        (submissions, "self_critique", of_tool),
        (compared, "arena_hard", of_games),
    ):
        there = [rounded(reward) for reward in rewards if reward is not None]
        assert logged(run, name) == single(rewards)
        assert mean(run, name) == pytest.approx(math.fsum(there) / len(there), rel=1e-6)
        assert [row["advantage"] for row in run["tables"][0] if row[name] is None] == [0.0] * rewards.count(None)
    assert written["log"][0]["self_critique_failed"] == of_written.count(None) / 8
    assert compared["log"][0]["arena_hard_failed"] == of_games.count(None) / 8
    for row, reward in zip(written["tables"][0], of_written, strict=True):
        assert (row["self_critique_status"] == "judge_failed") == (reward is None)
    assert "completions have no reward, because the judge failed" in ended.err


@pytest.mark.timeout(150)
async def test_a_batch_without_any_reward_trains_nothing(tmp_path: Path) -> None:
    async with ScriptedEndpoint("I cannot say.") as endpoint:
        peer = environment("self_critique", endpoint.base_url)
        runs = {door: {**TWO_ROWS, "environment": peer, "door": door, "texts": TEXTS} for door in ("reward", "factory")}
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
    assert ended.code == 0, ended.err
    for run in ended.result.values():
        assert logged(run, "self_critique") == [None] * 8
        assert mean(run, "self_critique") is None
        assert run["log"][0]["reward"] is None
        assert run["log"][0]["loss"] == 0.0
        assert [row["advantage"] for row in run["tables"][0]] == [0.0] * 8
    assert ended.result["reward"]["log"][0]["self_critique_failed"] == 1.0


@pytest.mark.timeout(150)
async def test_settings_that_cannot_work_end_the_training_with_one_line(tmp_path: Path) -> None:
    refused = Reply(status=401, body={"error": {"message": "wrong key"}})
    async with ScriptedEndpoint(refused) as endpoint:
        run = {**TWO_ROWS, "environment": environment("self_critique", endpoint.base_url), "door": "reward"}
        ended = await trainers.run("trl", "program.py", str(tmp_path), {"refused": run})
    assert ended.code == 1
    last = ended.err.strip().splitlines()[-1]
    assert "SettingsError: the judge's endpoint refuses its requests" in last and "HTTP 401" in last
