"""The scores of a judged group."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.environments.rollouts.scored_group import fill_in, longest
from tests.environments.rollouts_of import PROMPT, group

REWARDS = st.floats(-1, 1)


@given(rewards=st.lists(st.none() | REWARDS, min_size=2, max_size=8))
def test_a_missing_score_is_the_mean_of_the_others(rewards: list[float | None]) -> None:
    there = [each for each in rewards if each is not None]
    scores = fill_in(rewards)
    if len(there) < 2:
        assert scores is None
        return
    assert scores is not None
    assert scores.substituted == tuple(each is None for each in rewards)
    for value, reward in zip(scores.values, rewards, strict=True):
        assert math.isfinite(value)
        assert value == (pytest.approx(math.fsum(there) / len(there)) if reward is None else reward)


@pytest.mark.parametrize(("rewards", "expected"), [([0.5], (0.5,)), ([None], None)])
def test_a_group_of_one_needs_one_score(rewards: list[float | None], expected: tuple[float, ...] | None) -> None:
    scores = fill_in(rewards)
    assert (None if scores is None else scores.values) == expected


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_goes_nowhere(bad: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        fill_in([0.5, bad, None])


@pytest.mark.parametrize(
    ("rewards", "equal"),
    [([1.0, 1.0, 1.0], True), ([1.0, 1.0, None], True), ([1.0, 1.0, -1.0], False), ([1.0, -1.0, None], False)],
)
def test_whether_there_is_a_signal(rewards: list[float | None], equal: bool) -> None:
    scores = fill_in(rewards)
    assert scores is not None
    assert scores.equal is equal


@given(reward=REWARDS, there=st.integers(2, 7), missing=st.integers(1, 3))
def test_a_missing_score_is_no_signal(reward: float, there: int, missing: int) -> None:
    scores = fill_in([reward] * there + [None] * missing)
    assert scores is not None
    assert scores.equal


def test_the_longest_sequence_has_its_prompt() -> None:
    assert longest(group([1.0, 0.0, 0.5], [4, 9, 5])) == len(PROMPT) + 9
