"""Compare one run with the reference: difference, tests, flips, categories, most changed rows."""

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
"""Names of the outcomes, from the worst to the best; scores have too many to name."""
_MOST_LABELS = 12
_DECIMALS = 12
"""Two values that agree to this many decimal places are equal."""


Estimate = tuple[dict[str, Any], PairedIntervals | None]
"""A difference with its interval or the reason for none, for JSON; and the intervals."""


def estimate_difference(
    reference: RatioTerms, run: RatioTerms, level: float, ends: Ends | None = None
) -> Estimate:
    """Estimate the difference run − reference over the same rows; `ends` are those of the scale."""
    value = run.ratio - reference.ratio
    intervals = paired_intervals(reference, run, ends=ends, level=level)
    if isinstance(intervals, str):
        return {"value": value, "interval": None, "reason": intervals}, None
    return {"value": value, "interval": intervals.difference, "reason": ""}, intervals


class Pair:
    """The reference and another run, over the compared rows.

    Attributes:
        intervals: the intervals of both results and of their difference; `None` with one row.
    """

    def __init__(
        self, rows: CommonRows, index: int, kind: Kind, level: float, ends: Ends | None
    ) -> None:
        """Pair the reference with another run.

        Args:
            rows: the compared rows.
            index: the index of the other run.
            kind: the kind of the rows' values.
            level: the level of intervals.
            ends: the ends of the scale of values; `None` if unknown.
        """
        self._rows = rows
        self._index = index
        self._kind = kind
        self._level = level
        self._ends = ends
        self._sides = rows.sides[0], rows.sides[index]
        self._before, self._after = (side.values for side in self._sides)
        self._whole, self.intervals = estimate_difference(*self.clustered_terms(), level, ends)

    def clustered_terms(
        self, places: NDArray[np.int64] | slice = slice(None)
    ) -> tuple[RatioTerms, RatioTerms]:
        """Return both sides of some rows, or of all; dependent rows are summed."""
        first, second = (side.select(places) for side in self._sides)
        if self._rows.units is None:
            return first, second
        import numpy as np

        units = np.unique(self._rows.units[places], return_inverse=True)[1]
        return first.sum_by_unit(units), second.sum_by_unit(units)

    def difference(self, letter: str, *, most: int, with_agreement: bool) -> dict[str, Any]:
        """Compare the run with the reference.

        Args:
            letter: the run's name in tables.
            most: the number of most changed rows to name; their questions are filled in later.
            with_agreement: whether to report the agreement of both judges.
        """
        import numpy as np

        changes = np.round(self._after - self._before, _DECIMALS)
        units = self.clustered_terms()
        values = [side.values for side in units]
        tests = [sign_test(*values)]
        if (
            tests[0].name != "mcnemar"
        ):  # changes of 0 and 1 all have one rank, so signed ranks would repeat the sign test
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
            "changed": self._list_changes(changes, most),
            "agreement": self._agreement() if with_agreement else None,
        }

    def _outcomes(self) -> list[NDArray[np.float64]]:
        """Return each row's outcome on both sides, as an index in `OUTCOMES`; above ½ is a win.

        Scores are their own outcomes.
        """
        import numpy as np

        if self._kind == "win_rate":
            return [
                np.sign(np.round(values - 0.5, _DECIMALS)) + 1
                for values in (self._before, self._after)
            ]
        return [np.round(values, _DECIMALS) for values in (self._before, self._after)]

    def _transitions(self) -> list[dict[str, Any]]:
        """Count the rows of all pairs of outcomes, including empty ones; none for scores."""
        names = OUTCOMES[self._kind]
        first, second = self._outcomes()
        transitions = []
        for row, before in enumerate(names):
            for column, after in enumerate(names):
                count = int(((first == row) & (second == column)).sum())
                transitions.append({"before": before, "after": after, "rows": count})
        return transitions

    def _categories(self) -> list[dict[str, Any]]:
        import numpy as np

        places: dict[str | None, list[int]] = {}
        for index, category in enumerate(self._rows.categories):
            places.setdefault(category, []).append(index)
        categories = []
        for name in (
            sorted(places, key=lambda name: (name is None, name or "")) if len(places) > 1 else []
        ):
            chosen = np.asarray(places[name])
            before, after = (side.select(chosen).ratio for side in self._sides)
            difference = estimate_difference(
                *self.clustered_terms(chosen), self._level, self._ends
            )[0]
            categories.append(
                {
                    "name": name,
                    "rows": len(chosen),
                    "reference": before,
                    "run": after,
                    "difference": difference,
                }
            )
        return categories

    def _list_changes(self, changes: NDArray[np.float64], most: int) -> list[dict[str, Any]]:
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
        """Return how far the two judges agree; undefined numbers are `None`, with the reason."""
        first, second = self._outcomes()
        kappa = quadratic_kappa(first, second)  # for 0 and 1 it equals unweighted kappa
        ranks = correlation("spearman", self._before, self._after)
        prompts, run_labels = self._rows.prompts, self._rows.labels
        labels = None
        if self._rows.is_scored:
            labels = label_agreement(run_labels[0], run_labels[self._index])
        kappa_value, kappa_reason = _split_reason(kappa)
        ranks_value, ranks_reason = _split_reason(ranks)
        return {
            "same": float((first == second).mean()),
            "kappa": kappa_value,
            "kappa_reason": kappa_reason,
            "correlation": ranks_value,
            "correlation_reason": ranks_reason,
            "weighted": self._kind != "pass_rate",
            "best": None if prompts is None else best_agreement(prompts, self._before, self._after),
            "labels": labels,
        }


def _split_reason(value: float | str) -> tuple[float | None, str]:
    """Return a number and an empty reason, or `None` and why there is no number."""
    if isinstance(value, str):
        return None, value
    return value, ""


def best_agreement(
    prompts: NDArray[np.int64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> dict[str, Any] | None:
    """Compare the best responses of each prompt: all the same, or at least one in common.

    Args:
        prompts: for each response the number of its prompt.
        before: the scores of one judge.
        after: the scores of the other judge.

    Returns:
        The shares of prompts; `None` if no prompt has several compared responses.
    """
    import numpy as np

    order = np.argsort(prompts, kind="stable")
    same = overlapping = count = 0
    for places in np.split(order, np.flatnonzero(np.diff(prompts[order])) + 1):
        if len(places) > 1:
            first, second = (np.round(side[places], _DECIMALS) for side in (before, after))
            best_before = first == first.max()
            best_after = second == second.max()
            count += 1
            same += bool((best_before == best_after).all())
            overlapping += bool((best_before & best_after).any())
    if count:
        return {"prompts": count, "same": same / count, "overlapping": overlapping / count}
    return None


def label_agreement(
    before: Sequence[str | None], after: Sequence[str | None]
) -> dict[str, Any] | None:
    """Return how far the labels agree; `None` if there are too many, or none in common."""
    pairs = list[tuple[str, str]]()
    for left, right in zip(before, after, strict=True):
        if left is not None and right is not None:
            pairs.append((left, right))
    first, second = {left for left, _ in pairs}, {right for _, right in pairs}
    if not first & second or not 1 < len(first | second) <= _MOST_LABELS:
        return None
    from sklearn.metrics import cohen_kappa_score  # late: half a second

    kappa = float(cohen_kappa_score([left for left, _ in pairs], [right for _, right in pairs]))
    same = sum(left == right for left, right in pairs) / len(pairs)
    return {"rows": len(pairs), "labels": sorted(first | second), "same": same, "kappa": kappa}
