import pytest

from judgegym.judges.arena import Game, GameOrder, row_result
from judgegym.judges.parsing.labels import ARENA_LABELS, ArenaLabel

# The model's entries (W 1, T 0.5, L 0) for every pair of labels: the row is game 1 (the model is
# A), the column game 2 (the model is B).
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


def cells(table: str) -> list[tuple[str, str, str]]:
    header, *rows = [line.split() for line in table.strip().splitlines()]
    return [
        (row[0], label, cell) for row in rows for label, cell in zip(header, row[1:], strict=True)
    ]


@pytest.mark.parametrize(("game_1", "game_2", "expected"), cells(ENTRIES))
def test_entries(game_1: ArenaLabel, game_2: ArenaLabel, expected: str) -> None:
    entries = row_result(game_1, game_2).entries
    assert entries == tuple(VALUES[letter] for letter in expected)
    assert 2 <= len(entries) <= 6


@pytest.mark.parametrize(("game_1", "game_2", "expected"), cells(ENTRIES))
def test_a_strong_verdict_may_count_once(
    game_1: ArenaLabel, game_2: ArenaLabel, expected: str
) -> None:
    result = row_result(game_1, game_2, strong_weight=1)
    assert result.entries == (VALUES[expected[0]], VALUES[expected[-1]])


@pytest.mark.parametrize(("game_1", "game_2", "expected"), cells(OUTCOMES))
def test_outcome(game_1: ArenaLabel, game_2: ArenaLabel, expected: str) -> None:
    assert row_result(game_1, game_2).outcome == expected


@pytest.mark.parametrize("label", ["", "A", "B<A", "a>b", "[[A>B]]", "A>>>B", "tie"])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_no_label_is_an_error(label: str, place: int) -> None:
    labels = ["A=B", "A=B"]
    labels[place] = label
    with pytest.raises(ValueError, match="A>>B, A>B, A=B, B>A, B>>A"):
        row_result(*labels)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["model_is_a", "model_is_b"])
@pytest.mark.parametrize("label", ARENA_LABELS)
def test_points_of_a_game_are_those_of_its_entries(label: ArenaLabel, order: GameOrder) -> None:
    pair: tuple[ArenaLabel, ArenaLabel] = (
        (label, "A=B") if order == "model_is_a" else ("A=B", label)
    )
    entries = row_result(*pair, strong_weight=1).entries
    assert Game(order, label, "").points == entries[0 if order == "model_is_a" else 1]
    assert Game(order, None, "").points is None
