"""Compare the runs of judges with the gold labels of the rows that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from judgegym.engine.metrics import GoldLabel
from judgegym.llm.errors import RunDirectoryError
from judgegym.reports.compare.difference import estimate_difference
from judgegym.reports.results.run import SavedRun
from judgegym.statistics.agreement import Interval
from judgegym.statistics.intervals import UNIT, mean_interval
from judgegym.statistics.paired import RatioTerms, holm, kappa_interval, sign_test

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


GoldLabels: TypeAlias = Mapping[tuple[str, str], GoldLabel]
"""Gold labels with the judge's labels, by row id and label name."""


def read_gold_labels(run: SavedRun, uids: Sequence[str]) -> GoldLabels:
    """Read the gold labels of some rows of a run."""
    labels: dict[tuple[str, str], GoldLabel] = {}
    for sample in run.samples(frozenset(uids)):
        for label in sample.gold:
            labels[sample.uid, label.name] = label
    return labels


def check_same_gold(runs: Sequence[SavedRun], labels_by_run: Sequence[GoldLabels]) -> None:
    """Check that all runs have the same gold label for each row.

    The letter of the best of several answers depends on the seed that shuffled them, and is not
    compared.

    Raises:
        RunDirectoryError: a label of a response, or a score, differs from the first run.
    """
    for run, labels in zip(runs[1:], labels_by_run[1:], strict=True):
        for key in sorted(labels_by_run[0].keys() & labels.keys()):
            before, now = labels_by_run[0][key].gold, labels[key].gold
            if before != now and (run.is_scored or isinstance(now, float)):
                message = (
                    f"the gold label of {key[0]} is {now}, and in {runs[0].path} it is {before}"
                )
                raise RunDirectoryError(
                    f"--gold: {run.path}: {message}; expected one gold label of each row"
                )


def compare_with_gold(
    labels_by_run: Sequence[GoldLabels],
    letters: Sequence[str],
    settings: Mapping[str, Any],
    *,
    tie: str | None = None,
    prompts: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Compare each run's labels with gold, and each further run's agreement with the first run's.

    A label counts if the judge of every run gave a verdict on it. Intervals are over rows, or
    over prompts of several rows: the labels of one row (both orders of a pair, several aspects)
    depend on each other.

    Args:
        labels_by_run: the labels of each run.
        letters: the runs' names in tables.
        settings: the settings of the bootstrap.
        tie: the judge's label of a tie, which counts half where it is not gold; `None` without
            ties.
        prompts: for each row the number of its prompt; `None` if each row has its own.

    Returns:
        The counts of `labels` and `rows` with a verdict in every run, and of labels left out
        (`without`); for each of `runs` accuracy and Cohen's kappa with intervals; `differences` of
        both from the first run.

    Raises:
        RunDirectoryError: no shared row has a gold label with a verdict in every run.
    """
    import numpy as np

    everywhere = [
        key for key in labels_by_run[0] if all(key in labels for labels in labels_by_run[1:])
    ]
    keys = [
        key for key in everywhere if all(labels[key].agrees is not None for labels in labels_by_run)
    ]
    if not keys:
        raise RunDirectoryError(
            "--gold: no shared row has a gold label and a verdict in every run; expected runs in "
            "which a judge is measured against gold labels (pairwise judgement, role=judge, "
            "score_responses). In a run of an earlier version --resume adds them, and asks nothing "
            "again"
        )
    numbers: dict[str | int, int] = {}
    rows = [
        numbers.setdefault(uid if prompts is None else prompts[uid], len(numbers))
        for uid, _ in keys
    ]
    sides, agreements, embedded = [], [], []
    for letter, labels in zip(letters, labels_by_run, strict=True):
        run_labels = [labels[key] for key in keys]
        points = [
            0.5 if not label.agrees and label.judge == tie else float(bool(label.agrees))
            for label in run_labels
        ]
        right = np.bincount(rows, points).astype(np.float64)
        side = RatioTerms(right, np.bincount(rows).astype(np.float64))
        embedded.append(
            _embed_labels(
                [label.gold for label in run_labels], [label.judge for label in run_labels]
            )
        )
        kappa = kappa_interval([embedded[-1]], rows, **settings)
        sides.append(side)
        agreements.append(
            {
                "letter": letter,
                "accuracy": side.ratio,
                "interval": mean_interval(
                    side.totals, side.weights, ends=UNIT, level=settings["level"]
                ),
                "kappa": None if isinstance(kappa, str) else kappa[0],
                "kappa_interval": None if isinstance(kappa, str) else kappa[1],
                "kappa_reason": kappa if isinstance(kappa, str) else "",
            }
        )
    tests = [sign_test(sides[0].values, side.values) for side in sides[1:]]
    corrected = iter(holm([test.p for test in tests if test.p is not None]))
    compared_labels = chain.from_iterable([labels[key] for key in keys] for labels in labels_by_run)
    return {
        "labels": len(keys),
        "rows": len({uid for uid, _ in keys}),
        "without": len(everywhere) - len(keys),
        "weighted": all(isinstance(label.gold, float) for label in compared_labels),
        "runs": agreements,
        "differences": [
            {
                "letter": letter,
                "accuracy": estimate_difference(sides[0], side, settings["level"], UNIT)[0],
                "kappa": _kappa_difference(
                    kappa_interval([embedded[0], vectors], rows, **settings)
                ),
                # a single test is not corrected
                "test": {
                    "test": test,
                    "corrected": next(corrected) if test.p is not None and len(tests) > 1 else None,
                },
            }
            for letter, side, vectors, test in zip(
                letters[1:], sides[1:], embedded[1:], tests, strict=True
            )
        ],
    }


_Labels: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.float64]]"
"""Gold labels and a judge's labels, as vectors."""


def _kappa_difference(kappa: tuple[float, Interval | None] | str) -> dict[str, Any]:
    """Return the difference of a run's kappa from the reference's, for JSON."""
    if isinstance(kappa, str):
        return {"value": None, "interval": None, "reason": kappa}
    return {
        "value": kappa[0],
        "interval": kappa[1],
        "reason": "" if kappa[1] is not None else "one row",
    }


def _embed_labels(golds: Sequence[str | float], judges: Sequence[str | float | None]) -> _Labels:
    """Embed labels: squared distances are kappa's weights. Scores are numbers, others one-hot."""
    import numpy as np

    if all(isinstance(label, float | int) for label in (*golds, *judges)):
        return np.asarray(golds, dtype=float)[:, None], np.asarray(judges, dtype=float)[:, None]
    names = {name: index for index, name in enumerate(dict.fromkeys(map(str, (*golds, *judges))))}
    one_hot = np.eye(len(names))
    return one_hot[[names[str(label)] for label in golds]], one_hot[
        [names[str(label)] for label in judges]
    ]
