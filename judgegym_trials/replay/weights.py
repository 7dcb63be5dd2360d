"""Weights of a jury: several judges of the same rows, whose votes are added up.

A vote is from −1 (surely one side) to 1 (surely the other); 0 is a tie, or no verdict. Gold labels
are −1 or 1. A jury's verdict is the sign of the weighted sum of the votes. Points are 1 for the
right sign, ½ for a tie.

Guarantees: no weight is negative (negative weights look best on the rows that they were learned
from, and fail on others). Learned weights form a jury only if labels show that it beats its best
member: `learned_weights` falls back to that member, whose ties the others decide.

The promises hold for the population that the labels came from.

Sources: Dawid and Skene, Maximum likelihood estimation of observer error-rates using the EM
algorithm (1979); weights by log-odds: Nitzan and Paroush, Optimal decision rules in uncertain
dichotomous choice situations (1982).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Floats, Ratings

FEWEST_LABELS = 30
_FOLDS = 5
_MOST_CERTAIN = 0.95
"""Upper limit of a member's accuracy: 60 labels cannot show more."""
_PRIOR = 1.0
"""Penalty on the squared logistic weights, as strong as one further label each."""


@dataclass(frozen=True, slots=True)
class JuryWeights:
    """Weights of a jury by member.

    Attributes:
        weights: 0 or more. If `at_least` is above 0, a logistic regression gave them. Otherwise
            one is larger than the sum of all others: that of the best member by the labels,
            whose ties the others decide.
        best: the number of that member.
        gain: points per row that the logistic jury gains over it on held-out labels.
        at_least: the one-sided 90 % lower bound of that gain.
    """

    weights: tuple[float, ...]
    best: int
    gain: float
    at_least: float


def points(votes: Floats, gold: Floats) -> Floats:
    """Return the points of verdicts: 1 for gold's sign, ½ for 0, else 0."""
    import numpy as np  # imported here, as everywhere in this package

    row_points: Floats = (1.0 + np.sign(votes) * gold) / 2.0
    return row_points


def gain_over(points: Floats, others: Floats) -> tuple[float, float]:
    """Return a jury's mean gain over a member, and its one-sided 90 % lower bound.

    The bound of one row is −1.
    """
    from scipy import stats

    gains = points - others
    gain = float(gains.mean())
    if len(gains) < 2:
        return gain, -1.0
    return gain, gain - float(stats.norm.ppf(0.9) * stats.sem(gains))


def learn_weights(votes: Floats, gold: Floats, *, seed: int = 0) -> JuryWeights | str:
    """Learn weights from labels: the best single member unless a jury is better with certainty.

    The members' ties are decided by clipped log-odds of the others. A logistic regression with
    weights of 0 or more is taken only if the lower bound of its gain, paired by row over five
    folds, is above 0.

    Args:
        votes: a row for each labelled row, a column for each member.
        gold: −1 or 1 for each row.
        seed: seed of the folds.

    Returns:
        The weights, or why there are none: fewer than `FEWEST_LABELS` labels.
    """
    import numpy as np

    rows = len(gold)
    if rows < FEWEST_LABELS:
        return (
            f"{rows} labels are too few to learn a jury's weights; {FEWEST_LABELS} or more are "
            "needed"
        )
    folds = np.random.default_rng(seed).permutation(rows) % _FOLDS
    of_jury, of_single = np.empty(rows), np.empty(rows)
    for fold in range(_FOLDS):
        held_out, training = folds == fold, folds != fold
        of_jury[held_out] = points(
            votes[held_out] @ _fit_logistic(votes[training], gold[training]), gold[held_out]
        )
        of_single[held_out] = points(
            votes[held_out] @ _single_weights(votes[training], gold[training]), gold[held_out]
        )
    gain, at_least = gain_over(of_jury, of_single)
    best = int(np.argmax(points(votes, gold[:, None]).mean(axis=0)))
    weights = _fit_logistic(votes, gold) if at_least > 0.0 else _single_weights(votes, gold)
    return JuryWeights(tuple(weights.tolist()), best, gain, at_least)


def log_odds(accuracies: Floats) -> Floats:
    """Return the log-odds of members' accuracies, from 0 to those of 95 %."""
    import numpy as np

    clipped = np.clip(accuracies, 0.5, _MOST_CERTAIN)
    odds: Floats = np.log(clipped / (1.0 - clipped))
    return odds


def _single_weights(votes: Floats, gold: Floats) -> Floats:
    """Return weights with which the best member decides, and the others decide only its ties."""
    import numpy as np

    best = int(np.argmax(points(votes, gold[:, None]).mean(axis=0)))
    right = (np.sign(votes) == gold[:, None]).sum(axis=0)
    counts = (votes != 0).sum(axis=0)
    weights = log_odds((right + 1.0) / (counts + 2.0))
    weights[best] = 0.0
    # A vote of half certainty (one order of two) still decides.
    weights[best] = 10.0 * weights.sum() + 1.0
    return weights


def _fit_logistic(votes: Floats, gold: Floats) -> Floats:
    """Return the weights of a logistic regression without intercept, each 0 or more."""
    import numpy as np
    from scipy.optimize import minimize

    def loss(weights: Floats) -> tuple[float, Floats]:
        margins = gold * (votes @ weights)
        slope = -(votes * (gold / (1.0 + np.exp(margins)))[:, None]).sum(axis=0) + _PRIOR * weights
        return float(np.logaddexp(0.0, -margins).sum() + _PRIOR * (weights @ weights) / 2.0), slope

    members = votes.shape[1]
    start = np.full(members, 0.5)
    bounds = [(0.0, None)] * members
    fitted: Floats = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return fitted


def dawid_skene(
    verdicts: Ratings, classes: int, *, rounds: int = 1000, tolerance: float = 1e-9
) -> Floats:
    """Return each row's probability of each class, from the members' agreement, without labels.

    A member's accuracy is estimated from its agreement with others: members that err together look
    right.

    Args:
        verdicts: for each row a verdict of each member, a class from 0; `None` or NaN without one.
        classes: number of classes, two or more.
        rounds: maximum number of EM iterations.
        tolerance: stop when the log-likelihood changes by less.

    Returns:
        Rows × classes; a row without any verdict has the classes' shares.

    Source: Dawid and Skene (1979), started from the majority.
    """
    import numpy as np

    one_hot = (np.array(verdicts, dtype=float)[..., None] == np.arange(classes)).astype(float)
    counts = one_hot.sum(axis=1)
    chances = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, 1.0)
    chances /= chances.sum(axis=1, keepdims=True)
    before = -np.inf
    for _ in range(rounds):
        shares = chances.mean(axis=0)
        errors = np.einsum("rt,rmv->mtv", chances, one_hot)
        errors /= np.maximum(errors.sum(axis=2, keepdims=True), 1e-300)
        logs = np.log(np.maximum(errors, 1e-10))
        joint = np.log(np.maximum(shares, 1e-10)) + np.einsum("rmv,mtv->rt", one_hot, logs)
        highest = joint.max(axis=1, keepdims=True)
        likelihoods = np.exp(joint - highest)
        chances = likelihoods / likelihoods.sum(axis=1, keepdims=True)
        likelihood = float((highest[:, 0] + np.log(likelihoods.sum(axis=1))).sum())
        if abs(likelihood - before) < tolerance:
            break
        before = likelihood
    return chances
