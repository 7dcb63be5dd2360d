"""What a failed judgment adds to the loss of TRL's trainers: their own aggregation, baselines and advantages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from judgegym.statistics.signal import compute_advantages
from tests.core.server.running import running
from tests.trainers.judges import NO_VERDICT, rating
from tests.trainers.loops import trainers
from tests.trainers.loops.offline import offline_judge
from tests.trainers.loops.trl.asked import EACH_BY_ITSELF, environment

TEXTS = ["good", "fair one", "FAIL", "poor"]
SCORES = {"good": 1.0, "fair one": 0.5, "poor": 0.0}
HALVES = [0.5, 0.5, 0.5, 0.5]
"""What the user's own function `length` gives for these texts, all of which have an even number of characters."""
SHAPE = {"rows": [{"prompt": "Q"}], "per_device": 4, "generations": 4, "texts": TEXTS}
judge = rating({"good": 5, "fair one": 3, "poor": 1})


def normalized(values: Sequence[float]) -> list[float]:
    """GRPO's advantages of a group, as the signal meter computes them."""
    advantages: list[float] = compute_advantages(values, "deviation").tolist()
    return advantages


def left_out(values: Sequence[float]) -> list[float]:
    """RLOO's advantages of a group."""
    advantages: list[float] = compute_advantages(values, "rloo").tolist()
    return advantages


def without_failed(of_scored: Sequence[float]) -> list[float]:
    """The advantages of a group whose third completion has no score, and no advantage."""
    return [*of_scored[:2], 0.0, of_scored[2]]


# Losses: TRL | GRPO, RLOO | one function, or `combined_reward` | safe
@pytest.mark.timeout(200)
async def test_a_failed_judgment_adds_nothing_with_one_function_or_a_combined_one(
    tmp_path: Path,
) -> None:
    async with running("--judge=rubric", judge=judge) as server:
        shape = {**SHAPE, "reward": {"judge": {"url": server.url}}}
        runs = {
            "one": shape,
            "one_rloo": {**shape, "rloo": True},
            "combined": {**shape, "combined": [2.0, 1.0]},
            "combined_rloo": {**shape, "combined": [2.0, 1.0], "rloo": True},
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
    assert ended.code == 0, ended.err
    single, double = (
        [1.0, 0.5, 0.0],
        [2.5, 1.5, 0.5],
    )  # of the three that are judged; twice the judge and a half
    for name, expected in (
        ("one", normalized(single)),
        ("one_rloo", left_out(single)),
        ("combined", normalized(double)),
        ("combined_rloo", left_out(double)),
    ):
        assert ended.result[name]["advantages"] == pytest.approx(
            without_failed(expected), abs=1e-5
        ), name
    for name in ("combined", "combined_rloo"):
        (entry,) = (entry for entry in ended.result[name]["log"] if "reward" in entry)
        assert (entry["rewards/judge/mean"], entry["rewards/length/mean"]) == (0.5, 0.5)
        assert (entry["rewards/combined/mean"], entry["judge_failed"]) == (1.5, 0.25)
    table = ended.result["combined"]["tables"][0]
    assert [row["judge"] for row in table] == [1.0, 0.5, None, 0.0]
    assert [row["length"] for row in table] == HALVES


# Losses: TRL | GRPO, RLOO | several functions | refused
@pytest.mark.timeout(200)
async def test_several_functions_that_are_added_up_are_refused(tmp_path: Path) -> None:
    """TRL would take the sum of the others' scores for that of a failed judgment."""
    async with running("--judge=rubric", judge=judge) as server, offline_judge() as (url, _):
        shape = {**SHAPE, "reward": {"judge": {"url": server.url}}, "beside": True, "refused": True}
        runs = {
            "grpo": shape,
            "rloo": {**shape, "rloo": True},
            "factory": {
                **shape,
                "environment": environment("self_critique", url),
                "door": "factory",
                "rows": 1,
            },
            "unweighted": {**shape, "config": {"reward_weights": [0.0, 1.0]}},
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
    assert ended.code == 0, ended.err
    for name in ("grpo", "rloo", "factory"):
        assert "combined_reward(" in ended.result[name]["error"], name
        assert not any("reward" in entry for entry in ended.result[name]["log"]), "no step was made"
    assert ended.result["unweighted"]["error"] == ""  # a function that is logged alone


# Losses: TRL | GRPO with `normalize_then_sum` | several functions | mean
@pytest.mark.timeout(200)
async def test_with_normalize_then_sum_a_failed_part_adds_its_groups_mean(tmp_path: Path) -> None:
    async with running("--judge=rubric", judge=judge) as server:
        run = {
            **SHAPE,
            "config": EACH_BY_ITSELF,
            "reward": {"judge": {"url": server.url}},
            "beside": True,
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), {"gdpo": run})
    assert ended.code == 0, ended.err
    # The other function says the same of all, so that only the judge's part differs; in its mean it
    # is 0.
    of_judge = without_failed([part / (0.5 + 1e-4) for part in (0.5, 0.0, -0.5)])
    assert ended.result["gdpo"]["advantages"] == pytest.approx(normalized(of_judge), abs=1e-3)
    assert ended.result["gdpo"]["advantages"][2] == 0.0


@pytest.mark.timeout(200)
async def test_a_judge_that_is_down_ends_the_training_with_its_reason(tmp_path: Path) -> None:
    async with running("--judge=rubric", judge=NO_VERDICT) as server:
        run = {**SHAPE, "reward": {"judge": {"url": server.url}}, "config": {"max_steps": 20}}
        ended = await trainers.run("trl", "program.py", str(tmp_path), {"down": run})
    assert ended.code == 0, ended.err
    result = ended.result["down"]
    assert re.search(r"failed for 32 samples .*last with: \S", result["error"])
    assert len([entry for entry in result["log"] if "loss" in entry]) == 7  # of four samples each
    assert re.search(r"4 of 4 completions .*judge failed, .*last one with: \S", ended.err)
