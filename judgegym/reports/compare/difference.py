"""One run against the reference: the difference, its tests, the flips, the categories, the rows that changed most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judgegym.reports.compare.rows import CommonRows
from judgegym.reports.results.run import Kind
from judgegym.statistics.agreement import correlation, quadratic_kappa
from judgegym.statistics.intervals import Ends
from judgegym.statistics.paired import (
    PairedIntervals,
    RatioTerms,
    paired_intervals,
    rows_needed,
    sign_test,
    wilcoxon_test,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OUTCOMES: Mapping[Kind, Sequence[str]] = {
    "win_rate": ("lost", "tied", "won"),
    "pass_rate": ("0", "1"),
    "score": (),
}
"""The names of the outcomes from the worst to the best; scores have too many to name."""
_MOST_LABELS = 12
_SAME = 12
"""Decimal places to which two values are the same."""


Estimate = tuple[dict[str, Any], PairedIntervals | None]
"""A difference with its interval, or the reason for none, as JSON has it; then the intervals."""


def estimate(
    reference: RatioTerms, run: RatioTerms, level: float, ends: Ends | None = None
) -> Estimate:
    """Estimate the difference run − reference over the same rows; `ends`: of the scale of their values, if known."""
    value = run.ratio - reference.ratio
    found = paired_intervals(reference, run, ends=ends, level=level)
    if isinstance(found, str):
        return {"value": value, "interval": None, "reason": found}, None
    return {"value": value, "interval": found.difference, "reason": ""}, found


class Pair:
    """The reference and another run, over the rows that are compared.

    Attributes:
        intervals: those of the results of the reference and of the run, and of their difference;
            `None` with one row.
    """

    def __init__(
        self, rows: CommonRows, place: int, kind: Kind, level: float, ends: Ends | None
    ) -> None:
        """Pair the reference with the run at a place among the runs; `ends`: of the scale of values, if known."""
        self._rows, self._place, self._kind, self._level, self._ends = (
            rows,
            place,
            kind,
            level,
            ends,
        )
        self._sides = rows.sides[0], rows.sides[place]
        self._before, self._after = (side.values for side in self._sides)
        self._whole, self.intervals = estimate(*self._together(), level, ends)

    def _together(
        self, places: NDArray[np.int64] | slice = slice(None)
    ) -> tuple[RatioTerms, RatioTerms]:
        """Both sides of some rows, or of all: sums over those that depend on each other."""
        first, second = (side.at(places) for side in self._sides)
        if self._rows.units is None:
            return first, second
        import numpy as np

        units = np.unique(self._rows.units[places], return_inverse=True)[1]
        return first.summed(units), second.summed(units)

    def difference(self, letter: str, *, most: int, with_agreement: bool) -> dict[str, Any]:
        """Compare the run with the reference.

        Args:
            letter: how tables call the run.
            most: the number of rows that changed most to name; their questions are filled in later.
            with_agreement: whether to say how far both judges agree.
        """
        import numpy as np

        changes = np.round(self._after - self._before, _SAME)
        units = self._together()
        values = [side.values for side in units]
        tests = [sign_test(*values)]
        if (
            tests[0].name != "mcnemar"
        ):  # of 0 and 1 all changes have one rank: signed ranks say what signs say
            tests.append(wilcoxon_test(*values))
        needed = rows_needed(*units, level=self._level)
        return {
            "letter": letter,
            "difference": self._whole,
            "higher": int((changes > 0).sum()),
            "lower": int((changes < 0).sum()),
            "same": int((changes == 0).sum()),
            "tests": [{"test": test, "corrected": None} for test in tests],
            "transitions": self._transitions(),
            "p": None if self.intervals is None else self.intervals.p,
            "p_corrected": None,
            "settled": self.intervals is not None and self.intervals.p < 1 - self._level,
            "needed": needed,
            "more": None if needed.rows is None else max(0, needed.rows - len(values[0])),
            "categories": self._categories(),
            "changed": self._changed(changes, most),
            "agreement": self._agreement() if with_agreement else None,
        }

    def _outcomes(self) -> list[NDArray[np.float64]]:
        """The outcome of each row on both sides, as a place in `OUTCOMES`; a win rate above one half is won.

        Scores are their own outcomes.
        """
        import numpy as np

        if self._kind == "win_rate":
            return [
                np.sign(np.round(values - 0.5, _SAME)) + 1 for values in (self._before, self._after)
            ]
        return [np.round(values, _SAME) for values in (self._before, self._after)]

    def _transitions(self) -> list[dict[str, Any]]:
        """All pairs of outcomes, also those that no row has; none for scores."""
        names = OUTCOMES[self._kind]
        first, second = self._outcomes()
        return [
            {
                "before": one,
                "after": other,
                "rows": int(((first == row) & (second == column)).sum()),
            }
            for row, one in enumerate(names)
            for column, other in enumerate(names)
        ]

    def _categories(self) -> list[dict[str, Any]]:
        import numpy as np

        places: dict[str | None, list[int]] = {}
        for place, category in enumerate(self._rows.categories):
            places.setdefault(category, []).append(place)
        found = []
        for name in (
            sorted(places, key=lambda name: (name is None, name or "")) if len(places) > 1 else []
        ):
            chosen = np.asarray(places[name])
            before, after = (side.at(chosen).ratio for side in self._sides)
            difference = estimate(*self._together(chosen), self._level, self._ends)[0]
            found.append(
                {
                    "name": name,
                    "rows": len(chosen),
                    "reference": before,
                    "run": after,
                    "difference": difference,
                }
            )
        return found

    def _changed(self, changes: NDArray[np.float64], most: int) -> list[dict[str, Any]]:
        import numpy as np

        return [
            {
                "uid": self._rows.uids[place],
                "category": self._rows.categories[place],
                "before": float(self._before[place]),
                "after": float(self._after[place]),
                "start": "",
            }
            for place in np.argsort(-np.abs(changes), kind="stable")[:most]
            if changes[place]
        ]

    def _agreement(self) -> dict[str, Any]:
        """How far the two judges agree; what is not defined is `None`, with the reason."""
        first, second = self._outcomes()
        kappa = quadratic_kappa(first, second)  # of 0 and 1 it is kappa without weights
        ranks = correlation("spearman", self._before, self._after)
        prompts, labels_of = self._rows.prompts, self._rows.labels
        return {
            "same": float((first == second).mean()),
            "kappa": None if isinstance(kappa, str) else kappa,
            "kappa_reason": kappa if isinstance(kappa, str) else "",
            "correlation": None if isinstance(ranks, str) else ranks,
            "correlation_reason": ranks if isinstance(ranks, str) else "",
            "weighted": self._kind != "pass_rate",
            "best": None if prompts is None else best_agreement(prompts, self._before, self._after),
            "labels": label_agreement(labels_of[0], labels_of[self._place])
            if self._rows.is_scored
            else None,
        }


def best_agreement(
    prompts: NDArray[np.int64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> dict[str, Any] | None:
    """For how many prompts both judges give the highest score to the same responses, and to one at least.

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
    for places in np.split(order, np.flatnonzero(np.diff(prompts[order])) + 1):
        if len(places) > 1:
            first, second = (np.round(side[places], _SAME) for side in (before, after))
            one, other = first == first.max(), second == second.max()
            count += 1
            same += bool((one == other).all())
            overlapping += bool((one & other).any())
    return (
        {"prompts": count, "same": same / count, "overlapping": overlapping / count}
        if count
        else None
    )


def label_agreement(
    before: Sequence[str | None], after: Sequence[str | None]
) -> dict[str, Any] | None:
    """How far the labels agree; `None` if there are many, or if the judges have none in common."""
    pairs = [
        (one, other)
        for one, other in zip(before, after, strict=True)
        if one is not None and other is not None
    ]
    first, second = {one for one, _ in pairs}, {other for _, other in pairs}
    if not first & second or not 1 < len(first | second) <= _MOST_LABELS:
        return None
    from sklearn.metrics import cohen_kappa_score  # late: half a second

    kappa = float(cohen_kappa_score([one for one, _ in pairs], [other for _, other in pairs]))
    same = sum(one == other for one, other in pairs) / len(pairs)
    return {"rows": len(pairs), "labels": sorted(first | second), "same": same, "kappa": kappa}
