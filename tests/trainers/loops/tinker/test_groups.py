"""The groups of every environment in the cookbook's `do_group_rollout`, with a policy that says what it is told."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from judgegym_trainers.single_turn import close_all
from tests.trainers.loops import trainers
from tests.trainers.loops.environments import ENVIRONMENTS, expected, settings_of
from tests.trainers.loops.groups import with_means
from tests.trainers.loops.offline import offline_judge

FLAGS = ("judge_failed", "invalid_completion")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


@pytest.mark.timeout(150)
async def test_rewards_of_every_environment() -> None:
    """They are the environment's own; without a reward, the mean of the others and flagged; or the group is skipped."""
    async with offline_judge(every_third_fails=True) as (url, _):
        ours = {name: await expected(name, url) for name in ENVIRONMENTS}
        asked = {
            name: (
                settings_of(name, url),
                {uid: [text for text, _ in pairs] for uid, pairs in rows.items()},
            )
            for name, rows in ours.items()
        }
        ended = await trainers.run("tinker", "groups.py", asked)
        assert ended.code == 0, ended.err
        assert "Unclosed" not in ended.err
    failed = 0
    for name, rows in ours.items():
        for uid, pairs in rows.items():
            group, rewarded = ended.result[name][uid], [each for _, each in pairs]
            without = [each.reward for each in rewarded].count(None)
            failed += without
            if len(rewarded) - without < 2:
                assert "planted" in group["skipped"]
                continue
            rewards = [each.reward for each in rewarded]
            assert group["rewards"] == with_means(rewards, [reward is None for reward in rewards])
            flags = [
                (each["judge_failed"], each["invalid_completion"]) for each in group["metrics"]
            ]
            assert flags == [(float(each.is_failed), float(each.is_invalid)) for each in rewarded]
            own = [
                {key: value for key, value in each.items() if key not in FLAGS}
                for each in group["metrics"]
            ]
            assert own == [dict(each.metrics) for each in rewarded]
            advantages = [
                reward - math.fsum(group["rewards"]) / len(pairs) for reward in group["rewards"]
            ]
            assert group["advantages"] == group["in_data"] == pytest.approx(advantages, abs=1e-6)
            assert [each["response"] for each in group["logs"]] == [text for text, _ in pairs]
            assert [each["judge_explanation"] for each in group["logs"]] == [
                each.explanation for each in rewarded
            ]
    assert failed
