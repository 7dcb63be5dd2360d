"""Drift test: has a judge changed since its first run on fixed rows?

If the judge is unchanged, the judgments of a row, earlier and new, are draws of one distribution,
and which of them are the new ones is exchangeable. So the statistic, the sum over rows of |mean of
the new − mean of the earlier|, is compared with its values for other choices of the new ones within
each row. The level of this permutation test holds for any noise of the judge; noise only costs
power.

Source: Fisher's permutation test, stratified by row; p-values as Phipson and Smyth, Permutation
P-values Should Never Be Zero (2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import median

FLIP = 0.1
"""A judgment has flipped if its score (0 to 1) differs from the earlier one by more than this."""
_ROUNDS = 9_999
_SEED = 0
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class DriftTest:
    """The test of one run.

    Attributes:
        rows: rows that were compared.
        flipped: number of rows whose median score differs from that of the earlier judgments by
            more than `FLIP`.
        expected: the number of rows that an unchanged judge would flip, by its own noise among the
            earlier judgments.
        p: the p-value of the hypothesis that the judge is unchanged.
    """

    rows: int
    flipped: int
    expected: float
    p: float


def drift_test(earlier: Sequence[Sequence[float]], new: Sequence[Sequence[float]]) -> DriftTest:
    """Compare new judgments with earlier ones.

    Args:
        earlier: for each row its scores in the first run, the same number for all rows, at least
            two.
        new: for each row its scores now, the same number for all rows, at least one.
    """
    import numpy as np  # imported late: --help does not need it

    size = len(new[0]) if new else 1
    flipped = sum(
        _differs(median(after), median(before)) for before, after in zip(earlier, new, strict=True)
    )
    expected = sum(_flip_rate(before, size) for before in earlier)
    # A row with equal judgments adds 0, whichever of them are new.
    active = [
        (*after, *before)
        for before, after in zip(earlier, new, strict=True)
        if len({*after, *before}) > 1
    ]
    if not active:
        return DriftTest(len(new), flipped, expected, 1.0)
    values = np.array(active)
    total, count = values.sum(axis=1), values.shape[1]
    # The first choice is the observed one.
    choices = [list(chosen) for chosen in combinations(range(count), size)]
    sums = np.stack([values[:, chosen].sum(axis=1) for chosen in choices], axis=1)
    differences = np.abs(sums / size - (total[:, None] - sums) / (count - size))
    seen = differences[:, 0].sum()
    drawn = np.random.default_rng(_SEED).integers(len(choices), size=(_ROUNDS, len(active)))
    statistics = differences[np.arange(len(active)), drawn].sum(axis=1)
    p = (1 + int((statistics >= seen - _ROUNDING).sum())) / (_ROUNDS + 1)
    return DriftTest(len(new), flipped, expected, p)


def _differs(first: float, second: float) -> bool:
    return abs(first - second) > FLIP + _ROUNDING  # one step of a scale from 0 to 10 is 0.1


def _flip_rate(earlier: Sequence[float], size: int) -> float:
    """Return how often the median of `size` draws of the earlier scores differs from theirs."""
    middle = median(earlier)
    draws = [median(chosen) for chosen in product(earlier, repeat=size)]
    return sum(_differs(drawn, middle) for drawn in draws) / len(draws)
