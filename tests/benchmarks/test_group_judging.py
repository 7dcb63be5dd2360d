"""The simulated tournament: rewards that follow quality as far as is required, and no answer lost to failed games."""

from __future__ import annotations

import pytest

from benchmarks.group_judging import (
    BETAS,
    KINDS,
    Kind,
    answers_kept,
    correlations,
    simulate,
    time_of_fit,
)

GROUPS = 100  # the script's thousand have an error of 0.002 to 0.008; these three times as much
BY_NAME = {kind.name: kind for kind in KINDS}


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.required], ids=lambda kind: kind.name
)
async def test_rewards_follow_quality_and_no_answer_is_lost(kind: Kind) -> None:
    figures = [await simulate(kind, 8, beta, GROUPS) for beta in BETAS]
    for each, required in zip(figures, kind.required, strict=True):
        assert each.correlation >= required - 2 * each.error
        assert each.error < 0.03
        assert each.lost == 0 < each.in_failed_games
    assert [line.ours for line in correlations(kind, 8, figures, GROUPS)] == [
        each.correlation for each in figures
    ]
    kept, today = answers_kept(8, figures)
    assert kept.is_met and kept.ours == 1.0 > today.other


async def test_calls_of_a_group_of_eight_are_those_of_the_schedule() -> None:
    games = {
        name: (await simulate(kind, 8, 3.0, 3, seed=1)).games for name, kind in BY_NAME.items()
    }
    assert games == {
        "circular": 8,
        "balanced, both orders": 24,
        "swiss, both orders": 24,
        "swiss, balanced orders": 24,
        "all pairs once": 28,
        "all pairs both ways": 56,
    }


async def test_more_games_follow_quality_better_and_random_ties_worse() -> None:
    few, many = [
        await simulate(BY_NAME[name], 8, 1.5, 60) for name in ("circular", "all pairs both ways")
    ]
    random = await simulate(BY_NAME["all pairs both ways"], 8, 1.5, 60, ties="random")
    assert few.correlation + 0.2 < many.correlation > random.correlation


async def test_groups_of_sixteen_lose_no_answer() -> None:
    figures = await simulate(BY_NAME["all pairs both ways"], 16, 1.5, 10)
    assert (figures.lost, figures.answers, figures.games) == (0, 160, 240)
    assert figures.in_failed_games > 20  # which a judge that drops both sides would have lost


def test_time_of_a_fit_is_reported() -> None:
    assert time_of_fit(8).ours > 0
