"""Correct the result of a run by human labels of some of its rows.

A corrected number needs a value for each row: a mean of scores, a win rate, a pass rate. It has an
interval if the labelled rows are known to be a random sample of all rows, or of strata by the
judge's values. Responses to one prompt depend on each other, in one row of a data set or in
several; they are clusters.

Guarantees: a label of a row that the run lacks, of another completion or outside of the scale is an
error. A missing corrected number has a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from judgegym.engine.metrics import HeadlineTerm
from judgegym.llm.errors import DataError, RunDirectoryError
from judgegym.reports.labels.file import (
    LabellerAgreement,
    Labels,
    Sampling,
    assign_strata,
    row_digest,
    run_digest,
)
from judgegym.reports.results.run import SavedRun, classify_metric
from judgegym.statistics.agreement import Interval
from judgegym.statistics.corrected import CorrectedMean, MeanKind, corrected_mean
from judgegym.statistics.intervals import Ends, find_ends
from judgegym.statistics.paired import RatioTerms

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Codes, Floats

CORRECTED = "corrected"
"""The correction's field of `config_general` in `metrics.json`."""
FEWEST_OF_A_CATEGORY = 30
"""The fewest labels for a category's corrected number: intervals are not tested with fewer."""
NOT_RANDOM = "labels were not drawn at random: no interval"
OTHER_SCORES = "labels were drawn by the scores of another judge: no interval"
UNEQUAL_WEIGHTS = (
    "rows have unequal weights in this number, so that labels of rows do not add up to it"
)


@dataclass(frozen=True, slots=True)
class CorrectedNumber:
    """A number of a run, raw and corrected.

    Attributes:
        name: the category; empty for all rows.
        rows: the number of rows with a value of the judge.
        labels: the number of labelled rows among them.
        raw: the judge's number.
        value: the corrected number; `None` without one.
        interval: the 95 % interval of `value`.
        labels_only: the number from the labels alone.
        labels_only_interval: the 95 % interval of `labels_only`.
        weight: λ, the weight of the judge, from 0 to 1.
        effective_labels: how many labels without the judge would be as precise.
        reason: why there is no number, or no interval.
    """

    name: str
    rows: int
    labels: int
    raw: float
    value: float | None = None
    interval: Interval | None = None
    labels_only: float | None = None
    labels_only_interval: Interval | None = None
    weight: float | None = None
    effective_labels: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Correction:
    """The corrected result of a run.

    Attributes:
        file: the file of labels.
        words: the result's name for people, such as `win rate`.
        how: how the labelled rows were drawn; `None` if the file does not say.
        labellers: the number of people who gave labels.
        agreement: how far they agree.
        left_out: the number of labelled rows without a value of the judge.
        whole: the number of all rows together.
        categories: the numbers of categories with enough labels.
        raw_interval: the 95 % interval of the raw result, which treats the judge's values as true.
        undecided: the number of rows that all labellers marked "cannot tell"; they count as rows
            without a label.
    """

    file: str
    words: str
    how: Sampling | None
    labellers: int
    agreement: LabellerAgreement
    left_out: int
    whole: CorrectedNumber
    categories: tuple[CorrectedNumber, ...] = ()
    raw_interval: Interval | None = None
    undecided: int = 0


@dataclass(frozen=True)
class LabelledRows:
    """The rows of a run that have a value of the judge, with their labels, as columns.

    Attributes:
        uids: the ids of the rows.
        terms: what each row adds to the result.
        labels: the mean label of each row; NaN without one.
        strata: for a draw by score, the number of each row's stratum.
        clusters: the number of each row's cluster of dependent rows; `None` if rows are
            independent.
        categories: the categories of the rows.
        left_out: the number of labelled rows without a value.
        no_interval: why the labels give no interval; empty if they do.
        ends: the ends of the scale of values and labels; `None` if unknown.
    """

    uids: Sequence[str]
    terms: RatioTerms
    labels: Floats
    strata: Codes | None
    clusters: Codes | None
    categories: Sequence[str | None]
    left_out: int
    no_interval: str
    ends: Ends | None

    @classmethod
    def read(cls, run: SavedRun, labels: Labels) -> LabelledRows:
        """Read the rows of a finished run.

        Raises:
            RunDirectoryError: the run is not finished, or cannot be read.
            DataError: a label is of a row that the run lacks, of another completion, or outside of
                the scale.
        """
        import numpy as np

        if not run.is_complete:
            raise RunDirectoryError(
                f"{run.path} is not finished, and labels correct a whole result; --resume it first"
            )
        means = labels.means()
        labelled = {
            (label.uid, label.row) for label in labels.by_row_and_labeller.values()
        }  # each labeller saw a response
        uids = {uid for uid, _ in labelled}
        drawn_from = ""
        if labels.draw is not None and not all(of_row for _, of_row in labelled):
            drawn_from = labels.draw.run
        rows = dict[str, tuple[HeadlineTerm, str | None, str]]()
        digests = dict[str, str]()
        for sample in run.samples():
            if drawn_from or sample.uid in uids:
                digests[sample.uid] = row_digest(sample)
            if sample.headline is not None and sample.headline.weight > 0:
                rows[sample.uid] = sample.headline, sample.category, sample.prompt_key
        for uid, of_row in sorted(labelled):
            if uid not in digests:
                missing_rows = _describe_missing_rows(run)
                raise DataError(f"{labels.path}: row {uid!r} is not in {run.path}; {missing_rows}")
            if of_row and of_row != digests[uid]:
                raise DataError(
                    f"{labels.path}: row {uid!r} has another response in {run.path} than was "
                    "labelled"
                )
        if drawn_from and drawn_from != run_digest({uid: digests[uid] for uid in rows}):
            raise DataError(
                f"{labels.path}: the labels were drawn from another run than {run.path}, by its "
                "digest"
            )
        if not rows:
            reason = (
                f"{run.general.get('headline')} is no mean over rows, or no row has a value in it"
            )
            raise DataError(f"{labels.path}: there is nothing to correct in {run.path}: {reason}")
        terms = RatioTerms(*np.array([[term.total, term.weight] for term, *_ in rows.values()]).T)
        row_labels = np.array([means.get(uid, np.nan) for uid in rows])
        if terms.values.min() >= 0 and terms.values.max() <= 1:
            for uid, label in means.items():
                if not 0 <= label <= 1:
                    raise DataError(
                        f"{labels.path}: row {uid!r}: expected a label from 0 to 1, found {label:g}"
                    )
        strata, no_interval = _assign_strata(
            labels, dict(zip(rows, terms.values.tolist(), strict=True))
        )
        return cls(
            uids=[*rows],
            terms=terms,
            labels=row_labels,
            strata=strata,
            clusters=_number_clusters([cluster for *_, cluster in rows.values()]),
            categories=[category for _, category, _ in rows.values()],
            left_out=len(means.keys() - rows.keys()),
            no_interval=no_interval,
            ends=find_ends(
                np.concatenate([terms.values, row_labels[np.isfinite(row_labels)]]),
                run.headline_ends,
            ),
        )

    def kind(self, run: SavedRun) -> MeanKind:
        """Return whether the result is a mean of scores or a rate."""
        words = "" if run.headline is None else run.headline.words
        if classify_metric(str(run.general.get("headline")), words, [self.terms]) == "score":
            return "mean"
        return "rate"

    def select(self, indices: Codes) -> LabelledRows:
        """Return the rows at these indices."""
        strata, clusters = (
            None if codes is None else codes[indices] for codes in (self.strata, self.clusters)
        )
        uids, categories = (
            [names[index] for index in indices] for names in (self.uids, self.categories)
        )
        columns = (self.terms.select(indices), self.labels[indices], strata, clusters)
        return LabelledRows(uids, *columns, categories, self.left_out, self.no_interval, self.ends)

    def mean(self, kind: MeanKind) -> CorrectedMean | str:
        """Correct the number of these rows, or return why that is impossible."""
        if len({*self.terms.weights}) > 1:
            return UNEQUAL_WEIGHTS
        return corrected_mean(
            self.terms.values,
            self.labels,
            kind=kind,
            strata=self.strata,
            clusters=self.clusters,
            ends=self.ends,
        )

    def to_corrected_number(self, kind: MeanKind, name: str = "") -> CorrectedNumber:
        """Return the corrected number of these rows, in the form of files."""
        columns = self.terms.values, self.labels
        return make_corrected_number(
            name, self.terms.ratio, columns, self.mean(kind), self.no_interval
        )


def correct_run(run: SavedRun, labels: Labels) -> Correction:
    """Correct the result of a finished run by labels, as a whole and by category.

    Raises:
        RunDirectoryError: the run is not finished, or cannot be read.
        DataError: labels do not fit the run (`LabelledRows.read`).
    """
    import numpy as np

    rows = LabelledRows.read(run, labels)
    headline = run.headline
    kind, labelled = rows.kind(run), np.isfinite(rows.labels)
    indices_by_category: dict[str, list[int]] = {}
    for index, category in enumerate(rows.categories):
        indices_by_category.setdefault(category or "", []).append(index)
    categories = []
    for name, places in sorted(indices_by_category.items()):
        is_part = name and len(indices_by_category) > 1
        if is_part and labelled[places].sum() >= FEWEST_OF_A_CATEGORY:
            category_rows = rows.select(np.array(places))
            categories.append(category_rows.to_corrected_number(kind, name))
    return Correction(
        file=str(labels.path),
        words=headline.words if headline is not None else str(run.general.get("headline")),
        how=None if labels.draw is None else labels.draw.how,
        labellers=len(labels.labellers),
        agreement=labels.agreement(),
        left_out=rows.left_out,
        whole=rows.to_corrected_number(kind),
        categories=tuple(categories),
        raw_interval=headline.interval if headline is not None else None,
        undecided=len({uid for uid, _ in labels.by_row_and_labeller} - labels.means().keys()),
    )


def read_correction(run: SavedRun) -> Correction | None:
    """Return the correction in `metrics.json`; `None` without one, or if it has another form."""
    try:
        return _CORRECTION.validate_python(run.general.get(CORRECTED))
    except ValidationError:
        return None


_CORRECTION = TypeAdapter(Correction)


def make_corrected_number(
    name: str,
    raw: float,
    columns: tuple[Floats, Floats],
    estimate: CorrectedMean | str,
    no_interval: str,
) -> CorrectedNumber:
    """Return a number in the form of files; if all values are from 0 to 1, so are the intervals.

    Args:
        name: the category.
        raw: the judge's number.
        columns: the judge's values and the labels.
        estimate: the corrected number, or why there is none.
        no_interval: why there is no interval; empty if there is one.
    """
    import numpy as np

    number = CorrectedNumber(name, len(columns[0]), int(np.isfinite(columns[1]).sum()), raw)
    if isinstance(estimate, str):
        return replace(number, reason=estimate)
    low, high = -inf, inf
    if all(np.nanmin(column) >= 0 and np.nanmax(column) <= 1 for column in columns):
        low, high = 0.0, 1.0

    def clip(interval: Interval) -> Interval | None:
        if no_interval:
            return None
        return Interval(max(low, interval.low), min(high, interval.high))

    return replace(
        number,
        value=min(high, max(low, estimate.value)),
        interval=clip(estimate.interval),
        labels_only=estimate.labels_only.value,
        labels_only_interval=clip(estimate.labels_only.interval),
        weight=estimate.weight,
        effective_labels=estimate.effective_labels,
        reason=no_interval,
    )


def _describe_missing_rows(run: SavedRun) -> str:
    """Explain why labels name rows that a run lacks."""
    if run.is_scored:
        return (
            "rows of a scored data set are named by their number, row-1 the first, and not by a "
            "column of the data"
        )
    return "the labels are of another run"


def _assign_strata(labels: Labels, values: Mapping[str, float]) -> tuple[Codes | None, str]:
    """Return the number of each row's stratum for a draw by score, and why there is no interval."""
    import numpy as np

    if labels.draw is None:
        return None, NOT_RANDOM
    if labels.draw.how == "random":
        return None, ""
    names = assign_strata(values)
    if Counter(names.values()) != Counter(
        {stratum.name: stratum.rows for stratum in labels.draw.strata}
    ):
        return None, OTHER_SCORES
    return np.unique([names[uid] for uid in values], return_inverse=True)[1], ""


def _number_clusters(names: Sequence[str]) -> Codes | None:
    """Return the numbers of the names; `None` if no two are the same."""
    import numpy as np

    if len({*names}) == len(names):
        return None
    return np.unique(names, return_inverse=True)[1]
