"""Test of a cascade's promise: how often its judges differ where the cheap one decides.

Source: Clopper and Pearson (1934).
"""

from __future__ import annotations

import math

_TIMES = (2.0, 4.0, 8.0, 16.0)
"""Times the odds of the promise that are bet on."""
_MOST_EVIDENCE = 50.0
"""As a logarithm."""


def upper_bound(events: int, rows: int, *, level: float) -> float:
    """Return the exact one-sided upper bound of a share, at this level of confidence.

    Raises:
        ValueError: there are more events than rows, or no row.
    """
    from scipy import stats  # late, as everywhere in this package

    if not 0 <= events <= rows or not rows:
        raise ValueError(f"{events} events in {rows} rows")
    if events == rows:
        return 1.0
    return float(stats.beta.ppf(level, events + 1, rows - events))


def promise_evidence(rows: int, differ: int, *, harm: float, recheck: float) -> float:
    """Return the evidence that a promise is broken.

    It reaches 200 in at most 1 of 200 runs in which the promise holds.

    It may be checked after every row: it is the value of a bet that grows only if more than `harm ·
    recheck` of the rows differ, mixed over how many times as many there are (Ville's inequality).

    Args:
        rows: number of rows so far.
        differ: number of rows that the cheap judge decides, that the strong one was shown, too, and
            on which the two differ.
        harm: the promise, as a share of all rows.
        recheck: the share of the rows that both judges are shown, whatever their verdicts.
    """
    bets = [
        differ * math.log(times) - rows * math.log1p((times - 1.0) * harm * recheck)
        for times in _TIMES
    ]
    return sum(math.exp(min(bet, _MOST_EVIDENCE)) for bet in bets) / len(bets)
