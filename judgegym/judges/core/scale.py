"""A scale of whole numbers, for prompts, parsers and rewards."""

from __future__ import annotations

from typing import NamedTuple


class Scale(NamedTuple):
    """From the lowest to the highest score, both included; the highest is the best.

    >>> Scale(1, 5).unit(4), Scale(1, 5).nearest(3.6)
    (0.75, 4)
    """

    low: int = 1
    high: int = 5

    @property
    def levels(self) -> range:
        """All scores of the scale, from lowest to highest."""
        return range(self.low, self.high + 1)

    @property
    def span(self) -> int:
        """The distance between the lowest and the highest score."""
        return self.high - self.low

    @property
    def sentence(self) -> str:
        """The scale as a prompt describes it."""
        return f"an integer between {self.low} and {self.high}"

    def unit(self, score: float) -> float:
        """A score as a number from 0 (the lowest) to 1 (the highest)."""
        return (score - self.low) / self.span

    def nearest(self, score: float) -> int:
        """The level nearest to a score that may lie between two levels; a score halfway is rounded up."""
        return max(self.low, min(self.high, int((score - self.low) + 0.5) + self.low))
