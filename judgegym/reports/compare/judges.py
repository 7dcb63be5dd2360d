"""How far two judges of the same responses agree, beyond their scores: the best response of a prompt, and the labels.

Cohen's kappa: Cohen, A coefficient of agreement for nominal scales (1960), as scikit-learn computes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from judgegym.reports.compare.comparison import BestAgreement, LabelAgreement

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_LABELS = 12
_SAME_SCORE = 12
"""Decimal places to which two scores are the same."""


def best_agreement(
    prompts: NDArray[np.int64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> BestAgreement | None:
    """For how many prompts both judges give the highest score to the same responses.

    Args:
        prompts: for each response the number of its prompt.
        before: the scores of one judge.
        after: those of the other.

    Returns:
        `None` if no prompt has several responses that were compared.
    """
    import numpy as np

    order = np.argsort(prompts, kind="stable")
    same = overlapping = count = 0
    for places in _runs(prompts[order], order):
        if len(places) < 2:
            continue
        count += 1
        first, second = (np.round(side[places], _SAME_SCORE) for side in (before, after))
        bests = [frozenset(np.flatnonzero(side == side.max()).tolist()) for side in (first, second)]
        same += bests[0] == bests[1]
        overlapping += bool(bests[0] & bests[1])
    return BestAgreement(count, same / count, overlapping / count) if count else None


def _runs(numbers: NDArray[np.int64], places: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The places of each number, of numbers in their order."""
    start = 0
    for _, equal in groupby(numbers.tolist()):
        end = start + sum(1 for _ in equal)
        yield places[start:end]
        start = end


def label_agreement(before: Sequence[str | None], after: Sequence[str | None]) -> LabelAgreement | None:
    """How far the labels agree; `None` if there are many, or if the judges have none in common."""
    pairs = [(one, other) for one, other in zip(before, after, strict=True) if one is not None and other is not None]
    first, second = {one for one, _ in pairs}, {other for _, other in pairs}
    if not first & second or not 1 < len(first | second) <= _MOST_LABELS:
        return None
    from sklearn.metrics import cohen_kappa_score  # late: half a second

    kappa = float(cohen_kappa_score([one for one, _ in pairs], [other for _, other in pairs]))
    same = sum(one == other for one, other in pairs) / len(pairs)
    return LabelAgreement(len(pairs), sorted(first | second), same, kappa)
