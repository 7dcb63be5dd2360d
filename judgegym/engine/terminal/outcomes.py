"""Which of its metrics an environment shows beside the headline: declared, so that nothing is guessed from names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Unit = Literal["share", "number", "count"]

COMPLETION_FAULTS = {
    "truncated_response_rate": "cut off",
    "refused_response_rate": "refused",
    "empty_response_rate": "empty",
    "short_response_rate": "short",
}
"""Rates of what may be wrong with a policy's answer, in every environment, and what it is called."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A line of the table that a command prints.

    Attributes:
        words: what the line is about.
        metrics: the short names of its metrics, each with its label; the label of a single one may be empty.
        unit: how its values are shown: a share as a percentage.
        is_fault: it counts something that went wrong, and is shown only above 0.
    """

    words: str
    metrics: Mapping[str, str]
    unit: Unit = "share"
    is_fault: bool = False

    @classmethod
    def of(cls, words: str, metric: str, *, unit: Unit = "share", is_fault: bool = False) -> Outcome:
        """Make a line of one metric."""
        return cls(words, {metric: ""}, unit, is_fault)
