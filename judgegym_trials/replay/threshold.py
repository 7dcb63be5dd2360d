"""Threshold of a cascade: a cheap judge decides if it is sure enough, a strong judge otherwise.

Guarantee: the share of all rows on which the cascade harms (the cheap judge decides, and is wrong
where the strong one is right; without labels: differs from it) is at most the promised one, with
the stated certainty, for rows of the same population. Thresholds are tried from "escalate all"
downwards, each with an exact bound, until one fails. A fixed sequence needs no correction for the
number of thresholds; choosing the best of all thresholds afterwards would break the promise.

Source: fixed-sequence testing: Angelopoulos et al., Learn then Test (2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from judgegym.statistics import percent
from judgegym.statistics.cascades import upper_bound

_STEPS = 20


@dataclass(frozen=True, slots=True)
class CascadeThreshold:
    """A chosen threshold, with its result on the sample.

    Attributes:
        confidence: the cheap judge decides rows with a higher confidence.
        share_at: the share of rows with exactly this confidence that it decides, chosen by seed
            and row.
        kept: the share of the sample's rows that the cheap judge decides.
        harmed: number of the sample's rows that are harmed.
        harmed_at_most: the upper bound of the share of harmed rows.
        rows: number of the sample's rows.
    """

    confidence: float
    share_at: float
    kept: float
    harmed: int
    harmed_at_most: float
    rows: int


def fewest_rows(harm: float, *, level: float) -> int:
    """Return the fewest rows that can certify a threshold.

    With none harmed, their bound is 1 − (1 − level)^(1/rows).
    """
    return math.ceil(math.log(1.0 - level) / math.log(1.0 - harm))


def choose_threshold(
    confidences: Sequence[float],
    harms: Sequence[bool],
    orders: Sequence[float],
    *,
    harm: float,
    level: float = 0.95,
) -> CascadeThreshold | str:
    """Choose the lowest threshold with a certified promise.

    Args:
        confidences: the cheap judge's confidence in each row of the sample.
        harms: whether each row is harmed if the cheap judge decides it.
        orders: a number from 0 to 1 for each row, by seed and row: among equal confidences lower
            ones are kept first.
        harm: maximum share of harmed rows among all rows.
        level: certainty of the promise.

    Returns:
        The threshold, or why none can be promised: too few rows, or the surest rows harm too much.

    Raises:
        ValueError: the sequences differ in length.
    """
    rows = sorted(zip(confidences, orders, harms, strict=True), key=lambda row: (-row[0], row[1]))
    needed = fewest_rows(harm, level=level)
    if len(rows) < needed:
        row_count = len(rows)
        promised = percent(harm)
        certainty = percent(level, 0)
        promise = f"to promise {promised} with {certainty} certainty"
        return f"not enough rows: {row_count}, and {promise} takes {needed}"
    threshold: CascadeThreshold | None = None
    for step in range(1, _STEPS + 1):
        count = round(len(rows) * step / _STEPS)
        harmed = sum(is_harm for _, _, is_harm in rows[:count])
        bound = upper_bound(harmed, len(rows), level=level)
        if bound > harm:
            break
        last = rows[count - 1][0]
        at = [place for place, (confidence, _, _) in enumerate(rows) if confidence == last]
        share = (count - at[0]) / len(at)
        threshold = CascadeThreshold(last, share, count / len(rows), harmed, bound, len(rows))
    if threshold is None:
        least, promise = percent(1 / _STEPS, 0), percent(harm)
        return (
            f"not even the surest {least} of the rows keeps the promise of {promise}: escalate all"
        )
    return threshold
