"""One run against the reference: the difference, its tests, the flips, the categories, the rows that changed most.

Differences and their intervals as lines on one scale: where each begins and ends, as places on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from judgegym.reports.compare.comparison import (
    CategoryDifference,
    ChangedRow,
    ComparisonSettings,
    Difference,
    Estimate,
    JudgesAgreement,
    TestResult,
    Transition,
)
from judgegym.reports.compare.gold import best_agreement, label_agreement
from judgegym.reports.compare.outcomes import OUTCOMES, Kind, outcomes
from judgegym.reports.compare.rows import CommonRows, Side
from judgegym.statistics.agreement import Interval, rank_correlation
from judgegym.statistics.paired import paired_intervals, quadratic_kappa, rows_needed, sign_test, wilcoxon_test

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64] | slice


_ALL = slice(None)


@dataclass(frozen=True, slots=True)
class PairEstimate:
    """The difference, and the intervals of both sides alone, from the same resamples."""

    difference: Estimate
    reference: Interval | None
    run: Interval | None


@dataclass(frozen=True, slots=True)
class Pair:
    """The reference and a run, over the same rows, and how to compare them."""

    rows: CommonRows
    reference: Side
    run: Side
    kind: Kind
    settings: ComparisonSettings

    def together(self, places: Places = _ALL) -> tuple[Side, Side]:
        """Return both sides of some rows, or of all: sums over those that depend on each other."""
        sides = [Side(side.totals[places], side.weights[places]) for side in (self.reference, self.run)]
        if self.rows.units is not None:
            import numpy as np

            units = np.unique(self.rows.units[places], return_inverse=True)[1]
            sides = [side.together(units) for side in sides]
        return sides[0], sides[1]

    def estimate(self, places: Places = _ALL) -> PairEstimate:
        """Return the difference over some rows, or over all."""
        reference, run = (side.shares() for side in self.together(places))
        value = run.ratio - reference.ratio
        settings = self.settings
        found = paired_intervals(reference, run, rounds=settings.rounds, seed=settings.seed, level=settings.level)
        if isinstance(found, str):
            return PairEstimate(Estimate(value, None, found), None, None)
        return PairEstimate(Estimate(value, found.difference), found.first, found.second)


def difference(pair: Pair, letter: str, whole: Estimate, *, most: int, with_agreement: bool) -> Difference:
    """Compare a run with the reference.

    Args:
        pair: both.
        letter: how tables call the run.
        whole: the difference over all rows.
        most: the number of rows that changed most to name; their questions are filled in later (`with_starts`).
        with_agreement: whether to say how far both judges agree.
    """
    import numpy as np

    before, after = pair.reference.values, pair.run.values
    changes = np.round(after - before, 12)
    units = pair.together()
    tests = [sign_test(units[0].values, units[1].values)]
    if tests[0].name != "mcnemar":  # of 0 and 1 all changes have one rank: signed ranks say what signs say
        tests.append(wilcoxon_test(units[0].values, units[1].values))
    needed = rows_needed(units[0].shares(), units[1].shares(), level=pair.settings.level)
    return Difference(
        letter=letter,
        difference=whole,
        higher=int((changes > 0).sum()),
        lower=int((changes < 0).sum()),
        same=int((changes == 0).sum()),
        tests=[TestResult(test, None) for test in tests],
        transitions=_transitions(pair.kind, before, after),
        settled=whole.interval is not None and not whole.interval.low <= 0 <= whole.interval.high,
        needed=needed,
        more=None if needed.rows is None else max(0, needed.rows - len(units[0].totals)),
        categories=_categories(pair),
        changed=_changed(pair.rows, before, after, changes, most),
        agreement=_agreement(pair, before, after) if with_agreement else None,
    )


def _transitions(kind: Kind, before: NDArray[np.float64], after: NDArray[np.float64]) -> list[Transition]:
    """All pairs of outcomes, also those that no row has; none for scores."""
    names = OUTCOMES[kind]
    if not names:
        return []
    first, second = outcomes(kind, before), outcomes(kind, after)
    return [
        Transition(one, other, int(((first == row) & (second == column)).sum()))
        for row, one in enumerate(names)
        for column, other in enumerate(names)
    ]


def _categories(pair: Pair) -> list[CategoryDifference]:
    import numpy as np

    places: dict[str | None, list[int]] = {}
    for place, category in enumerate(pair.rows.categories):
        places.setdefault(category, []).append(place)
    if len(places) < 2:
        return []
    found = []
    for name in sorted(places, key=lambda name: (name is None, name or "")):
        chosen = np.asarray(places[name])
        found.append(
            CategoryDifference(
                name=name,
                rows=len(chosen),
                reference=pair.reference.shares(chosen).ratio,
                run=pair.run.shares(chosen).ratio,
                difference=pair.estimate(chosen).difference,
            )
        )
    return found


def _changed(
    rows: CommonRows,
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    changes: NDArray[np.float64],
    most: int,
) -> list[ChangedRow]:
    import numpy as np

    order = np.argsort(-np.abs(changes), kind="stable")[:most]
    return [
        ChangedRow(rows.uids[place], rows.categories[place], float(before[place]), float(after[place]), "")
        for place in order.tolist()
        if changes[place]
    ]


def _agreement(pair: Pair, before: NDArray[np.float64], after: NDArray[np.float64]) -> JudgesAgreement:
    kind, prompts = pair.kind, pair.rows.prompts
    if kind == "score":
        same = float((before.round(12) == after.round(12)).mean())
        kappa = quadratic_kappa(before, after)
    else:
        first, second = outcomes(kind, before), outcomes(kind, after)
        same = float((first == second).mean())
        kappa = _kappa(kind, first, second)
    correlation = rank_correlation(before, after)
    return JudgesAgreement(
        same=same,
        kappa=None if isinstance(kappa, str) else kappa,
        kappa_reason=kappa if isinstance(kappa, str) else "",
        correlation=None if isinstance(correlation, str) else correlation,
        correlation_reason=correlation if isinstance(correlation, str) else "",
        weighted=kind != "pass_rate",
        best=None if prompts is None else best_agreement(prompts, before, after),
        labels=label_agreement(pair.reference.labels, pair.run.labels),
    )


def _kappa(kind: Kind, first: NDArray[np.int64], second: NDArray[np.int64]) -> float | str:
    """Cohen's kappa of named outcomes; quadratic weights for three, which are ordered."""
    if len({*first.tolist(), *second.tolist()}) < 2:
        return "both give one and the same outcome to every row"
    from sklearn.metrics import cohen_kappa_score  # late: half a second

    weights = "quadratic" if kind == "win_rate" else None
    return float(cohen_kappa_score(first, second, labels=list(range(len(OUTCOMES[kind]))), weights=weights))


def with_starts(changed: Sequence[ChangedRow], starts: Mapping[str, str]) -> list[ChangedRow]:
    """The rows with the beginning of their questions."""
    return [ChangedRow(row.uid, row.category, row.before, row.after, starts.get(row.uid, "")) for row in changed]


WIDTH = 240
"""Of the whole scale, in pixels."""
_MARGIN = 8


@dataclass(frozen=True, slots=True)
class ForestLine:
    """A difference, in pixels from the left; without an interval `low` and `high` are the difference."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Forest:
    """The lines of several differences, and the place of 0."""

    zero: float
    lines: Sequence[ForestLine]


def forest(estimates: Sequence[Estimate]) -> Forest:
    """Place differences on a scale that holds all of them and 0."""
    ends = [(each.value, each.value) if each.interval is None else _bounds(each.interval) for each in estimates]
    values = [0.0, *(each.value for each in estimates), *(bound for bounds in ends for bound in bounds)]
    least, span = min(values), (max(values) - min(values)) or 1.0

    def place(value: float) -> float:
        return round(_MARGIN + (value - least) / span * (WIDTH - 2 * _MARGIN), 1)

    lines = [
        ForestLine(place(low), place(each.value), place(high))
        for (low, high), each in zip(ends, estimates, strict=True)
    ]
    return Forest(place(0.0), lines)


def _bounds(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high
