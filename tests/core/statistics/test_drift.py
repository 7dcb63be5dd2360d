"""Judges that stay as they are, with their own noise, are not accused; one that was swapped is told."""

from __future__ import annotations

import numpy as np
import pytest

from judgegym.engine.anchors import LEVEL, LOOKS, SUSPICIOUS
from judgegym.statistics.drift import DriftTest, drift_test

ANCHORS = 60


def run(generator: np.random.Generator, noise: float, swapped: int) -> DriftTest | None:
    """Judge anchors in a first run and a later one, as runs do; `None` if the first look is not suspicious."""
    scores = (generator.random(ANCHORS) < 0.6).astype(float)
    after = scores.copy()
    places = generator.choice(ANCHORS, swapped, replace=False)
    after[places] = 1 - after[places]

    def judged(of: np.ndarray) -> list[list[float]]:
        flips = generator.random((ANCHORS, LOOKS)) < noise
        looks: list[list[float]] = np.where(flips, 1 - of[:, None], of[:, None]).tolist()
        return looks

    earlier, new = judged(scores), judged(after)
    if drift_test(earlier, [look[:1] for look in new]).p > SUSPICIOUS:
        return None
    return drift_test(earlier, new)


def accused(noise: float, swapped: int, runs: int) -> float:
    generator = np.random.default_rng(7)
    tests = (run(generator, noise, swapped) for _ in range(runs))
    return sum(test is not None and test.p <= LEVEL for test in tests) / runs


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 1 / 30, 0.15, 0.3])
def test_of_a_thousand_unchanged_judges_at_most_one_per_cent_is_accused(noise: float) -> None:
    assert accused(noise, 0, 1_000) <= 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "least"), [(0.0, 1.0), (1 / 30, 0.95)])
def test_a_judge_that_flips_seven_of_sixty_anchors_is_told_in_one_run(
    noise: float, least: float
) -> None:
    assert accused(noise, 7, 200) >= least


def test_flips_stand_beside_those_that_the_judges_own_noise_makes() -> None:
    earlier = [[1.0, 1.0, 1.0]] * 50 + [[0.0, 1.0, 1.0]] * 6
    found = drift_test(earlier, [[0.0]] * 7 + [[1.0]] * 49)
    assert (found.rows, found.flipped, found.expected) == (56, 7, pytest.approx(2.0))
    assert found.p < 0.05
    assert drift_test(earlier, [[1.0]] * 56).p > 0.1
    assert drift_test(earlier[:50], [[1.0]] * 50) == DriftTest(50, 0, 0.0, 1.0)


def test_a_step_of_a_scale_from_0_to_10_is_no_flip_wherever_it_is() -> None:
    steps = [drift_test([[level / 10] * 3], [[(level + 1) / 10]]).flipped for level in range(10)]
    assert steps == [0] * 10
    assert drift_test([[0.3] * 3], [[0.5]]).flipped == 1


def test_the_test_is_the_same_each_time() -> None:
    earlier, new = [[0.25, 0.5, 0.5]] * 9, [[0.75, 0.5, 0.75]] * 9
    assert drift_test(earlier, new) == drift_test(earlier, new)
    assert drift_test(earlier, new).p < LEVEL
