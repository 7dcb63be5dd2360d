"""Rubric-absolute end to end, the policy responding: judges of known scores give exactly the numbers defined."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest

from tests.judged import never
from tests.rubrics import (
    by_number,
    in_samples,
    rubric,
    score,
    shown,
    task,
)
from tests.scripted import Json

LEVELS = range(1, 6)
GOLD = {
    "n_used",
    "n_failed",
    "exact_rate",
    "within_one_rate",
    "mae",
    "bias",
    "pearson",
    "spearman",
    "kendall_tau_b",
}
GOLD |= {
    "quadratic_kappa",
    *(f"confusion_gold_{gold}_judge_{given}" for gold in LEVELS for given in LEVELS),
}


GIVEN = {0: 1, 1: 2, 2: 4, 3: 5}
ROWS = [task(number, category=("Maths", "Art")[number % 2]) for number in range(4)]


@pytest.mark.slow
def test_a_score_is_worth_its_place_on_the_scale(tmp_path: Path) -> None:
    run = rubric(tmp_path, rows=ROWS, judge=by_number(GIVEN), policy="A response of mine.")
    assert run.code == 0, run.said
    assert run.scores() == {"r0": 1.0, "r1": 2.0, "r2": 4.0, "r3": 5.0}
    wanted = {
        "mean_score": 3.0,
        "mean_reward": 0.5,
        "mean_reward_maths": 0.375,
        "mean_reward_art": 0.625,
    }
    wanted |= {
        "score_freq_1": 0.25,
        "score_freq_2": 0.25,
        "score_freq_3": 0.0,
        "score_freq_4": 0.25,
        "score_freq_5": 0.25,
    }
    wanted |= {"strict_format_rate": 1.0}
    assert run.some(*wanted) == pytest.approx(wanted)
    found = run.metrics
    assert found["mean_reward_ci_low"] < 0.5 < found["mean_reward_ci_high"]
    assert not GOLD & set(found)
    assert "spread_of_judgments" not in found
    assert [body["messages"][-1]["content"] for body in run.policy.bodies] != []
    assert {len(body["messages"]) for body in run.policy.bodies} == {1}
    assert Counter(shown(body)["Response To Evaluate"] for body in run.judge.bodies) == {
        "A response of mine.": 4
    }


SAMPLES: dict[int, int | str] = {0: 1, 1: 5, 2: 3, 3: 3, 4: 5}


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "pooled"), [("mean", 17 / 5), ("median", 3.0)])
def test_several_judgments_are_pooled(tmp_path: Path, pooling: str, pooled: float) -> None:
    flags = "--env.samples_per_item=5", f"--env.samples_pooling={pooling}"
    run = rubric(
        tmp_path, *flags, rows=ROWS[:1], judge=in_samples(SAMPLES), policy="A response of mine."
    )
    assert run.code == 0, run.said
    assert run.scores() == pytest.approx({"r0": pooled})
    wanted = {
        "mean_score": pooled,
        "mean_reward": (pooled - 1) / 4,
        "spread_of_judgments": statistics.stdev([1, 5, 3, 3, 5]),
    }
    wanted |= {"score_freq_3": 1.0, "score_freq_4": 0.0}
    assert run.some(*wanted) == pytest.approx(wanted)
    assert sorted(body["seed"] for body in run.judge.bodies) == [0, 1, 2, 3, 4]
    assert {body["temperature"] for body in run.judge.bodies} == {0.7}
    assert [each["score"] for each in run.files.samples[0]["detail"]["judgments"]] == [
        1,
        5,
        3,
        3,
        5,
    ]


@pytest.mark.slow
def test_rows_without_a_rubric_have_the_default(tmp_path: Path) -> None:
    rows = [task(0, rubric=None), task(1)]
    run = rubric(
        tmp_path,
        "--env.default_rubric=Is it kind?",
        rows=rows,
        judge=score(3),
        policy="Mine is this.",
    )
    assert {shown(body)["Score Rubric"] for body in run.judge.bodies} == {
        "Is it kind?",
        "Is it good?",
    }
    refused = rubric(tmp_path, rows=rows, judge=never, policy=never, run="refused")
    assert refused.code == 2
    assert refused.lacks("row 1", "a rubric", "env.default_rubric") == []


def test_malformed_thinking_is_worth_the_lowest_score(tmp_path: Path) -> None:
    def policy(request: Json, number: int) -> str:
        is_bad = request["messages"][-1]["content"] == "Do 1."
        return "No thinking at all." if is_bad else "<think>Hm.</think>A response of mine."

    flags = "--env.thinking_mode=True", "--env.scale_min=2"
    run = rubric(tmp_path, *flags, rows=ROWS, judge=score(5), policy=policy)
    assert run.code == 0, run.said
    assert run.scores() == {"r0": 5.0, "r1": 2.0, "r2": 5.0, "r3": 5.0}
    wanted = {
        "mean_reward": 0.75,
        "mean_score": 17 / 4,
        "score_freq_5": 1.0,
        "judge_error_rate": 0.0,
    }
    assert run.some(*wanted) == wanted
    assert {shown(body)["Response To Evaluate"] for body in run.judge.bodies} == {
        "A response of mine."
    }
