"""Juries, cascades and single judges of recorded runs, with their value and cost.

Value is accuracy against labels, or agreement with a reference. Weights learned from labels are
measured on rows that they were not learned from (five folds); nothing else uses the labels. The
best of many candidates is still optimistic: confirm the winner of a sweep on other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, permutations
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from judgegym.judges.core.seeding import make_generator
from judgegym.judges.parts.cascade import CascadeSettings, cheap_judge_decides
from judgegym.judges.parts.jury import JuryRule, JurySettings, compute_jury_scores
from judgegym.judges.scorers.registry import built_in_kind
from judgegym.statistics.agreement import Interval, sides
from judgegym.statistics.corrected import t_quantile, wilson
from judgegym_trials.replay.table import JudgedTable
from judgegym_trials.replay.weights import (
    JuryWeights,
    dawid_skene,
    gain_over,
    learn_weights,
    log_odds,
)

MOST_IN_ALL_SUBSETS = 5
"""With more members, only subsets of two and three and the jury of all are tried."""
_FOLDS = 5
_LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Quantiles of the confidence that the sweep uses as thresholds of cascades."""
_FOR_THREE = ("median", "trimmed_mean", "unanimous")
SINGLE = "single"
JURY = built_in_kind(JurySettings)
CASCADE = built_in_kind(CascadeSettings)
"""Kinds of judges that recorded runs can make."""


@dataclass(frozen=True)
class ReplayedJudge:
    """A judge made of recorded runs.

    Attributes:
        kind: single judge, jury or cascade.
        name: a short description.
        members: the members whose calls it uses.
        value: its mean accuracy, or agreement.
        interval: Wilson's 95 % interval of the value.
        cost: mean cost of a row, in the table's unit.
        gain: a jury's mean gain over its best member, and its one-sided 90 % lower bound; `None`
            for others.
        best: that member; empty for others.
        escalated: the share of rows that a cascade shows to the strong judge.
        is_on_front: whether no cheaper candidate has as high a value.
    """

    kind: str
    name: str
    members: tuple[str, ...]
    value: float
    interval: Interval
    cost: float
    gain: tuple[float, float] | None = None
    best: str = ""
    escalated: float | None = None
    is_on_front: bool = False


@dataclass(frozen=True)
class Bench:
    """Measures candidates on the rows of a table.

    Attributes:
        table: the rows.
        value: the name of the measured value.
        reference: the numbers that scores are compared with, by row.
    """

    table: JudgedTable
    value: str
    reference: NDArray[np.float64]

    @classmethod
    def from_table(cls, table: JudgedTable, name: str | None) -> Bench:
        """Compare with a run, by default with the labels, or else with the mean of all runs."""
        if name is not None:
            return cls(table, f"agreement with {name}", table.scores[name])
        if table.labels is not None:
            return cls(table, "accuracy", table.labels)
        mean = score_jury(table, table.names, JurySettings(jury_quorum=1))
        return cls(table, "agreement with the jury of all", mean)

    def measure(
        self, kind: str, name: str, members: Sequence[str], scores: NDArray[np.float64]
    ) -> ReplayedJudge:
        """Measure a judge that takes the calls of all these members.

        Args:
            kind: single judge, jury or cascade.
            name: a short description.
            members: the members whose calls it uses.
            scores: the scores by row; NaN without one.
        """
        table = self.table
        cost = sum(self.table.costs[member].mean() for member in members)
        points = table.agreement(scores, self.reference)
        value = float(points.mean())
        interval = wilson(value, len(points), t_quantile(0.95))
        judge = ReplayedJudge(kind, name, tuple(members), value, interval, float(cost))
        if kind != JURY:
            return judge
        of_members = {
            voter: table.agreement(table.scores[voter], self.reference) for voter in members
        }
        best = max(members, key=lambda candidate: of_members[candidate].mean())
        return replace(judge, best=best, gain=gain_over(points, of_members[best]))

    def jury(self, name: str, members: Sequence[str], settings: JurySettings) -> ReplayedJudge:
        """Measure a jury."""
        return self.measure(JURY, name, members, score_jury(self.table, members, settings))

    def cascade(self, settings: CascadeSettings, cheap: str, strong: str) -> ReplayedJudge:
        """Measure a cascade."""
        cheap_decides, scores, costs = replay_cascade(self.table, settings, cheap, strong)
        name = f"{cheap} > {strong} {settings.cascade_confidence} {settings.cascade_threshold:.2f}"
        judge = self.measure(CASCADE, name, [cheap, strong], scores)
        return replace(judge, cost=float(costs.mean()), escalated=float(1.0 - cheap_decides.mean()))

    def sweep(self, seed: int) -> Iterator[ReplayedJudge]:
        """Yield all measured juries (rules × subsets) and cascades of two at four thresholds."""
        table, count = self.table, len(self.table.names)
        sizes: Sequence[int] = range(2, count + 1)
        if count > MOST_IN_ALL_SUBSETS:
            sizes = (2, 3, count)
        subsets = chain.from_iterable(combinations(table.names, size) for size in sizes)
        for members in subsets:
            names = ", ".join(members)
            label = f"({names})" if len(members) < count else "(all)"
            for rule in get_args(JuryRule):
                if len(members) > 2 or rule not in _FOR_THREE:
                    yield self.jury(f"{rule} {label}", members, JurySettings(jury_rule=rule))
            weights = estimate_jury_weights(table, members)
            yield self.jury(
                f"Dawid-Skene {label}", members, JurySettings(jury_weights=weights, jury_quorum=1)
            )
            if table.labels is not None and not isinstance(
                learned := cross_validate_scores(table, members, seed), str
            ):
                yield self.measure(JURY, f"learned weights {label}", members, learned)
        for cheap, strong in permutations(table.names, 2):
            if table.costs[cheap].mean() > table.costs[strong].mean():
                continue
            for rule, confidences in table.confidences[cheap].items():
                for level in sorted({*np.quantile(confidences, _LEVELS, method="lower").tolist()}):
                    if level > max(
                        0.0, confidences.min()
                    ):  # otherwise the cheap judge decides all rows
                        chosen = {"cascade_confidence": rule, "cascade_threshold": level}
                        yield self.cascade(CascadeSettings.model_validate(chosen), cheap, strong)


def score_jury(
    table: JudgedTable, members: Sequence[str], settings: JurySettings
) -> NDArray[np.float64]:
    """Return a jury's score by row; NaN below its quorum, or if it abstains."""
    return np.array(
        compute_jury_scores({name: table.scores[name].tolist() for name in members}, settings)
    )


def replay_cascade(
    table: JudgedTable, settings: CascadeSettings, cheap: str, strong: str
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Replay a cascade.

    Return by row whether the cheap judge decides it, the score and the cost.

    Rows that are shown to both judges for a check are charged their average cost.
    """
    rows = zip(
        table.confidence(cheap, settings.cascade_confidence).tolist(),
        table.numbers.tolist(),
        strict=True,
    )
    cheap_decides = np.array(
        [cheap_judge_decides(settings, confidence, number) for confidence, number in rows]
    )
    strong_share = np.where(cheap_decides, settings.cascade_recheck, 1.0)
    scores = np.where(cheap_decides, table.scores[cheap], table.scores[strong])
    return cheap_decides, scores, table.costs[cheap] + strong_share * table.costs[strong]


def collect_votes(table: JudgedTable, members: Sequence[str]) -> NDArray[np.float64]:
    """Return members' votes, from −1 to 1; 0 without a score."""
    return np.nan_to_num(2.0 * np.stack([table.scores[name] for name in members], axis=1) - 1.0)


def learn_jury_weights(
    table: JudgedTable, members: Sequence[str], seed: int, without: NDArray[np.bool_] | None = None
) -> JuryWeights | str:
    """Learn the weights of a jury from labels (`learn_weights`), or say why there are none.

    Rows in `without` are left out.
    """
    assert table.labels is not None  # only called with labels
    gold = sides(table.labels)
    chosen = gold != 0
    if without is not None:
        chosen &= ~without
    return learn_weights(collect_votes(table, members)[chosen], gold[chosen], seed=seed)


def estimate_jury_weights(table: JudgedTable, members: Sequence[str]) -> dict[str, float]:
    """Return the log-odds of members' accuracies by Dawid and Skene, from 0 to those of 95 %."""
    votes = collect_votes(table, members)
    says = votes != 0
    chances = dawid_skene(np.where(says, votes > 0, np.nan), 2)[:, 1:]
    right = np.where(votes > 0, chances, 1.0 - chances) * says
    weights = log_odds(right.sum(axis=0) / np.maximum(says.sum(axis=0), 1))
    if not weights.any():
        return dict.fromkeys(members, 1.0)
    return dict(zip(members, weights.tolist(), strict=True))


def cross_validate_scores(
    table: JudgedTable, members: Sequence[str], seed: int
) -> NDArray[np.float64] | str:
    """Return a jury's score by row, with weights learned from the labels of other rows."""
    folds = np.array([make_generator(seed, uid, "fold").randrange(_FOLDS) for uid in table.uids])
    held_out_scores = np.full(len(folds), np.nan)
    for fold in range(_FOLDS):
        learned = learn_jury_weights(table, members, seed, folds == fold)
        if isinstance(learned, str):
            return learned
        weights = dict(zip(members, learned.weights, strict=True))
        scores = score_jury(table, members, JurySettings(jury_weights=weights, jury_quorum=1))
        held_out_scores[folds == fold] = scores[folds == fold]
    return held_out_scores


def mark_front(candidates: Sequence[ReplayedJudge]) -> list[ReplayedJudge]:
    """Mark the candidates on the Pareto front; return all, the cheapest first."""
    best, marked = -1.0, []
    for candidate in sorted(candidates, key=lambda judge: (judge.cost, -judge.value)):
        marked.append(replace(candidate, is_on_front=candidate.value > best))
        best = max(best, candidate.value)
    return marked
