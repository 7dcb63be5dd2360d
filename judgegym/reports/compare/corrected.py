"""Correct the results of compared runs, and their differences, by human labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judgegym.llm.errors import DataError, SettingsError
from judgegym.reports.compare.rows import CommonRows
from judgegym.reports.labels.correction import UNEQUAL_WEIGHTS, LabelledRows, make_corrected_number
from judgegym.reports.labels.file import Labels
from judgegym.reports.results.run import Kind, SavedRun
from judgegym.statistics.corrected import CorrectedMean, corrected_mean

BY_SCORE = (
    "labels were drawn by the scores of each run: no interval of a difference (draw them at random)"
)
SAME_LABELS = "the runs judge the same responses, whose labels do not differ"


def corrected_numbers(
    runs: Sequence[SavedRun],
    letters: Sequence[str],
    labels: Sequence[Labels],
    common: CommonRows,
    kind: Kind,
) -> dict[str, Any]:
    """Correct the results over shared rows, and the differences over rows labelled in both runs.

    Args:
        runs: the runs, the reference first.
        letters: the runs' names in tables.
        labels: the labels of each run; or once for all runs, if they judge the same responses.
        common: the shared rows.
        kind: the kind of the rows' values.

    Raises:
        SettingsError: the number of files is neither 1 nor that of the runs.
        DataError: labels do not fit their run, or one file is given for runs of different
            responses.
    """
    import numpy as np

    if len(labels) not in (1, len(runs)):
        expected = f"expected one file for all runs, or one for each of {len(runs)}"
        raise SettingsError(f"--labels: {expected}; found {len(labels)}")
    one_for_all = len(labels) == 1
    for run, same in zip(runs, common.same_answers, strict=True):
        if one_for_all and same is not None and same < len(common.uids):
            reason = f"{run.path} has other responses than {runs[0].path}, so it needs other labels"
            raise DataError(
                f"{labels[0].path}: {reason}; expected --labels once for each run, in their order"
            )
    rows = []
    for run, run_labels in zip(runs, [*labels] * len(runs) if one_for_all else labels, strict=True):
        whole = LabelledRows.read(run, run_labels)
        places = {uid: index for index, uid in enumerate(whole.uids)}
        rows.append(whole.select(np.array([places[uid] for uid in common.uids])))
    numbers = [
        labelled.to_corrected_number("mean" if kind == "score" else "rate", letter)
        for labelled, letter in zip(rows, letters, strict=True)
    ]
    for position in range(1, len(runs)):
        first, second = rows[0], rows[position]
        columns = second.terms.values - first.terms.values, second.labels - first.labels
        estimate: CorrectedMean | str = SAME_LABELS
        if any(len({*labelled.terms.weights}) > 1 for labelled in (first, second)):
            estimate = UNEQUAL_WEIGHTS
        elif not one_for_all:
            ends = None
            if first.ends is not None and second.ends is not None:
                ends = first.ends.widen(second.ends).difference_ends
            estimate = corrected_mean(*columns, kind="mean", clusters=first.clusters, ends=ends)
        no_interval = first.no_interval or second.no_interval
        if not no_interval and (first.strata is not None or second.strata is not None):
            no_interval = BY_SCORE
        raw = common.sides[position].ratio - common.sides[0].ratio
        numbers.append(
            make_corrected_number(f"{letters[position]} − A", raw, columns, estimate, no_interval)
        )
    return {"files": [str(entry.path) for entry in labels], "numbers": numbers}
