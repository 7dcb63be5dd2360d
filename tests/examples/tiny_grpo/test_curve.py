"""Curves: their file, their picture, and what counts as learned."""

from __future__ import annotations

from random import Random

import pytest

from examples.tiny_grpo.curve import SeedRun, Step, learned


def made(rewards: list[float], seed: int = 1) -> SeedRun:
    steps = tuple(
        Step(n, reward, reward, 1.0, 24.0, 1.0, 0.01, 0.1, 0.0, 1.0, 8.0, 0.0) for n, reward in enumerate(rewards, 1)
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
    assert learned(made(rewards)).learned is expected


def test_too_few_steps_are_no_decision() -> None:
    progress = learned(made([0.0] * 9 + [1.0] * 10))
    assert not progress.learned and progress.reason is not None and "19 steps" in progress.reason
