"""Ranking from a table of peers' scores, adjusted for the judges' leniency; and self-preference.

If models do not judge themselves, plain column means are unfair to a candidate whose own judge is
lenient, because that judge scores all candidates but this one. Therefore a score is fitted as a
judge's effect plus a candidate's effect, by least squares. Ranks have bootstrap intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from judgegym.statistics.agreement import Interval

if (
    TYPE_CHECKING
):  # numpy is imported where it is used: the environment's help and `judgegym list` do not need it
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_DIGITS = 9
_CELLS_AT_ONCE = 2_000_000  # limits the memory of one block of resamples


# Scores are arrays of shape (queries, judges, candidates), NaN where there is no score.


def compute_sums_and_counts(scores: Floats) -> tuple[Floats, Floats]:
    """Return the scores with 0 where there is none, and 1 for each score, else 0."""
    import numpy as np

    return np.nan_to_num(scores, nan=0.0), np.isfinite(scores).astype(float)


def compute_means(scores: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Return means over all queries (axis 0) or queries and judges (0 and 1).

    NaN without scores.
    """
    import numpy as np

    sums, counts = (array.sum(axis=axis) for array in compute_sums_and_counts(scores))
    averages: Floats = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return averages


def adjust_for_leniency(scores: Floats) -> list[float | None] | str:
    """Return each candidate's score as the average judge would give it.

    score = μ + judge + candidate, fitted by least squares over all scores; a candidate's adjusted
    score is μ + candidate, where the judges' effects have mean 0. Without missing cells that is the
    column mean.

    Returns:
        A number per candidate, `None` for one without scores. Or the reason why no candidate has
        one: there are no scores, or some judges and candidates share no scores with the others.
    """
    sums, counts = compute_sums_and_counts(scores)
    return _fit(sums.sum(axis=0), counts.sum(axis=0))


def _fit(sums: Floats, counts: Floats) -> list[float | None] | str:
    import numpy as np

    judges = np.flatnonzero(counts.sum(axis=1))
    candidates = np.flatnonzero(counts.sum(axis=0))
    if not len(judges):
        return "there is no score"
    adjusted: list[float | None] = [None] * counts.shape[1]
    sums = sums[np.ix_(judges, candidates)]
    counts = counts[np.ix_(judges, candidates)]
    if not _is_connected(counts):
        return "the table falls apart into judges and candidates that never meet"
    # The normal equations of the one-hot design: judges first, then candidates. They determine the
    # effects up to one constant, which is chosen so that the judges' effects have mean 0.
    normal = np.block(
        [[np.diag(counts.sum(axis=1)), counts], [counts.T, np.diag(counts.sum(axis=0))]]
    )
    effects = np.linalg.lstsq(
        normal, np.concatenate([sums.sum(axis=1), sums.sum(axis=0)]), rcond=None
    )[0]
    leniency = effects[: len(judges)].mean()
    for candidate, effect in zip(candidates, effects[len(judges) :], strict=True):
        # Rounds off −0.0 and the noise of least squares.
        adjusted[candidate] = round(float(effect + leniency), _DIGITS) + 0.0
    return adjusted


def _is_connected(counts: Floats) -> bool:
    """Return whether the judges and candidates that share scores connect all candidates.

    Then all judges are connected, too: each has scored a candidate.
    """
    import numpy as np

    meet = counts > 0
    reached = np.zeros(counts.shape[1], dtype=bool)
    nearer = meet[0]
    while (nearer & ~reached).any():
        reached |= nearer
        nearer = meet[meet[:, reached].any(axis=1)].any(axis=0)
    return bool(reached.all())


def compute_adjusted_intervals(
    scores: Floats, *, rounds: int = 1000, seed: int = 0, level: float = 0.95
) -> list[Interval | None]:
    """Return bootstrap intervals of the adjusted scores over queries; `None` without scores.

    A round is left out if its queries have no adjusted score for a candidate that has scores in
    other queries. With one query each interval is a point. Without adjusted scores the list is
    empty.

    Source:
        Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3.
    """
    import numpy as np

    queries = scores.shape[0]
    generator = np.random.default_rng(seed)
    sums, counts = compute_sums_and_counts(scores)
    candidates = np.flatnonzero(counts.sum(axis=(0, 1)))
    samples: list[list[float]] = []
    fits: dict[bytes, list[float]] = {}  # with few queries the same draw occurs often
    rounds = rounds if queries > 1 else 1
    block = max(1, _CELLS_AT_ONCE // max(1, queries))
    for start in range(0, rounds, block):
        drawn = (
            generator.integers(0, queries, size=queries) for _ in range(min(block, rounds - start))
        )
        weights = np.array(
            [np.bincount(sample, minlength=queries) for sample in drawn], dtype=float
        )
        for resample in zip(
            np.tensordot(weights, sums, 1), np.tensordot(weights, counts, 1), strict=True
        ):
            key = resample[0].tobytes() + resample[1].tobytes()
            if key not in fits:
                fit = _fit(*resample)
                if isinstance(fit, str):
                    fits[key] = []
                else:
                    fits[key] = [value for value in fit if value is not None]
            if len(fits[key]) == len(candidates):
                samples.append(fits[key])
    if not len(candidates) or not samples:
        return []
    intervals: list[Interval | None] = [None] * scores.shape[2]
    low, high = np.quantile(np.array(samples), [(1 - level) / 2, (1 + level) / 2], axis=0)
    for candidate, bottom, top in zip(candidates, low, high, strict=True):
        intervals[candidate] = Interval(float(bottom), float(top))
    return intervals


def compute_self_preference(scores: Floats, judge: int, candidate: int) -> float | str:
    """Return how many points more a model gives itself than other judges give it.

    Each judge's scores are first centred on the mean over the candidates that it scored, so that
    leniency is not taken for self-preference.

    Args:
        scores: scores in which the model judges itself.
        judge: the index of the model among the judges.
        candidate: the index of the model among the candidates.

    Returns:
        The model's centred score of itself minus the mean of the other judges' centred scores of
        it; or why there is none.

    Source:
        Panickssery et al., LLM Evaluators Recognize and Favor Their Own Generations (2024).
    """
    import numpy as np

    table = compute_means(scores, 0)
    if not np.isfinite(table[judge, candidate]):
        return "the diagonal is empty (env.include_self)"
    with_scores = np.flatnonzero(np.isfinite(table).any(axis=1))
    centred = table[with_scores] - np.nanmean(table[with_scores], axis=1, keepdims=True)
    position = with_scores.tolist().index(judge)
    others = np.delete(centred[:, candidate], position)
    if not np.isfinite(others).any():
        return "no other judge scored it"
    return float(centred[position, candidate] - np.nanmean(others))
