"""Labels in a file of `judgegym label`, as gold labels of an audit's rows.

A row's own gold label comes first, then the file's labels in their order. The first one is gold,
the next one the second label. On the file's scale from 0 to 1, for two responses 1 means that the
first one is better, 0 the other one; ½ is a tie, which is no label. For yes and no, 1 is yes; for
scores it is the position on the scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from judgegym.engine.records import Sample
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON
from judgegym.reports.labels.file import Label, Labels, read_labels, row_digest
from judgegym_trials.audit.judgments import RowJudgments, Value

Kind = Callable[[float], Value]
"""Converts a label from 0 to 1 into a gold value; `None` for a tie."""


def parse_pair(label: float) -> Value:
    """Return the number of the better of two responses."""
    if label not in (0.0, 0.5, 1.0):
        raise ValueError(
            "expected 1 for the first response of a pair, 0 for the other one or 0.5, found "
            f"{label:g}"
        )
    if label == 0.5:
        return None
    return 1.0 - label


def parse_word(label: float) -> Value:
    """Return yes or no."""
    if label not in (0.0, 1.0):
        raise ValueError(f"expected 1 for yes or 0 for no, found {label:g}")
    if label:
        return "yes"
    return "no"


class LabelFile:
    """Labels of a file, and the rows they belong to."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            UserError: it cannot be read.
            DataError: a line is not a label.
        """
        self.labels: Labels = read_labels(path)
        self._by_row = self.labels.group_by_row()
        self._used: set[str] = set()

    def __contains__(self, uid: str) -> bool:
        """Return whether a row has a label."""
        return uid in self._by_row

    def label_row(self, row: RowJudgments, kind: Kind, *, uid: str | None = None) -> RowJudgments:
        """Return a row with its labels.

        Args:
            row: the row; its gold label is `None` without one.
            kind: converts a label into a gold value.
            uid: the row's id in the file, if it differs.

        Raises:
            DataError: a label does not fit such a row.
        """
        uid = row.uid if uid is None else uid
        self._used.add(uid)
        try:
            file_labels: Sequence[Value] = [
                kind(entry.label) for entry in self._by_row.get(uid, ()) if entry.label is not None
            ]
        except ValueError as error:
            raise DataError(f"{self.labels.path}: row {uid!r}: {error}") from None
        both = [value for value in (row.gold, row.second_gold, *file_labels) if value is not None]
        gold, second = [*both, None, None][:2]
        return replace(row, gold=gold, second_gold=second)

    def check_row(self, sample: Sample[JSON]) -> None:
        """Check that a row's labels belong to its current response.

        Raises:
            DataError: they belong to another response.
        """
        labels: Sequence[Label] = self._by_row.get(sample.uid, ())
        if any(label.row and label.row != row_digest(sample) for label in labels):
            raise DataError(
                f"{self.labels.path}: row {sample.uid!r} has another response than was labelled"
            )

    def check_used(self, source: str) -> None:
        """Check that every label belongs to a row.

        Raises:
            DataError: a label's row does not exist.
        """
        for uid in self._by_row:
            if uid not in self._used:
                raise DataError(
                    f"{self.labels.path}: row {uid!r} is not in {source}; the labels are of other "
                    "rows"
                )
