"""The headline metric by category: of each its sums are kept, and no sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample


@dataclass(frozen=True, slots=True)
class CategoryValue:
    """The headline metric of the rows of some categories, and how many rows these are."""

    value: float
    rows: int


class Categories:
    """Adds up what the rows add to the headline, by the category of the row."""

    def __init__(self) -> None:
        """Begin without a row."""
        self._shares: dict[str, HeadlineTerm] = {}
        self._rows: dict[str, int] = {}

    def add(self, sample: Sample[Any]) -> None:
        """Add a row, if it counts and has a category."""
        name, share = sample.category, sample.headline
        if name is not None and share is not None:
            before = self._shares.get(name, HeadlineTerm(0.0, 0.0))
            self._shares[name] = HeadlineTerm(before.total + share.total, before.weight + share.weight)
            self._rows[name] = self._rows.get(name, 0) + 1

    def __len__(self) -> int:
        """Return the number of categories."""
        return len(self._shares)

    def largest(self, most: int) -> tuple[Mapping[str, CategoryValue], CategoryValue | None]:
        """Return the categories with the most rows, and the others together, if there are further ones."""
        names = sorted(self._shares, key=lambda name: -self._rows[name])
        shown = {name: self._together([name]) for name in names[:most]}
        return shown, self._together(names[most:]) if names[most:] else None

    def _together(self, names: list[str]) -> CategoryValue:
        shares = [self._shares[name] for name in names]
        value = sum(share.total for share in shares) / sum(share.weight for share in shares)
        return CategoryValue(value, sum(self._rows[name] for name in names))
