"""Pairs in which the chosen response is longer as often as it is shorter.

Judges prefer long answers, and a policy that is trained on pairs learns that preference first. So of the pairs whose
chosen response is longer, and of those whose it is shorter, as many are kept as there are of the rarer kind; which
ones, is drawn by the seed. Pairs of equal length are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lengths:
    """How the lengths of pairs differ.

    Attributes:
        pairs: how many there are.
        longer: in how many the chosen response is longer.
        shorter: in how many it is shorter.
        total: by how many characters the chosen ones are longer together.
    """

    pairs: int = 0
    longer: int = 0
    shorter: int = 0
    total: int = 0

    @property
    def share(self) -> float | None:
        """In which share of the pairs of different length the chosen one is longer; `None` without such pairs."""
        different = self.longer + self.shorter
        return self.longer / different if different else None

    @property
    def mean(self) -> float:
        """By how many characters the chosen one is longer in the mean."""
        return self.total / self.pairs if self.pairs else 0.0

    @property
    def words(self) -> str:
        """Both in words."""
        share = "none" if self.share is None else f"{self.share * 100:.1f} %"
        return f"longer in {share} of those that differ, mean {self.mean:+,.1f} characters"


def lengths_of(differences: Sequence[int]) -> Lengths:
    """Count pairs by the length of the chosen response less that of the rejected one."""
    longer, shorter = sum(each > 0 for each in differences), sum(each < 0 for each in differences)
    return Lengths(len(differences), longer, shorter, sum(differences))


def balanced(differences: Sequence[int], lots: Sequence[int], *, limit: int | None = None) -> array[int]:
    """The places of the pairs that are kept, in their order.

    Args:
        differences: by how many characters the chosen response of each pair is longer.
        lots: what each pair has drawn; the least are kept.
        limit: at most so many.
    """
    longer, shorter, equal = (
        sorted((place for place, each in enumerate(differences) if kind(each)), key=lots.__getitem__)
        for kind in ((0).__lt__, (0).__gt__, (0).__eq__)
    )
    each, same = min(len(longer), len(shorter)), len(equal)
    if limit is not None and 2 * each + same > limit:
        each = each * limit // (2 * each + same)
        same = min(same, limit - 2 * each)
    return array("q", sorted([*longer[:each], *shorter[:each], *equal[:same]]))


def drawn(lots: Sequence[int], limit: int) -> array[int]:
    """The places of `limit` pairs that are drawn, in their order."""
    return array("q", sorted(sorted(range(len(lots)), key=lots.__getitem__)[:limit]))
