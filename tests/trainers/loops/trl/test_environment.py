"""An environment's rewards in TRL's `GRPOTrainer`: as a reward function, and as `environment_factory`."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from judgegym.llm.wire import CUT_OFF, Choice
from tests.scripted import ScriptedEndpoint
from tests.trainers.judges import NO_VERDICT
from tests.trainers.loops import trainers
from tests.trainers.loops.offline import offline_judge
from tests.trainers.loops.trl.asked import (
    TEXTS,
    environment,
    environments_rewards,
    logged,
    mean,
    rounded,
    single,
)

TWO_ROWS = {
    "rows": 2,
    "per_device": 8,
    "generations": 4,
    "texts": [*TEXTS, "", "Yes.", "Seconds.", "It is 1h30m."],
}
GROUPS = [TWO_ROWS["texts"][:4], TWO_ROWS["texts"][4:]]  # type: ignore[index]  # a list
OTHERS = [{"environment": "other", "prompt": [{"role": "user", "content": "Say a word."}]}]


@pytest.mark.timeout(150)
async def test_rewards_are_those_of_the_environment_and_a_failed_one_is_none(
    tmp_path: Path,
) -> None:
    async with offline_judge(every_third_fails=True) as (url, _):
        peer = environment("self_critique", url)
        games = environment("arena_hard", url, group_judge="tournament", schedule="circular")
        runs = {
            "written": {**TWO_ROWS, "environment": peer, "door": "reward"},
            "plain": {**TWO_ROWS, "environment": peer, "door": "reward", "plain": True},
            "submitted": {**TWO_ROWS, "environment": peer, "door": "factory"},
            "sampled": {**TWO_ROWS, "environment": peer, "door": "reward", "texts": []},
            "compared": {**TWO_ROWS, "environment": games, "door": "reward"},
            "compared_submitted": {
                **TWO_ROWS,
                "environment": {**games, "group_size": 4},
                "door": "factory",
            },
            "mixed": {
                **TWO_ROWS,
                "environment": peer,
                "door": "mixed",
                "rows": 1,
                "others": OTHERS,
            },
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
        assert ended.code == 0, ended.err
        result = ended.result
        written = await environments_rewards(peer, GROUPS)
        of_tool = await environments_rewards(
            peer, [[Choice(text, reasoning="") for text in each] for each in GROUPS]
        )
        compared = await environments_rewards(games, GROUPS)
        cut = [
            Choice(row["completion"][0]["content"], finish_reason=CUT_OFF)
            for row in result["sampled"]["tables"][0]
        ]
        sampled = await environments_rewards(peer, [cut[:4], cut[4:]])
    assert logged(result["plain"], "self_critique") == single(written)
    assert logged(result["mixed"], "self_critique") == [
        *single(of_tool[:4]),
        None,
        None,
        None,
        None,
    ]
    assert logged(result["mixed"], "Other") == [None, None, None, None, 0.0, 0.5, 0.5, 0.5]
    for run, name, rewards in (
        ("written", "self_critique", written),
        ("submitted", "self_critique", of_tool),
        ("sampled", "self_critique", sampled),
        ("compared", "arena_hard", compared),
        ("compared_submitted", "arena_hard", compared),
    ):
        there = [rounded(reward) for reward in rewards if reward is not None]
        assert logged(result[run], name) == single(rewards), run
        assert mean(result[run], name) == pytest.approx(math.fsum(there) / len(there), rel=1e-6), (
            run
        )
        without = [row["advantage"] for row in result[run]["tables"][0] if row[name] is None]
        assert without == [0.0] * rewards.count(None), run
    assert 0 < written.count(None) < 8 and len({*written}) > 3
    first = result["written"]["log"][0]
    assert (first["self_critique_failed"], first["self_critique_invalid"]) == (
        written.count(None) / 8,
        0.125,
    )
    statuses = [
        row["self_critique_status"] == "judge_failed" for row in result["written"]["tables"][0]
    ]
    assert statuses == [reward is None for reward in written]
    assert result["compared"]["log"][0]["arena_hard_failed"] == compared.count(None) / 8
    assert [run["open"] for name, run in result.items() if name != "mixed"] == [0] * 6
    assert re.search("completions .*judge failed", ended.err)
    assert "Unclosed" not in ended.err


@pytest.mark.timeout(150)
async def test_a_batch_without_any_reward_trains_nothing(tmp_path: Path) -> None:
    async with ScriptedEndpoint(NO_VERDICT) as endpoint:
        peer = environment("self_critique", endpoint.base_url)
        runs = {
            door: {**TWO_ROWS, "environment": peer, "door": door, "texts": TEXTS}
            for door in ("reward", "factory")
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
    assert ended.code == 0, ended.err
    for run in ended.result.values():
        assert logged(run, "self_critique") == [None] * 8
        assert (run["log"][0]["reward"], run["log"][0]["loss"]) == (None, 0.0)
        assert [row["advantage"] for row in run["tables"][0]] == [0.0] * 8
    assert ended.result["reward"]["log"][0]["self_critique_failed"] == 1.0
