import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.arena.win_rate import STRONG_WEIGHT, game_entries, row_entries, row_outcome, row_reward, win_rate
from judges.parsing.verdicts import ARENA_LABELS, ArenaLabel

# The model's entries (W 1, T 0.5, L 0) for every pair of labels: the row is game 1 (the model is A), the column
# game 2 (the model is B).
ENTRIES = """
        A>>B    A>B   A=B   B>A   B>>A
A>>B    WWWLLL  WWWL  WWWT  WWWW  WWWWWW
A>B     WLLL    WL    WT    WW    WWWW
A=B     TLLL    TL    TT    TW    TWWW
B>A     LLLL    LL    LT    LW    LWWW
B>>A    LLLLLL  LLLL  LLLT  LLLW  LLLWWW
"""
OUTCOMES = """
        A>>B  A>B   A=B  B>A  B>>A
A>>B    tie   tie   tie  win  win
A>B     tie   tie   tie  win  win
A=B     tie   tie   tie  tie  tie
B>A     loss  loss  tie  tie  tie
B>>A    loss  loss  tie  tie  tie
"""
VALUES = {"W": 1.0, "T": 0.5, "L": 0.0}
MIRROR = {"A>>B": "B>>A", "A>B": "B>A", "A=B": "A=B", "B>A": "A>B", "B>>A": "A>>B"}


def cells(table: str) -> list[tuple[str, str, str]]:
    header, *rows = [line.split() for line in table.strip().splitlines()]
    return [(row[0], label, cell) for row in rows for label, cell in zip(header, row[1:], strict=True)]


@pytest.mark.parametrize(("game_1", "game_2", "expected"), cells(ENTRIES))
def test_entries(game_1: ArenaLabel, game_2: ArenaLabel, expected: str) -> None:
    entries = row_entries(game_1, game_2)
    assert entries == [VALUES[letter] for letter in expected]
    assert 2 <= len(entries) <= 6


@pytest.mark.parametrize(("game_1", "game_2", "expected"), cells(ENTRIES))
def test_a_strong_verdict_may_count_once(game_1: ArenaLabel, game_2: ArenaLabel, expected: str) -> None:
    assert row_entries(game_1, game_2, strong_weight=1) == [VALUES[expected[0]], VALUES[expected[-1]]]


def test_the_weights_of_the_protocols() -> None:
    assert STRONG_WEIGHT == {"three_way": 1, "arena_hard_v0.1": 3}


@pytest.mark.parametrize(("game_1", "game_2", "expected"), cells(OUTCOMES))
def test_outcome(game_1: ArenaLabel, game_2: ArenaLabel, expected: str) -> None:
    assert row_outcome(game_1, game_2) == expected


LABELS = st.sampled_from(ARENA_LABELS)


@given(LABELS, LABELS)
def test_mirrored_labels_mirror_the_entries(game_1: ArenaLabel, game_2: ArenaLabel) -> None:
    mirrored = row_entries(MIRROR[game_1], MIRROR[game_2])  # type: ignore[arg-type]
    assert mirrored == [1 - entry for entry in row_entries(game_1, game_2)]


@given(LABELS, LABELS)
def test_the_baselines_reward_is_the_models_with_the_other_sign(game_1: ArenaLabel, game_2: ArenaLabel) -> None:
    # The game in which the model is B is the one in which the baseline is A.
    assert row_reward(row_entries(game_2, game_1)) == -row_reward(row_entries(game_1, game_2))


@pytest.mark.parametrize("label", ["", "A", "B<A", "a>b", "[[A>B]]", "A>>>B", "tie"])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_no_label_is_an_error(label: str, place: int) -> None:
    labels = ["A=B", "A=B"]
    labels[place] = label
    with pytest.raises(ValueError, match="A>>B, A>B, A=B, B>A, B>>A"):
        row_entries(*labels)  # type: ignore[arg-type]


def test_one_games_entries() -> None:
    assert game_entries("A>>B", model_is_a=True, strong_weight=3) == [1, 1, 1]
    assert game_entries("A>>B", model_is_a=False, strong_weight=2) == [0, 0]


@pytest.mark.parametrize(
    ("entries", "reward"),
    [([1, 1], 1.0), ([0, 0], -1.0), ([0.5, 0.5], 0.0), ([1, 0], 0.0), ([1, 0.5], 0.5), ([1, 1, 1, 0], 0.5)],
)
def test_reward(entries: list[float], reward: float) -> None:
    assert row_reward(entries) == reward


@pytest.mark.parametrize("rows", [[], [[]], [[1.0], []]])
def test_a_win_rate_needs_entries(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        win_rate(rows)


def test_one_row_is_its_own_interval() -> None:
    rate = win_rate([[1.0, 1.0, 1.0, 0.0]])
    assert (rate.mean, rate.ci_low, rate.ci_high) == (0.75, 0.75, 0.75)


def test_the_mean_is_over_entries_and_not_over_rows() -> None:
    assert win_rate([[1.0] * 6, [0.0] * 2]).mean == 0.75


def test_rows_are_resampled_and_not_entries() -> None:
    # Two rows drawn twice are all won in one round of four and all lost in another: 95 % reach from 0 to 1.
    # Twelve entries drawn twelve times would hardly ever leave 0.2 to 0.8.
    rate = win_rate([[1.0] * 6, [0.0] * 6])
    assert (rate.mean, rate.ci_low, rate.ci_high) == (0.5, 0.0, 1.0)


ENTRY_LISTS = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=6)


@given(st.lists(ENTRY_LISTS, min_size=1, max_size=40), st.integers(0, 5))
def test_the_exact_mean_within_its_interval(rows: list[list[float]], seed: int) -> None:
    rate = win_rate(rows, seed=seed)
    entries = [entry for row in rows for entry in row]
    assert rate.mean == sum(entries) / len(entries)
    assert rate == win_rate(rows, seed=seed)
    assert 0 <= rate.ci_low <= rate.ci_high <= 1
    assert min(sum(row) / len(row) for row in rows) - 1e-12 <= rate.ci_low
    assert rate.ci_high <= max(sum(row) / len(row) for row in rows) + 1e-12


def slow_interval(rows: list[list[float]], rounds: int) -> tuple[float, float]:
    """The percentile bootstrap over rows, entry by entry, with another generator."""
    generator = random.Random(1)
    means = []
    for _ in range(rounds):
        entries = [entry for row in generator.choices(rows, k=len(rows)) for entry in row]
        means.append(sum(entries) / len(entries))
    means.sort()
    return means[round(0.025 * rounds)], means[round(0.975 * rounds)]


def test_the_interval_agrees_with_a_slow_one() -> None:
    generator = random.Random(0)
    rows = [row_entries(*generator.choices(ARENA_LABELS, weights=(1, 4, 3, 6, 2), k=2)) for _ in range(120)]
    rate = win_rate(rows, rounds=5000)
    low, high = slow_interval(rows, 5000)
    assert rate.ci_low == pytest.approx(low, abs=0.01)
    assert rate.ci_high == pytest.approx(high, abs=0.01)
    assert rate.ci_low < rate.mean < rate.ci_high


def test_seed_and_rounds_matter() -> None:
    rows = [[1.0, 0.5], [0.0, 0.5], [0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.5, 1.0]] * 8
    rates = [win_rate(rows), win_rate(rows, seed=1), win_rate(rows, rounds=10)]
    assert len({(rate.ci_low, rate.ci_high) for rate in rates}) == 3
    assert len({rate.mean for rate in rates}) == 1
