"""The mean of a group's rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence


def exact_mean(numbers: Sequence[float]) -> float:
    """The mean; of equal numbers it is exactly this number, so that rounding does not give the group a signal."""
    return numbers[0] if len(set(numbers)) == 1 else math.fsum(numbers) / len(numbers)
