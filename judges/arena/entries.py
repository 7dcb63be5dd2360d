"""Arena-Hard's arithmetic: the labels of two games to a row's entries, reward and outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from judges.parsing.verdicts import ArenaLabel

ArenaProtocol = Literal["three_way", "arena_hard_v0.1"]
Outcome = Literal["win", "tie", "loss"]

STRONG_WEIGHT: dict[ArenaProtocol, int] = {"three_way": 1, "arena_hard_v0.1": 3}
"""How often a strong win or loss (`>>`) counts."""

# (value for A, whether it is strong)
_VALUES: dict[str, tuple[float, bool]] = {
    "A>>B": (1.0, True),
    "A>B": (1.0, False),
    "A=B": (0.5, False),
    "B>A": (0.0, False),
    "B>>A": (0.0, True),
}


def game_entries(label: str, *, model_is_a: bool, strong_weight: int) -> list[float]:
    """One game's entries from the model's side: 1 won, 0.5 tied, 0 lost; a strong label `strong_weight` times.

    Raises:
        ValueError: `label` is not one of the five canonical labels.
    """
    if label not in _VALUES:
        raise ValueError(f"{label!r} is not an Arena-Hard label; expected one of {', '.join(_VALUES)}")
    value, strong = _VALUES[label]
    return [value if model_is_a else 1.0 - value] * (strong_weight if strong else 1)


def row_entries(game_1: ArenaLabel, game_2: ArenaLabel, *, strong_weight: int = 3) -> list[float]:
    """A row's entries from the model's side.

    Args:
        game_1: the label of the game with the model as A.
        game_2: the label of the game with the model as B.
        strong_weight: how often a strong win or loss counts; 3 in `arena_hard_v0.1`.

    Returns:
        2 to 6 numbers of 1 (won), 0.5 (tied), 0 (lost), those of game 1 first.

    Raises:
        ValueError: a label is not canonical.

    Source:
        lmarena/arena-hard-auto v0.1, the weighting of its results.
    """
    first = game_entries(game_1, model_is_a=True, strong_weight=strong_weight)
    return first + game_entries(game_2, model_is_a=False, strong_weight=strong_weight)


def row_reward(entries: Sequence[float]) -> float:
    """The mean of a row's entries, mapped from 0…1 to −1…1.

    >>> row_reward(row_entries("A>>B", "A>B"))
    0.5
    """
    return 2.0 * sum(entries) / len(entries) - 1.0


def row_outcome(game_1: ArenaLabel, game_2: ArenaLabel) -> Outcome:
    """`win` if the model won both games, `loss` if it lost both, else `tie`.

    Source:
        Zheng et al., Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena (2023), section 3.4: a verdict that the
        other order does not confirm is a tie.
    """
    first, second = row_entries(game_1, game_2, strong_weight=1)
    if first == second:
        return {1.0: "win", 0.5: "tie", 0.0: "loss"}[first]  # type: ignore[return-value]  # a dict's values widen
    return "tie"
