"""One run against the reference: the difference, its tests, the flips, the categories, the rows that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from judgegym.reports.compare.comparison import (
    OUTCOMES,
    BestAgreement,
    CategoryDifference,
    ChangedRow,
    ComparisonSettings,
    Difference,
    Estimate,
    JudgesAgreement,
    Kind,
    LabelAgreement,
    TestResult,
    Transition,
    letter_of,
)
from judgegym.reports.compare.rows import CommonRows
from judgegym.statistics.agreement import Interval, rank_correlation
from judgegym.statistics.paired import (
    RatioTerms,
    paired_intervals,
    quadratic_kappa,
    rows_needed,
    sign_test,
    wilcoxon_test,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64] | slice

_ALL = slice(None)
_MOST_LABELS = 12
_SAME_SCORE = 12
"""Decimal places to which two scores are the same."""


def kind_of(metric: str, words: str, sides: Sequence[RatioTerms]) -> Kind:
    """What the values of the rows are.

    A win rate is called so by its label or its name; a pass rate has no values but 0 and 1; all else are scores.
    """
    import numpy as np

    name = f"{words} {metric}".lower().replace("_", " ").replace("-", " ")
    if "win rate" in name or "winrate" in name:
        return "win_rate"
    return "pass_rate" if all(np.isin(side.values, (0.0, 1.0)).all() for side in sides) else "score"


def _outcomes(kind: Kind, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The outcome of each row, as a place in `OUTCOMES[kind]`; a win rate above one half is won, below it lost."""
    import numpy as np

    return np.sign(np.round(values - 0.5, 12)).astype(np.int64) + 1 if kind == "win_rate" else values.astype(np.int64)


@dataclass(frozen=True, slots=True)
class PairEstimate:
    """The difference, and the intervals of both sides alone, from the same resamples."""

    difference: Estimate
    reference: Interval | None
    run: Interval | None

    @classmethod
    def of(cls, reference: RatioTerms, run: RatioTerms, settings: ComparisonSettings) -> PairEstimate:
        """Estimate the difference run − reference over the same rows."""
        value = run.ratio - reference.ratio
        found = paired_intervals(reference, run, rounds=settings.rounds, seed=settings.seed, level=settings.level)
        if isinstance(found, str):
            return cls(Estimate(value, None, found), None, None)
        return cls(Estimate(value, found.difference), found.first, found.second)


@dataclass(frozen=True, slots=True)
class Pair:
    """The reference and the run at a place among the runs, over the same rows, and how to compare them."""

    rows: CommonRows
    place: int
    kind: Kind
    settings: ComparisonSettings

    @property
    def reference(self) -> RatioTerms:
        """Return the terms of the reference."""
        return self.rows.sides[0]

    @property
    def run(self) -> RatioTerms:
        """Return the terms of the run."""
        return self.rows.sides[self.place]

    def together(self, places: Places = _ALL) -> list[RatioTerms]:
        """Return both sides of some rows, or of all: sums over those that depend on each other."""
        sides = [side.at(places) for side in (self.reference, self.run)]
        if self.rows.units is None:
            return sides
        import numpy as np

        units = np.unique(self.rows.units[places], return_inverse=True)[1]
        return [side.summed(units) for side in sides]

    def estimate(self, places: Places = _ALL) -> PairEstimate:
        """Return the difference over some rows, or over all."""
        reference, run = self.together(places)
        return PairEstimate.of(reference, run, self.settings)


def difference(pair: Pair, whole: Estimate, *, most: int, with_agreement: bool) -> Difference:
    """Compare a run with the reference.

    Args:
        pair: both.
        whole: the difference over all rows.
        most: the number of rows that changed most to name; their questions are filled in later.
        with_agreement: whether to say how far both judges agree.
    """
    import numpy as np

    before, after = pair.reference.values, pair.run.values
    changes = np.round(after - before, 12)
    units = pair.together()
    values = [side.values for side in units]
    tests = [sign_test(*values)]
    if tests[0].name != "mcnemar":  # of 0 and 1 all changes have one rank: signed ranks say what signs say
        tests.append(wilcoxon_test(*values))
    needed = rows_needed(*units, level=pair.settings.level)
    return Difference(
        letter=letter_of(pair.place),
        difference=whole,
        higher=int((changes > 0).sum()),
        lower=int((changes < 0).sum()),
        same=int((changes == 0).sum()),
        tests=[TestResult(test, None) for test in tests],
        transitions=_transitions(pair),
        settled=whole.interval is not None and not whole.interval.low <= 0 <= whole.interval.high,
        needed=needed,
        more=None if needed.rows is None else max(0, needed.rows - len(values[0])),
        categories=_categories(pair),
        changed=_changed(pair, changes, most),
        agreement=_agreement(pair) if with_agreement else None,
    )


def _transitions(pair: Pair) -> list[Transition]:
    """All pairs of outcomes, also those that no row has; none for scores."""
    names = OUTCOMES[pair.kind]
    first, second = (_outcomes(pair.kind, side.values) for side in (pair.reference, pair.run))
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
                reference=pair.reference.at(chosen).ratio,
                run=pair.run.at(chosen).ratio,
                difference=pair.estimate(chosen).difference,
            )
        )
    return found


def _changed(pair: Pair, changes: NDArray[np.float64], most: int) -> list[ChangedRow]:
    import numpy as np

    rows, before, after = pair.rows, pair.reference.values, pair.run.values
    order = np.argsort(-np.abs(changes), kind="stable")[:most]
    return [
        ChangedRow(rows.uids[place], rows.categories[place], float(before[place]), float(after[place]), "")
        for place in order.tolist()
        if changes[place]
    ]


def _agreement(pair: Pair) -> JudgesAgreement:
    kind, prompts = pair.kind, pair.rows.prompts
    before, after = pair.reference.values, pair.run.values
    if kind == "score":
        same = float((before.round(12) == after.round(12)).mean())
        kappa = quadratic_kappa(before, after)
    else:
        first, second = _outcomes(kind, before), _outcomes(kind, after)
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
        labels=label_agreement(pair.rows.labels[0], pair.rows.labels[pair.place]),
    )


def _kappa(kind: Kind, first: NDArray[np.int64], second: NDArray[np.int64]) -> float | str:
    """Cohen's kappa of named outcomes; quadratic weights for three, which are ordered."""
    if len({*first.tolist(), *second.tolist()}) < 2:
        return "both give one and the same outcome to every row"
    from sklearn.metrics import cohen_kappa_score  # late: half a second

    weights = "quadratic" if kind == "win_rate" else None
    return float(cohen_kappa_score(first, second, labels=list(range(len(OUTCOMES[kind]))), weights=weights))


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
    for places in np.split(order, np.flatnonzero(np.diff(prompts[order])) + 1):
        if len(places) < 2:
            continue
        count += 1
        first, second = (np.round(side[places], _SAME_SCORE) for side in (before, after))
        bests = [frozenset(np.flatnonzero(side == side.max()).tolist()) for side in (first, second)]
        same += bests[0] == bests[1]
        overlapping += bool(bests[0] & bests[1])
    return BestAgreement(count, same / count, overlapping / count) if count else None


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
