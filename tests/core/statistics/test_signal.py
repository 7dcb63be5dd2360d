"""The signal of a reward from groups judged twice by simulated judges, whose noise is known."""

from __future__ import annotations

import numpy as np
import pytest

from judgegym.statistics.signal import (
    Advantage,
    GroupPair,
    Signal,
    compute_advantages,
    measure_signal,
)

SIZE = 4


def judge_groups(
    count: int, noise: float, seed: int, *, judgments: int = 2, flat: float = 0.0, grid: float = 0.0
) -> np.ndarray:
    """Rewards of normal completions, by judgment, group and completion.

    `flat` of the groups have no true difference; scores are rounded to multiples of `grid`.
    """
    generator = np.random.default_rng(seed)
    truth = generator.standard_normal((count, SIZE)) * (generator.random((count, 1)) >= flat)
    rewards = truth + noise * generator.standard_normal((judgments, count, SIZE))
    return np.round(rewards / grid) * grid if grid else rewards


def pairs(rewards: np.ndarray, calls: int = SIZE) -> list[GroupPair]:
    first, second = rewards[0].tolist(), rewards[1].tolist()
    return [GroupPair(*group, calls) for group in zip(first, second, strict=True)]


def measured(rewards: np.ndarray, advantage: Advantage) -> Signal:
    signal = measure_signal(pairs(rewards), advantage)
    assert isinstance(signal, Signal)
    return signal


def test_advantages_are_those_of_the_trainers() -> None:
    rewards = [1.0, 2.0, 3.0, 6.0]
    assert compute_advantages(rewards, "centre").tolist() == [-2.0, -1.0, 0.0, 3.0]
    assert compute_advantages(rewards, "dr_grpo").tolist() == [-2.0, -1.0, 0.0, 3.0]
    others = [reward - (sum(rewards) - reward) / 3 for reward in rewards]
    assert compute_advantages(rewards, "rloo") == pytest.approx(others)
    deviation = np.std(rewards, ddof=1)
    assert compute_advantages(rewards, "deviation") == pytest.approx(
        [-2 / deviation, -1 / deviation, 0, 3 / deviation], rel=1e-3
    )
    assert compute_advantages([2.0, 2.0], "deviation").tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="two rewards"):
        compute_advantages([1.0], "centre")


def test_the_noise_of_a_judge_is_the_share_that_does_not_repeat() -> None:
    """A noise of half the spread of the truth is a fifth of the variance: 0.25 / 1.25."""
    signal = measured(judge_groups(1_000, 0.5, seed=1), "centre")
    assert signal.reliability.value == pytest.approx(0.8, abs=0.03)
    assert signal.unrepeated.value == pytest.approx(0.2, abs=0.03)
    assert signal.unrepeated.interval.low < 0.2 < signal.unrepeated.interval.high
    assert signal.groups == 1_000 and signal.equal == 0


def test_sums_are_those_of_an_independent_computation() -> None:
    rewards = judge_groups(40, 0.7, seed=2, grid=0.5)
    centred = rewards - rewards.mean(axis=2, keepdims=True)
    advantages = centred / (rewards.std(axis=2, ddof=1, keepdims=True) + 1e-4)
    top = (advantages[0] * centred[1]).sum() + (advantages[1] * centred[0]).sum()
    bottom = (advantages * centred).sum()
    signal = measured(rewards, "deviation")
    assert signal.unrepeated.value == pytest.approx(1 - top / bottom)
    product = (centred[0] * centred[1]).sum(axis=1)
    assert signal.reliability.value == pytest.approx(2 * product.sum() / (centred**2).sum())
    assert signal.no_difference == pytest.approx((product <= 1e-9).mean())
    squares = (advantages**2).sum(axis=(0, 2))
    weight = squares[product <= 1e-9].sum() / squares.sum()
    assert signal.no_difference_weight == pytest.approx(weight)


def test_leaving_one_out_repeats_as_much_as_centring() -> None:
    rewards = judge_groups(64, 1.0, seed=3)
    assert measured(rewards, "rloo").unrepeated.value == pytest.approx(
        measured(rewards, "dr_grpo").unrepeated.value
    )


def test_division_by_the_deviation_trains_on_groups_without_a_difference() -> None:
    """Half of the groups have only noise; without division they have less of the gradient."""
    rewards = judge_groups(1_000, 0.3, seed=4, flat=0.5)
    divided, centred = measured(rewards, "deviation"), measured(rewards, "centre")
    assert divided.unrepeated.value > centred.unrepeated.value + 0.1
    assert divided.no_difference == centred.no_difference
    assert divided.no_difference_weight > 2 * centred.no_difference_weight
    first, *_ = divided.advice
    assert "group's deviation" in first.change and first.calls == 0
    assert first.before < first.after and first.gain.interval.low > 0
    assert not any("division" in advice.change for advice in centred.advice)


def test_the_gain_of_a_second_vote_is_what_a_third_judgment_shows() -> None:
    rewards = judge_groups(1_000, 0.8, seed=5, judgments=3, grid=1.0)
    centred = rewards - rewards.mean(axis=2, keepdims=True)
    third, mean = centred[2], (centred[0] + centred[1]) / 2
    differs = np.abs(centred[0]).max(axis=1, keepdims=True) > 0

    def agreement(advantages: np.ndarray) -> float:
        return float((advantages * third).sum() / np.sqrt((advantages**2).sum() * (third**2).sum()))

    where_differing, everywhere = measured(rewards, "centre").advice
    assert everywhere.before == pytest.approx(agreement(centred[0]), abs=0.03)
    assert everywhere.after == pytest.approx(agreement(mean), abs=0.03)
    assert where_differing.after == pytest.approx(agreement(mean * differs), abs=0.03)
    assert everywhere.calls == SIZE
    assert where_differing.calls == pytest.approx(SIZE * differs.mean(), abs=0.1)
    assert f"{where_differing.calls:.1f} further calls" in where_differing.text


@pytest.mark.parametrize("advantage", ["centre", "deviation"])
def test_a_judge_without_noise_needs_no_advice(advantage: Advantage) -> None:
    signal = measured(judge_groups(64, 0.0, seed=6), advantage)
    assert signal.unrepeated.value == pytest.approx(0) and signal.advice == ()
    assert signal.texts == ()


def test_advice_adds_to_what_stands_before_it() -> None:
    """Where all first votes differ, votes everywhere are the same advice, given once."""
    first, second = measured(judge_groups(200, 0.8, seed=11), "deviation").advice
    assert (first.calls, second.calls) == (0, SIZE)
    assert first.after < second.after


def test_few_levels_with_many_equal_groups_are_told_without_a_gain() -> None:
    rewards = (judge_groups(64, 0.2, seed=7, flat=0.4, grid=1.0)).clip(-1, 1)
    signal = measured(rewards, "centre")
    assert signal.levels == 3 and signal.has_coarse_scale
    assert signal.texts[-1].startswith("a finer scale: ")
    assert "cannot be told" in signal.texts[-1]


def test_nothing_is_said_of_few_groups_or_equal_rewards() -> None:
    rewards = judge_groups(32, 0.5, seed=8)
    assert isinstance(measure_signal(pairs(rewards), "centre"), Signal)
    few = measure_signal(pairs(rewards)[:31], "centre")
    assert str(few).startswith("31 groups ") and "expected 32 or" in str(few)
    equal = [GroupPair([1.0, 1.0], [1.0, 1.0])] * 40
    assert "all equal" in str(measure_signal(equal, "deviation"))


def test_the_same_groups_have_the_same_interval() -> None:
    rewards = judge_groups(64, 0.5, seed=9)
    assert measured(rewards, "deviation") == measured(rewards, "deviation")


def true_share(advantage: Advantage, rewards: np.ndarray) -> float:
    """The share that does not repeat, from so many groups that its error is small."""
    centred = rewards - rewards.mean(axis=2, keepdims=True)
    advantages = centred
    if advantage == "deviation":
        advantages = centred / (rewards.std(axis=2, ddof=1, keepdims=True) + 1e-4)
    repeated = (advantages * centred[::-1]).sum()
    return float(1 - repeated / (advantages * centred).sum())


@pytest.mark.slow
@pytest.mark.parametrize("advantage", ["centre", "deviation"])
@pytest.mark.parametrize(
    ("noise", "flat", "grid"), [(0.5, 0.0, 0.0), (0.7, 0.4, 0.0), (0.6, 0.3, 1.0)]
)
def test_the_interval_covers_the_share_of_a_judge_of_known_noise(
    advantage: Advantage, noise: float, flat: float, grid: float
) -> None:
    truth = true_share(advantage, judge_groups(50_000, noise, seed=10, flat=flat, grid=grid))
    covered = 0
    for run in range(100):
        rewards = judge_groups(64, noise, seed=1_000 + run, flat=flat, grid=grid)
        interval = measured(rewards, advantage).unrepeated.interval
        covered += interval.low <= truth <= interval.high
    assert covered >= 85
