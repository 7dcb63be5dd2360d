"""What a failed judgment adds to slime's loss: rewards and loss masks as its own `RolloutManager` makes them.

They are run with the torch of TRL's environment: slime's own package needs a GPU.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.core.server.running import running
from tests.scripted import Json
from tests.trainers.judges import rating
from tests.trainers.loops import trainers

judge = rating({"good": 5, "fair": 3, "poor": 1})
TEXTS = ["good", "FAIL", "fair", "poor"]
SAMPLES: list[Json] = [{"prompt": "Why?", "response": text, "label": None} for text in TEXTS]
GROUP_NORMALIZED = ("grpo", "gspo", "cispo", "reinforce_plus_plus_baseline")
"""The estimators of which slime subtracts the mean of the group; others get the rewards as they are."""
ESTIMATORS = (*GROUP_NORMALIZED, "reinforce_plus_plus", "ppo")


async def trained(url: str, samples: list[Json] = SAMPLES, **given: Any) -> trainers.Ended:
    """slime's functions, and what its trainer would get."""
    python, program = (
        trainers.place_of("trl") / "bin" / "python",
        trainers.HERE / "slime/program.py",
    )
    settings = {
        "custom_rm_path": "judgegym_trainers.slime.reward",
        "estimators": ESTIMATORS,
        **given,
    }
    return await trainers.run_with(
        str(python), program, str(trainers.place_of("slime")), url, samples, settings
    )


# Losses: slime | any | function with `--group-rm` | safe
@pytest.mark.timeout(200)
async def test_with_group_rm_a_failed_judgment_adds_nothing_with_every_estimator() -> None:
    async with running("--judge=rubric", judge=judge) as server:
        ended = await trained(server.url)
    assert ended.code == 0, ended.err
    deviation = math.sqrt((0.5**2 + 0.5**2) / 3)  # of four rewards, of which one is their mean
    for estimator in ESTIMATORS:
        data = ended.result[estimator]
        assert [sum(mask) for mask in data["loss_masks"]] == [3, 0, 3, 3], estimator
        baseline = 0.5 if estimator in GROUP_NORMALIZED else 0.0
        scale = deviation if estimator in ("grpo", "gspo", "cispo") else 1.0
        expected = [(reward - baseline) / scale for reward in (1.0, 0.5, 0.5, 0.0)]
        assert data["rewards"] == pytest.approx(expected, abs=1e-5), estimator


# Losses: slime | any | function with `--group-rm`, an aborted, failed or removed sample | safe
@pytest.mark.timeout(200)
async def test_with_group_rm_a_sample_that_is_no_whole_answer_or_removed_adds_nothing() -> None:
    unfinished: list[Json] = [
        {"status": "aborted"},
        {"status": "failed", "response": ""},
        {"remove_sample": True},
    ]
    samples = [*SAMPLES[2:], *({**SAMPLES[0], **fields} for fields in unfinished)]
    async with running("--judge=rubric", judge=judge) as server:
        ended = await trained(server.url, samples)
        asked_for = len(server.judge.requests)
    assert ended.code == 0, ended.err
    assert asked_for == 2
    for estimator in ESTIMATORS:
        data = ended.result[estimator]
        assert [sum(mask) for mask in data["loss_masks"]] == [3, 3, 0, 0, 0], estimator
        if estimator in GROUP_NORMALIZED:
            assert data["rewards"][2:] == [0.0, 0.0, 0.0], estimator
            assert data["rewards"][0] == pytest.approx(-data["rewards"][1]), estimator


# Losses: slime | with a group's baseline | function without `--group-rm`, with a warning | score
@pytest.mark.timeout(200)
async def test_without_group_rm_a_failed_judgment_counts_in_the_mean_and_is_warned_of() -> None:
    async with running("--judge=rubric", judge=judge) as server:
        ended = await trained(server.url, alone=True)
    assert ended.code == 0, ended.err
    data = ended.result["grpo"]
    assert [sum(mask) for mask in data["loss_masks"]] == [3, 0, 3, 3]
    assert (
        sum(data["rewards"][place] for place in (0, 2, 3)) > 0.1
    )  # their mean is not their baseline
    assert "without --group-rm" in ended.err and "counts as fallback_score" in ended.err
