"""The threshold of a cascade from two recorded runs, for a promise that holds with certainty.

The threshold is chosen on a seeded half of the rows (`choose_threshold`); what it does is reported on the other half,
which it has not seen. A row is harmed if the cheap judge decides it and, with labels, is wrong where the strong one is
right; without labels, if its verdict differs from the strong one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from judgegym.judges.core.seeding import derive
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.statistics.cascades import CascadeThreshold, choose_threshold, rows_for, upper_bound
from judgegym.validation.replay.candidates import cascade, kept_rows, rows_of
from judgegym.validation.replay.table import JudgedTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHOWN = 10
"""Thresholds in the table."""


@dataclass(frozen=True)
class CascadeOutcome:
    """What a cascade with some threshold does to some rows.

    Attributes:
        rows: how many they are; rows that a cascade decides together count as one for what is harmed.
        escalated: the share that the strong judge decides.
        agreement: with the strong judge.
        accuracy: against the labels; `None` without labels.
        harmed: how many are harmed.
        harmed_at_most: the upper bound of their share.
        cost: mean of a row.
    """

    rows: int
    escalated: float
    agreement: float
    accuracy: float | None
    harmed: int
    harmed_at_most: float
    cost: float


@dataclass(frozen=True)
class CascadeTrial:
    """A cheap and a strong judge on the same rows.

    Attributes:
        table: the rows, each with a score of the strong judge; the cheap judge is the first member.
        rule: what the cheap judge's confidence is.
        harm: the most harmed rows, as a share.
        certainty: of the promise.
        seed: of the halves.
    """

    table: JudgedTable
    rule: str
    harm: float
    certainty: float
    seed: int

    @cached_property
    def harms(self) -> NDArray[np.bool_]:
        """Whether it harms if the cheap judge decides a row."""
        cheap, strong = (self.table.of(name) for name in self.table.names)
        labels = self.table.labels
        if labels is None:
            return self.table.agreement(cheap, strong) < 1.0
        return self.table.agreement(strong, labels) > self.table.agreement(cheap, labels)

    @cached_property
    def halves(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The rows on which the threshold is chosen, and the others."""
        import numpy as np

        first = np.unique(self.table.units, return_index=True)[1]
        names = [self.table.uids[place] for place in first]
        is_first = np.array([derive(self.seed, name, "half") < 2**63 for name in names])[self.table.units]
        return is_first, ~is_first

    def choose(self) -> CascadeThreshold | str:
        """Choose the threshold on its half; or say why there is none."""
        import numpy as np

        half, harms = rows_of(self.table, self.halves[0]), self.harms[self.halves[0]]
        units, first, of = np.unique(half.units, return_index=True, return_inverse=True)
        is_harm = np.zeros(len(units), dtype=bool)
        np.logical_or.at(is_harm, of, harms)
        needed = rows_for(self.harm, level=self.certainty)
        if len(units) < needed:
            return (
                f"not enough rows: {len(np.unique(self.table.units))}, of which {len(units)} are to choose on; "
                f"to promise {self.harm:.1%} with {self.certainty:.0%} certainty takes {needed}, so {2 * needed} in all"
            )
        confidences = half.confidences[half.names[0]][self.rule][first].tolist()
        numbers = half.numbers[first].tolist()
        return choose_threshold(confidences, is_harm.tolist(), numbers, harm=self.harm, level=self.certainty)

    def settings(self, chosen: CascadeThreshold) -> CascadeSettings:
        """The settings of the cascade with a threshold; a cheap judge without a score never decides in use."""
        is_all = chosen.confidence < 0.0
        values: Mapping[str, object] = {
            "cascade_confidence": self.rule,
            "cascade_threshold": 0.0 if is_all else chosen.confidence,
            "cascade_share": 1.0 if is_all else chosen.share_at,
            "cascade_harm": self.harm,
        }
        return CascadeSettings.model_validate(values)

    def outcome(self, settings: CascadeSettings, rows: NDArray[np.bool_] | None = None) -> CascadeOutcome:
        """What a cascade does to some rows; by default to all."""
        import numpy as np

        chosen = np.ones(len(self.harms), dtype=bool) if rows is None else rows
        table = rows_of(self.table, chosen)
        pair = (table.names[0], table.names[1])
        found = cascade(table, pair, settings, table.of(pair[1]))
        is_kept = kept_rows(table, pair[0], settings)
        harmed, count = len(np.unique(table.units[is_kept & self.harms[chosen]])), len(np.unique(table.units))
        return CascadeOutcome(
            rows=len(table.uids),
            escalated=found.escalated or 0.0,
            agreement=found.value,
            accuracy=None if table.labels is None else cascade(table, pair, settings, table.labels).value,
            harmed=harmed,
            harmed_at_most=upper_bound(harmed, count, level=self.certainty) if count else 1.0,
            cost=found.cost,
        )

    def outcomes(self) -> Iterator[tuple[float, CascadeOutcome]]:
        """Some ten thresholds, the highest first, with what each does to all rows."""
        import numpy as np

        confidences = self.table.confidences[self.table.names[0]][self.rule]
        levels = np.quantile(confidences, [step / _SHOWN for step in range(_SHOWN)], method="lower")
        for level in sorted({max(0.0, float(each)) for each in levels}, reverse=True):
            settings = CascadeSettings.model_validate({"cascade_confidence": self.rule, "cascade_threshold": level})
            yield level, self.outcome(settings)
