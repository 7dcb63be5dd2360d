"""The outcome of a row, read from its value: won, tied or lost against a baseline, 1 or 0, or a score on a scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["win_rate", "pass_rate", "score"]

OUTCOMES: Mapping[Kind, Sequence[str]] = {"win_rate": ("lost", "tied", "won"), "pass_rate": ("0", "1"), "score": ()}
"""The names of the outcomes from the worst to the best; scores have too many to name."""


def kind_of(metric: str, words: str, sides: Sequence[NDArray[np.float64]]) -> Kind:
    """What the values of the rows are.

    A win rate is called so by its label or its name; a pass rate has no values but 0 and 1; all else are scores.
    """
    import numpy as np

    name = f"{words} {metric}".lower().replace("_", " ").replace("-", " ")
    if "win rate" in name or "winrate" in name:
        return "win_rate"
    return "pass_rate" if all(np.isin(side, (0.0, 1.0)).all() for side in sides) else "score"


def outcomes(kind: Kind, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The outcome of each row, as a place in `OUTCOMES[kind]`; a win rate above one half is won, below it lost."""
    import numpy as np

    if kind == "win_rate":
        return np.sign(np.round(values - 0.5, 12)).astype(np.int64) + 1
    if kind == "pass_rate":
        return values.astype(np.int64)
    raise ValueError("scores have no outcomes")
