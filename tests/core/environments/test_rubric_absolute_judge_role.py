"""Rubric-absolute against gold scores: the policy as the judge, and a judge of responses that are there already."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.judged import Judged
from tests.rubrics import by_number, giving, labelled, rubric, score, shown, task
from tests.scripted import Json, Reply, completion

JUDGE = "--env.role=judge"
SCORES = "--env.score_responses=True"
LEVELS = range(1, 6)
GIVEN: dict[int, int | str] = {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 3}
GOLD = {0: 1, 1: 3, 2: 3, 3: 2, 4: 5, 5: 4}
ROWS = [
    labelled(number, gold, category=("Maths", "Art")[number % 2]) for number, gold in GOLD.items()
]
STATISTICS = {
    "n_used": 6,
    "n_failed": 0,
    "exact_rate": 3 / 6,
    "within_one_rate": 5 / 6,
    "mae": 4 / 6,
    "bias": 0.0,
    "pearson": 7 / 10,
    "spearman": 10.25 / 17,
    "kendall_tau_b": 7 / 14,
    "quadratic_kappa": 1 - 6 / 20,
}
CORRELATIONS = {"pearson", "spearman", "kendall_tau_b"}


def confusion(run: Judged) -> dict[tuple[int, int], float]:
    """Gold and given score with their count, where there is any."""
    table = {
        (gold, given): run.metrics[f"confusion_gold_{gold}_judge_{given}"]
        for gold in LEVELS
        for given in LEVELS
    }
    return {place: count for place, count in table.items() if count}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reward", "rewards"),
    [
        ("distance", [1, 0.75, 1, 0.5, 1, 0.75]),
        ("squared", [1, 15 / 16, 1, 0.75, 1, 15 / 16]),
        ("exact", [1, 0, 1, 0, 1, 0]),
    ],
)
def test_scores_against_gold(tmp_path: Path, reward: str, rewards: list[float]) -> None:
    run = rubric(tmp_path, JUDGE, f"--env.reward={reward}", rows=ROWS, policy=by_number(GIVEN))
    assert run.code == 0, run.said
    assert list(run.scores().values()) == pytest.approx(rewards)
    wanted = {
        **STATISTICS,
        "mean_reward": sum(rewards) / 6,
        "mean_reward_maths": sum(rewards[::2]) / 3,
    }
    wanted |= {
        "mean_reward_art": sum(rewards[1::2]) / 3,
        "strict_format_rate": 1.0,
        "score_freq_3": 2 / 6,
    }
    assert run.some(*wanted) == pytest.approx(wanted)
    assert run.left_out == {}
    assert confusion(run) == Counter((GOLD[number], GIVEN[number]) for number in GOLD)
    assert "mean_score" not in run.metrics, "the score is what it says of others"
    assert run.details("gold") == {f"r{number}": gold for number, gold in GOLD.items()}


ALWAYS_THREE = [labelled(0, 1), labelled(1, 3), labelled(2, 5), labelled(3, 5)]


@pytest.mark.slow
@pytest.mark.parametrize("role", [JUDGE, SCORES])
def test_a_judge_that_always_says_three(tmp_path: Path, role: str) -> None:
    """It has no correlation with anything: that is said, and is neither 0 nor NaN."""
    run = rubric(tmp_path, role, rows=ALWAYS_THREE, judge=score(3), policy=score(3))
    assert run.code == 0, run.said
    assert run.left_out == dict.fromkeys(CORRELATIONS, "one side gives 3 to every item")
    wanted = {
        "exact_rate": 1 / 4,
        "within_one_rate": 1 / 4,
        "mae": 1.5,
        "bias": -0.5,
        "quadratic_kappa": 0.0,
    }
    assert run.some(*wanted) == pytest.approx(wanted)
    assert confusion(run) == {(1, 3): 1, (3, 3): 1, (5, 3): 2}
    assert run.some("score_freq_3", "score_freq_1") == {"score_freq_3": 1.0, "score_freq_1": 0.0}
    assert "NaN" not in (run.files.path / "metrics.json").read_text()


UNREADABLE = {
    "no tag": "A score of 5.",
    "cut off": Reply(
        body=completion("[FEEDBACK] At first I thought [SCORE] 5\nbut then", finish_reason="length")
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_unreadable_score_is_a_wrong_one(tmp_path: Path, kind: str) -> None:
    """It stays in the mean of the rewards; there is nothing of it to compare with gold."""
    rows = [labelled(number, 5) for number in range(4)]
    policy = giving(lambda instruction, response: UNREADABLE[kind] if instruction == "Do 0." else 4)
    run = rubric(tmp_path, JUDGE, rows=rows, policy=policy)
    assert run.code == 0, run.said
    assert list(run.scores().values()) == [0.0, 0.75, 0.75, 0.75]
    wanted = {
        "mean_reward": 0.5625,
        "n_used": 3,
        "n_failed": 1,
        "mae": 1.0,
        "judge_error_rate": 0.0,
        "score_freq_4": 1.0,
    }
    assert run.some(*wanted) == pytest.approx(wanted)
    assert run.scores("status")["r0"] == "invalid_completion"
    assert confusion(run) == {(5, 4): 3}


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "pooled"), [("mean", 11 / 3), ("median", 5.0)])
def test_several_judgments_of_the_policy(tmp_path: Path, pooling: str, pooled: float) -> None:
    """All at once; one that cannot be read makes the row a wrong one."""
    scores = {"Do 0.": iter((1, 5, 5)), "Do 1.": iter((4, 4, 0))}

    def policy(request: Json, number: int) -> str:
        return score(next(scores[shown(request)["Instruction"]]))

    flags = "--env.samples_per_item=3", f"--env.samples_pooling={pooling}"
    run = rubric(tmp_path, JUDGE, *flags, rows=[labelled(0, 3), labelled(1, 4)], policy=policy)
    assert run.code == 0, run.said
    assert run.scores() == pytest.approx({"r0": 1 - (pooled - 3) / 4, "r1": 0.0})
    wanted = {"mae": pooled - 3, "bias": pooled - 3, "n_used": 1, "n_failed": 1, "exact_rate": 0.0}
    wanted |= {"spread_of_judgments": ((16 / 3) ** 0.5 + 0.0) / 2, "strict_format_rate": 5 / 6}
    assert run.some(*wanted) == pytest.approx(wanted)
    assert len(run.policy.requests) == 6


@pytest.mark.slow
def test_gold_scores_between_two_levels(tmp_path: Path) -> None:
    """`exact` and the table take the nearest level, of two as near the higher one; distances take gold as it is."""
    rows = [
        task(number, response="R", gpt4_scores=scores)
        for number, scores in enumerate([[3, 4], [4, 4, 5], [2, 2]])
    ]
    run = rubric(tmp_path, JUDGE, rows=rows, policy=score(4))
    assert list(run.scores().values()) == pytest.approx([1 - 0.5 / 4, 1 - (1 / 3) / 4, 0.5])
    assert run.metrics["exact_rate"] == pytest.approx(2 / 3)
    assert run.metrics["mae"] == pytest.approx((0.5 + 1 / 3 + 2) / 3)
    assert confusion(run) == {(4, 4): 2, (2, 4): 1}
    exact = rubric(tmp_path, JUDGE, "--env.reward=exact", rows=rows, policy=score(4), run="exact")
    assert list(exact.scores().values()) == [1.0, 1.0, 0.0]


def test_rows_that_cannot_be_compared_are_left_out_and_said(tmp_path: Path) -> None:
    rows = [labelled(0, 4), task(1, response="No gold."), task(2, score=3)]
    run = rubric(tmp_path, JUDGE, rows=rows, policy=score(4))
    assert run.code == 0, run.said
    assert run.lacks("2 of 3 rows", "no gold score") == []
    assert run.scores() == {"r0": 1.0}
