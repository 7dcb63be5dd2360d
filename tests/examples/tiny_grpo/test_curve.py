"""Curves: their file, their picture, and what counts as learned."""

from __future__ import annotations

from random import Random

import pytest

from examples.tiny_grpo.curve import SeedRun, Step, measure_progress, reward_progress


def made(rewards: list[float], seed: int = 1) -> SeedRun:
    steps = tuple(
        Step(n, reward, reward, 1.0, 24.0, 1.0, 0.01, 0.1, 0.0, 1.0, 8.0, 0.0)
        for n, reward in enumerate(rewards, 1)
    )
    return SeedRun(seed, steps, 1.0, len(steps) * 4, 3, 12.5)


def noisy(first: float, last: float, spread: float, steps: int = 60) -> list[float]:
    rng = Random(7)
    return [first + (last - first) * n / (steps - 1) + rng.gauss(0, spread) for n in range(steps)]


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        (noisy(0.0, 0.7, 0.02), True),
        (noisy(0.0, 0.7, 2.0), False),
        (noisy(0.3, 0.3, 0.02), False),
        (noisy(0.7, 0.0, 0.02), False),
        ([0.0] * 10 + [1.0] * 10, True),  # no spread at all
        ([0.5] * 20, False),
    ],
)
def test_a_run_has_learned_if_its_end_is_five_standard_errors_above_its_beginning(
    rewards: list[float], expected: bool
) -> None:
    assert reward_progress(made(rewards)).learned is expected


def test_the_standard_error_is_that_of_a_difference_of_two_means() -> None:
    progress = measure_progress([0.0, 1.0] * 5 + [10.0, 12.0] * 5)
    assert (progress.first, progress.last) == (0.5, 11.0)
    assert progress.standard_error == pytest.approx(((10 / 36 + 10 / 9) / 10) ** 0.5)


def test_the_standard_error_is_larger_where_steps_resemble_those_before_them() -> None:
    rng = Random(3)
    drawn = [rng.gauss(0, 1) for _ in range(20)]
    drifting = sorted(drawn[:10]) + sorted(drawn[10:])
    apart, together = (
        measure_progress(drawn).standard_error,
        measure_progress(drifting).standard_error,
    )
    assert apart is not None and together is not None
    assert together > 2 * apart


def test_too_few_steps_are_no_decision() -> None:
    progress = reward_progress(made([0.0] * 9 + [1.0] * 10))
    assert not progress.learned and progress.reason is not None and "19 steps" in progress.reason
