"""Who meets: every schedule connects its players, and keeps its form when fewer come than were planned for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

import pytest

from judgegym.judges.tournament.schedule import (
    Pair,
    Schedule,
    TournamentSettings,
    components,
    connecting_pairs,
    count_games,
    missing_pairs,
    order_games,
    plan_pairs,
    swiss_round,
)

SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
SIZES = range(2, 18)


def others(pairs: Sequence[Pair]) -> Counter[int]:
    return Counter(player for both in pairs for player in both)


def rounds_of(size: int, **settings: object) -> int:
    return TournamentSettings.model_validate(settings).count_rounds(size)


def after(schedule: Schedule, places: int, present: Sequence[int], rounds: int) -> list[Pair]:
    """All pairs that meet if only some places are taken, but for swiss's later rounds."""
    met = [both for both in plan_pairs(schedule, places, rounds) if {*both} <= {*present}]
    return met + missing_pairs(schedule, present, met, rounds)


@pytest.mark.parametrize("places", SIZES)
def test_numbers_of_pairs(places: int) -> None:
    assert len(plan_pairs("all", places, 0)) == places * (places - 1) // 2
    assert len(plan_pairs("circular", places, 0)) == (places if places > 2 else 1)
    for rounds in range(1, places):
        if places > 2:
            assert len(plan_pairs("balanced", places, rounds)) == rounds * (places // 2)


@pytest.mark.parametrize("schedule", ["all", "circular"])
@pytest.mark.parametrize(
    "present", [[0, 1, 2], [1, 4, 5, 7], [0, 2, 4, 6], [3, 4], [0, 1, 2, 3, 4, 6, 7]]
)
def test_fewer_players_have_the_same_form_of_schedule(
    schedule: Schedule, present: list[int]
) -> None:
    expected = plan_pairs(schedule, len(present), 0)
    assert sorted(after(schedule, 8, present, 3)) == [
        (present[one], present[other]) for one, other in expected
    ]


@pytest.mark.parametrize("places", [5, 8, 9, 16])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_balanced_of_fewer_players_lets_each_meet_enough_others(places: int, rounds: int) -> None:
    for missing in range(places):
        present = [
            place for place in range(places) if place not in (missing, (missing * 3 + 1) % places)
        ]
        met = others(after("balanced", places, present, rounds))
        wanted = min(rounds, len(present) - 1)
        assert min(met[player] for player in present) >= wanted - 1
        assert sum(met.values()) >= 2 * wanted * (len(present) // 2)
        assert max(met.values()) <= wanted + 1


@pytest.mark.parametrize("size", range(2, 14))
def test_swiss_rounds_pair_neighbours_of_the_standing_and_meet_again_last(size: int) -> None:
    standing = list(range(size))
    met = Counter[Pair](plan_pairs("swiss", size, 1))
    for _ in range(rounds_of(size, schedule="swiss") - 1):
        new = swiss_round(standing, met)
        assert len(new) == size // 2 and max(others(new).values()) == 1
        met.update(new)
    byes = Counter(dict.fromkeys(standing, 0)) + others(list(met.elements()))
    assert max(byes.values()) - min(byes.values()) <= 1
    if size >= 8:
        assert max(met.values()) == 1
    assert swiss_round([3, 1, 0, 2], Counter()) == [(1, 3), (0, 2)]
    assert swiss_round([3, 1, 0, 2], Counter({(1, 3): 1})) == [(0, 3), (1, 2)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_is_first_as_often_as_second_in_balanced_orders(schedule: Schedule) -> None:
    for places in range(3, 18):
        meetings = order_games(plan_pairs(schedule, places, 4), "balanced")
        lead = Counter(dict.fromkeys(range(places), 0))
        for first, second in meetings:
            lead[first] += 1
            lead[second] -= 1
        assert max(abs(value) for value in lead.values()) <= (1 if schedule != "balanced" else 2), (
            places
        )


def test_both_orders_of_each_pair() -> None:
    assert order_games([(0, 1), (1, 2)], "both") == [(0, 1), (1, 0), (1, 2), (2, 1)]


def test_pair_that_meets_again_has_the_other_order() -> None:
    (once,) = order_games([(0, 1)], "balanced")
    assert once == (0, 1)
    assert order_games([(0, 1)], "balanced", before=[once]) == [once[::-1]]
    assert order_games([(0, 1), (0, 1)], "balanced") == [once, once[::-1]]


def test_components_are_largest_first_and_connected_by_the_pairs_that_met_the_least() -> None:
    groups = components(range(6), [(4, 5), (5, 2), (0, 1)])
    assert groups == [[2, 4, 5], [0, 1], [3]]
    assert connecting_pairs(groups, {}) == [(0, 2), (3, 4)]
    assert connecting_pairs(groups, {(0, 2): 1, (0, 4): 1, (2, 3): 2, (3, 4): 1, (3, 5): 1}) == [
        (0, 5),
        (3, 4),
    ]
    assert connecting_pairs([[0, 1]], {}) == []
    assert components([], []) == []


def test_usual_rounds_cost_the_same_in_either_order_and_never_play_a_game_twice() -> None:
    assert [rounds_of(size) for size in (2, 3, 4, 8, 9, 16)] == [1, 2, 2, 3, 4, 4]
    assert rounds_of(8, schedule="swiss", game_orders="balanced") == 6
    assert rounds_of(4, schedule="swiss", game_orders="balanced") == 4
    assert rounds_of(4, schedule="balanced", game_orders="balanced") == 3
    assert rounds_of(8, schedule_rounds=100) == 7
    assert rounds_of(8, schedule="swiss", schedule_rounds=100, game_orders="balanced") == 14


@pytest.mark.parametrize(
    ("settings", "players", "games"),
    [
        (TournamentSettings(), 8, 56),
        (TournamentSettings(game_orders="balanced"), 8, 28),
        (TournamentSettings(schedule="swiss"), 8, 24),
        (TournamentSettings(schedule="swiss"), 9, 32),
        (TournamentSettings(schedule="balanced"), 8, 24),
        (TournamentSettings(schedule="circular"), 8, 16),
    ],
)
def test_number_of_games_is_that_of_the_documents(
    settings: TournamentSettings, players: int, games: int
) -> None:
    assert count_games(settings, players) == games
