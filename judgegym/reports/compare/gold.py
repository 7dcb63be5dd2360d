"""How far each run agrees with the gold labels of the rows that all runs share, and how that differs.

A label counts if the judge of every run gave a verdict on it. Rows are resampled as a whole: the labels of one (both
orders of a pair, several aspects) depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from judgegym.engine.metrics import GoldLabel
from judgegym.llm.errors import RunDirectoryError
from judgegym.reports.compare.comparison import (
    ComparisonSettings,
    GoldAgreement,
    GoldComparison,
    GoldDifference,
    TestResult,
)
from judgegym.reports.compare.difference import PairEstimate
from judgegym.reports.results.run import SavedRun
from judgegym.statistics.paired import RatioTerms, kappa_interval, sign_test

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Labels = Mapping[tuple[str, str], GoldLabel]


def gold_comparison(
    runs: Sequence[SavedRun], letters: Sequence[str], uids: Sequence[str], settings: ComparisonSettings
) -> GoldComparison:
    """Compare each run with gold, and the agreement of each further run with that of the first.

    Args:
        runs: the runs.
        letters: how tables call them.
        uids: the rows that they share.
        settings: of the bootstrap.

    Raises:
        RunDirectoryError: no shared row has a gold label with a verdict in every run.
    """
    wanted = frozenset(uids)
    found = [_labels(run, wanted) for run in runs]
    everywhere = [key for key in found[0] if all(key in labels for labels in found[1:])]
    keys = [key for key in everywhere if all(labels[key].agrees is not None for labels in found)]
    if not keys:
        raise RunDirectoryError(
            "--gold: no shared row has a gold label and a verdict in every run; expected runs in which a judge is "
            "measured against gold labels (pairwise judgement, role=judge, score_responses). In a run of an earlier "
            "version --resume adds them, and asks nothing again"
        )
    numbers: dict[str, int] = {}
    rows = [numbers.setdefault(uid, len(numbers)) for uid, _ in keys]
    sides = [_shares(labels, keys, rows) for labels in found]
    weighted = all(isinstance(labels[key].gold, float) for labels in found for key in keys)
    return GoldComparison(
        labels=len(keys),
        rows=len(numbers),
        without=len(everywhere) - len(keys),
        weighted=weighted,
        runs=[
            _agreement(letter, labels, keys, rows, side, settings)
            for letter, labels, side in zip(letters, found, sides, strict=True)
        ],
        differences=[
            GoldDifference(
                letter,
                PairEstimate.of(sides[0], side, settings).difference,
                TestResult(sign_test(sides[0].values, side.values), None),
            )
            for letter, side in zip(letters[1:], sides[1:], strict=True)
        ],
    )


def _labels(run: SavedRun, uids: frozenset[str]) -> Labels:
    return {(sample.uid, label.name): label for sample in run.samples(uids) for label in sample.gold}


def _shares(labels: Labels, keys: Sequence[tuple[str, str]], rows: Sequence[int]) -> RatioTerms:
    """What each row adds to the accuracy: how many of its labels the judge got right, and how many it has."""
    import numpy as np  # late, as everywhere in this package

    right = np.bincount(rows, [float(bool(labels[key].agrees)) for key in keys]).astype(np.float64)
    return RatioTerms(right, np.bincount(rows).astype(np.float64))


def _agreement(
    letter: str,
    labels: Labels,
    keys: Sequence[tuple[str, str]],
    rows: Sequence[int],
    side: RatioTerms,
    settings: ComparisonSettings,
) -> GoldAgreement:
    golds, judges = _embedded([labels[key].gold for key in keys], [labels[key].judge for key in keys])
    kappa = kappa_interval(golds, judges, rows, rounds=settings.rounds, seed=settings.seed, level=settings.level)
    interval = PairEstimate.of(side, side, settings).run
    if isinstance(kappa, str):
        return GoldAgreement(letter, side.ratio, interval, None, None, kappa)
    return GoldAgreement(letter, side.ratio, interval, *kappa)


def _embedded(
    golds: Sequence[str | float], judges: Sequence[str | float | None]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Labels as vectors whose squared distances are the weights of kappa: scores as numbers, others one-hot."""
    import numpy as np

    if all(isinstance(each, float | int) for each in (*golds, *judges)):
        return np.asarray(golds, dtype=float)[:, None], np.asarray(judges, dtype=float)[:, None]
    names = {name: place for place, name in enumerate(dict.fromkeys(map(str, (*golds, *judges))))}
    one_hot = np.eye(len(names))
    return one_hot[[names[str(each)] for each in golds]], one_hot[[names[str(each)] for each in judges]]
