"""Scores by criteria against an independent implementation, and against HealthBench's own example."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from judgegym.judges.checklists.criteria import Criterion
from judgegym.judges.checklists.formulas import (
    CannotAssess,
    Formula,
    GradedCriterion,
    checklist_score,
    has_score,
    tag_scores,
)
from judgegym.statistics.agreement import clipped_mean, clipped_mean_std, expected_minimum

Items = Sequence[tuple[float, bool, Sequence[str]]]


def graded(items: Items) -> list[GradedCriterion]:
    return [
        GradedCriterion(
            Criterion(name=f"c{number}", text="Is it?", points=points, tags=tuple(tags)), float(met)
        )
        for number, (points, met, tags) in enumerate(items)
    ]


def of(*items: tuple[float, float | None], required: Sequence[int] = ()) -> list[GradedCriterion]:
    return [
        GradedCriterion(
            Criterion(name=f"c{n}", text="Is it?", points=points, required=n in required), value
        )
        for n, (points, value) in enumerate(items)
    ]


def row_score(items: Items) -> float | None:
    """HealthBench's score, written a second time from its description."""
    possible = achieved = 0.0
    for points, met, _ in items:
        if points > 0:
            possible = possible + points
        if met:
            achieved = achieved + points
    return None if possible == 0 else achieved / possible


def test_example_of_healthbench() -> None:
    items = [(7, True, ()), (5, False, ()), (10, True, ()), (-6, True, ())]
    assert checklist_score(graded(items), "healthbench") == 11 / 22
    assert checklist_score(graded([(-6.0, True, ())]), "healthbench") is None


def test_healthbench_by_row_tag_and_benchmark_on_2000_random_rows() -> None:
    rng = random.Random(5)
    scores: list[float] = []
    without = negative = 0
    for _ in range(2_000):
        items = [
            (
                rng.choice([-10, -6, -1, 2.5, 7, 10]),
                rng.random() < 0.5,
                rng.sample("abcd", rng.randrange(3)),
            )
            for _ in range(rng.randint(1, 12))
        ]
        expected, found = row_score(items), checklist_score(graded(items), "healthbench")
        assert (found is None) is (expected is None)
        assert has_score([one.criterion for one in graded(items)], "healthbench") is (
            expected is not None
        )
        by_tag = {tag: row_score([item for item in items if tag in item[2]]) for tag in "abcd"}
        assert tag_scores(graded(items), "healthbench") == pytest.approx(
            {tag: score for tag, score in by_tag.items() if score is not None}, abs=1e-9
        )
        if found is None or expected is None:
            without += 1
            continue
        assert found == pytest.approx(expected, abs=1e-9)
        negative += found < 0
        scores.append(found)
    assert without > 20 and negative > 200
    drawn = np.random.default_rng(7)
    means = [
        min(1.0, max(0.0, float(np.mean(drawn.choice(scores, len(scores)))))) for _ in range(1_000)
    ]
    assert clipped_mean(scores) == pytest.approx(
        min(1.0, max(0.0, float(np.mean(scores)))), abs=1e-9
    )
    assert clipped_mean_std(scores, seed=7) == pytest.approx(float(np.std(means)), abs=1e-9)
    assert clipped_mean([-1.0, -0.5]) == clipped_mean_std([-1.0, -0.5]) == 0.0


@pytest.mark.parametrize(
    ("formula", "items", "expected"),
    [
        ("weighted_mean", of((2, 1), (2, 0), (-1, 1)), 0.25),
        ("weighted_mean", of((-3, 1), (-1, 0)), 0.25),
        ("rar", of((1, 1), (0.7, 0), (-0.9, 0)), 1.9 / 2.6),
        ("all", of((1, 1), (-1, 1)), 0.0),
        ("min", of((1, 0.75), (-1, 0.5)), 0.5),
        ("healthbench", of((7, 1), (5, 0), (-6, 0), required=[1]), -0.5),
        ("rar", of((7, 1), (-6, 1), required=[1]), 0.0),
        ("min", of((0, 0)), None),
    ],
)
def test_formulas_by_hand(
    formula: Formula, items: list[GradedCriterion], expected: float | None
) -> None:
    found = checklist_score(items, formula)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("leave_out", 0.5), ("zero", 2 / 8), ("partial", 2.5 / 8), ("worst", -1 / 8)],
)
def test_what_cannot_be_assessed(strategy: CannotAssess, expected: float) -> None:
    items = of((2, 1), (2, 0), (4, None), (-3, None))
    assert checklist_score(items, "healthbench", strategy) == pytest.approx(expected)
    nothing = checklist_score(of((2, None)), "rar", strategy)
    assert nothing == {"leave_out": None, "zero": 0.0, "partial": 0.5, "worst": 0.0}[strategy]


def test_expected_minimum_is_that_of_all_choices() -> None:
    values = [0.7, 0.1, 0.4, 0.4, 0.9]
    for size in range(1, 6):
        lowest = [min(chosen) for chosen in combinations(values, size)]
        assert expected_minimum(values, size) == pytest.approx(sum(lowest) / len(lowest))
