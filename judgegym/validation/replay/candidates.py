"""Juries, cascades and single judges of recorded runs: what each is worth, and what it costs.

Value is accuracy against labels, or agreement with a reference. Weights that are learned from labels are measured on
rows that they were not learned from (five folds); all else takes nothing from the labels. The best of many candidates
is optimistic all the same: what is chosen by a sweep is to be confirmed on other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal, get_args

from judgegym.judges.core.seeding import generator
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.judges.parts.jury import JuryRule, JuryScales, JurySettings, jury_score
from judgegym.statistics.juries import JuryWeights, dawid_skene, learned_weights
from judgegym.validation.replay.table import JudgedTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_IN_ALL_SUBSETS = 5
"""With more members, subsets of two and three and the jury of all are tried."""
_FOLDS = 5
_LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Quantiles of the confidence that the sweep takes as thresholds of cascades."""
_MOST_CERTAIN = 0.95
_FOR_THREE = ("median", "trimmed_mean", "unanimous")
Kind = Literal["single", "jury", "cascade"]


@dataclass(frozen=True)
class ReplayedJudge:
    """A judge that recorded runs can make.

    Attributes:
        kind: single judge, jury or cascade.
        name: what it is, in a few words.
        members: whose calls it takes.
        value: its mean accuracy, or agreement.
        error: standard error of the value.
        cost: mean of a row, in the table's unit.
        gain: what a jury gains over its best member, mean, and its one-sided 90 % lower bound; `None` for others.
        best: that member; empty for others.
        escalated: the share of rows that a cascade shows to the strong judge.
        is_on_front: no candidate costs less and is worth as much.
    """

    kind: Kind
    name: str
    members: tuple[str, ...]
    value: float
    error: float
    cost: float
    gain: tuple[float, float] | None = None
    best: str = ""
    escalated: float | None = None
    is_on_front: bool = False


def reference_of(table: JudgedTable, name: str | None) -> tuple[NDArray[np.float64], str]:
    """What candidates are compared with, and what that is called: labels, a run, or the mean of all runs."""
    import numpy as np

    if name is not None:
        return table.of(name), f"agreement with {name}"
    if table.labels is not None:
        return table.labels, "accuracy"
    scored = np.sum(~np.isnan(table.scores), axis=1)
    return np.nansum(table.scores, axis=1) / np.where(scored, scored, np.nan), "agreement with the jury of all"


def single(table: JudgedTable, name: str, reference: NDArray[np.float64]) -> ReplayedJudge:
    """Measure one judge."""
    value, error = _mean(table.agreement(table.of(name), reference))
    return ReplayedJudge("single", name, (name,), value, error, float(table.cost_of(name).mean()))


def jury(
    table: JudgedTable, scores: NDArray[np.float64], members: Sequence[str], name: str, reference: NDArray[np.float64]
) -> ReplayedJudge:
    """Measure a jury.

    Args:
        table: the rows.
        scores: of the jury by row; no number where it has none.
        members: who is asked.
        name: what it is.
        reference: what it is compared with.
    """
    from scipy import stats  # late, as everywhere in this package

    points = table.agreement(scores, reference)
    of_members = {each: table.agreement(table.of(each), reference) for each in members}
    best = max(members, key=lambda each: of_members[each].mean())
    gain, error = _mean(points - of_members[best])
    value, own_error = _mean(points)
    cost = float(sum(table.cost_of(each).mean() for each in members))
    at_least = gain - float(stats.norm.ppf(0.9)) * error
    return ReplayedJudge("jury", name, tuple(members), value, own_error, cost, (gain, at_least), best)


def jury_scores(table: JudgedTable, members: Sequence[str], settings: JurySettings) -> NDArray[np.float64]:
    """Return the score of a jury by row; no number below its quorum, or where it abstains."""
    import numpy as np

    weights, scales = settings.jury_weights, JuryScales(settings.jury_scale, settings.jury_sample)
    counting = [name for name in members if not weights or weights.get(name, 0.0) > 0.0]
    quorum, columns = settings.jury_quorum or len(counting) // 2 + 1, {name: table.of(name) for name in members}
    found = np.full(len(table.uids), np.nan)
    for row in range(len(found)):
        given = {name: scales.align(name, columns[name][row]) for name in counting if not np.isnan(columns[name][row])}
        score = jury_score(given, settings.jury_rule, weights) if len(given) >= quorum else None
        found[row] = np.nan if score is None else score
    return found


def cascade(
    table: JudgedTable, pair: tuple[str, str], settings: CascadeSettings, reference: NDArray[np.float64]
) -> ReplayedJudge:
    """Measure a cascade; rows that are shown to both judges to check them cost what that costs on average."""
    import numpy as np

    cheap, strong = pair
    is_kept = kept_rows(table, cheap, settings)
    scores = np.where(is_kept, table.of(cheap), table.of(strong))
    asked = np.where(is_kept, settings.cascade_recheck, 1.0)
    value, error = _mean(table.agreement(scores, reference))
    cost = float((table.cost_of(cheap) + asked * table.cost_of(strong)).mean())
    name = f"{cheap} > {strong} {settings.cascade_confidence} {settings.cascade_threshold:.2f}"
    return ReplayedJudge("cascade", name, pair, value, error, cost, escalated=float(1.0 - is_kept.mean()))


def kept_rows(table: JudgedTable, cheap: str, settings: CascadeSettings) -> NDArray[np.bool_]:
    """Return whether the cheap judge decides each row, as `CascadeJudge.decides` says."""
    confidence, threshold = table.confidences[cheap][settings.cascade_confidence], settings.cascade_threshold
    is_kept: NDArray[np.bool_] = (confidence > threshold) | (
        (confidence == threshold) & (table.numbers < settings.cascade_share)
    )
    return is_kept


def votes_of(table: JudgedTable, members: Sequence[str]) -> NDArray[np.float64]:
    """Return the votes of members, from −1 to 1; 0 without a score."""
    import numpy as np

    votes: NDArray[np.float64] = np.nan_to_num(2.0 * np.stack([table.of(name) for name in members], axis=1) - 1.0)
    return votes


def weights_by_labels(table: JudgedTable, members: Sequence[str], seed: int) -> JuryWeights | str:
    """Learn the weights of a jury from the labels (`learned_weights`); or say why there are none."""
    import numpy as np

    assert table.labels is not None  # who asks for them has labels
    gold = np.sign(np.round(table.labels, 9) - 0.5)
    return learned_weights(votes_of(table, members)[gold != 0], gold[gold != 0], seed=seed)


def weights_without_labels(table: JudgedTable, members: Sequence[str]) -> Mapping[str, float]:
    """Return the log-odds of each member's accuracy by Dawid and Skene's model, from 0 to those of 95 %."""
    import numpy as np

    votes = votes_of(table, members)
    classes = [[None if vote == 0 else int(vote > 0) for vote in row] for row in votes]
    chances = dawid_skene(classes, 2)[:, 1]
    weights = {}
    for name, column in zip(members, votes.T, strict=True):
        right = np.where(column > 0, chances, 1.0 - chances)[column != 0]
        accuracy = float(np.clip(right.mean() if len(right) else 0.5, 0.5, _MOST_CERTAIN))
        weights[name] = float(np.log(accuracy / (1.0 - accuracy)))
    return weights if any(weights.values()) else dict.fromkeys(members, 1.0)


def learned_scores(table: JudgedTable, members: Sequence[str], seed: int) -> NDArray[np.float64] | str:
    """Return by row the score of a jury whose weights were learned from the labels of other rows."""
    import numpy as np

    folds = np.array([generator(seed, uid, "fold").randrange(_FOLDS) for uid in table.uids])
    found = np.full(len(folds), np.nan)
    for fold in range(_FOLDS):
        weights = weights_by_labels(rows_of(table, folds != fold), members, seed)
        if isinstance(weights, str):
            return weights
        settings = JurySettings(jury_weights=dict(zip(members, weights.weights, strict=True)), jury_quorum=1)
        found[folds == fold] = jury_scores(rows_of(table, folds == fold), members, settings)
    return found


def rows_of(table: JudgedTable, chosen: NDArray[np.bool_]) -> JudgedTable:
    """Return some rows of a table."""
    return replace(
        table,
        uids=tuple(uid for uid, is_chosen in zip(table.uids, chosen, strict=True) if is_chosen),
        scores=table.scores[chosen],
        costs=table.costs[chosen],
        units=table.units[chosen],
        numbers=table.numbers[chosen],
        labels=None if table.labels is None else table.labels[chosen],
        confidences={
            name: {rule: values[chosen] for rule, values in by_rule.items()}
            for name, by_rule in table.confidences.items()
        },
    )


def sweep(table: JudgedTable, reference: NDArray[np.float64], seed: int) -> Iterator[ReplayedJudge]:
    """Measure every jury (rules × subsets), and every cascade of two members at four thresholds."""
    import numpy as np

    count = len(table.names)
    sizes = range(2, count + 1) if count <= MOST_IN_ALL_SUBSETS else (2, 3, count)
    for members in (subset for size in sizes for subset in combinations(table.names, size)):
        of = f"({', '.join(members)})" if len(members) < count else "(all)"
        for rule in get_args(JuryRule):
            if len(members) > 2 or rule not in _FOR_THREE:
                settings = JurySettings(jury_rule=rule)
                yield jury(table, jury_scores(table, members, settings), members, f"{rule} {of}", reference)
        weights = weights_without_labels(table, members)
        unlabelled = jury_scores(table, members, JurySettings(jury_weights=dict(weights), jury_quorum=1))
        yield jury(table, unlabelled, members, f"Dawid-Skene {of}", reference)
        if table.labels is not None and not isinstance(learned := learned_scores(table, members, seed), str):
            yield jury(table, learned, members, f"learned weights {of}", reference)
    for cheap in table.names:
        for strong in table.names:
            if cheap == strong or table.cost_of(cheap).mean() > table.cost_of(strong).mean():
                continue
            for rule, confidences in table.confidences[cheap].items():
                for level in sorted({*np.quantile(confidences, _LEVELS, method="lower").tolist()}):
                    if level > max(0.0, confidences.min()):  # else the cheap judge decides all
                        chosen = {"cascade_confidence": rule, "cascade_threshold": level}
                        yield cascade(table, (cheap, strong), CascadeSettings.model_validate(chosen), reference)


def with_front(candidates: Sequence[ReplayedJudge]) -> list[ReplayedJudge]:
    """Return the candidates, the cheapest first, those on the Pareto front marked."""
    best, found = -1.0, []
    for each in sorted(candidates, key=lambda one: (one.cost, -one.value)):
        found.append(replace(each, is_on_front=each.value > best))
        best = max(best, each.value)
    return found


def _mean(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and standard error."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return float(values.mean()), spread / len(values) ** 0.5
