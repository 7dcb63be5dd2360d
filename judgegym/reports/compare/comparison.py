"""What a comparison of runs says; the terminal, the page and the JSON file are made of it, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judgegym.reports.compare.conditions import Condition, ConditionDifference
from judgegym.statistics.agreement import Interval
from judgegym.statistics.paired import PairedTest, RowsNeeded

Kind = Literal["win_rate", "pass_rate", "score"]
"""What the values of rows are: won, tied or lost against a baseline, 1 or 0, or scores on a scale."""
OUTCOMES: Mapping[Kind, Sequence[str]] = {"win_rate": ("lost", "tied", "won"), "pass_rate": ("0", "1"), "score": ()}
"""The names of the outcomes from the worst to the best; scores have too many to name."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def letter_of(place: int) -> str:
    """How tables call the run at a place: `A` is the reference."""
    return _LETTERS[place] if place < len(_LETTERS) else f"R{place + 1}"


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run, and its headline on the rows that are compared.

    Attributes:
        letter: how tables call it: `A` is the reference.
        path: its directory, as it was given.
        policy: what was evaluated.
        judge: who judged.
        date: when the run ended.
        rows: the number of rows that it selected.
        failed: those that have no judgment.
        uncounted: those that have one, and add nothing to the headline.
        not_shared: those with a value that another run does not have, or has without a value.
        headline: the metric over the rows that are compared.
        interval: its 95 % interval; `None` with one row.
    """

    letter: str
    path: str
    policy: str
    judge: str
    date: str
    rows: int
    failed: int
    uncounted: int
    not_shared: int
    headline: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A difference, run − reference.

    Attributes:
        value: the difference.
        interval: its 95 % interval from a paired bootstrap; `None` where there is none.
        reason: why there is none.
    """

    value: float
    interval: Interval | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TestResult:
    """A paired test.

    Attributes:
        test: the test of this run against the reference.
        corrected: its p-value by Holm's method over all runs; `None` with one run beside the reference, or without p.
    """

    test: PairedTest
    corrected: float | None


@dataclass(frozen=True, slots=True)
class Transition:
    """How many rows have one outcome in the reference and one in the run."""

    before: str
    after: str
    rows: int


@dataclass(frozen=True, slots=True)
class CategoryDifference:
    """The rows of one category; `name` is `None` for rows without one."""

    name: str | None
    rows: int
    reference: float
    run: float
    difference: Estimate


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row whose value changed.

    Attributes:
        uid: the row's id.
        category: its category.
        before: its value in the reference.
        after: its value in the run.
        start: the beginning of its question, in one line.
    """

    uid: str
    category: str | None
    before: float
    after: float
    start: str


@dataclass(frozen=True, slots=True)
class BestAgreement:
    """For which prompts two judges find the same responses best.

    Attributes:
        prompts: those with several responses that are compared.
        same: the share at which both give the highest score to the same responses, ties included.
        overlapping: the share at which some response is among the best of both.
    """

    prompts: int
    same: float
    overlapping: float


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """How far the labels of two judges agree.

    Attributes:
        rows: those with a label of both.
        labels: all labels.
        same: the share of rows with the same label.
        kappa: Cohen's kappa, without weights.
    """

    rows: int
    labels: Sequence[str]
    same: float
    kappa: float


@dataclass(frozen=True, slots=True)
class JudgesAgreement:
    """How far two judges agree on the same rows.

    Attributes:
        same: the share of rows with the same outcome; of scores, with the same score.
        kappa: Cohen's kappa of the outcomes, with quadratic weights where they are ordered; `None` where undefined.
        kappa_reason: why kappa is undefined.
        correlation: Spearman's correlation of the values; `None` where undefined.
        correlation_reason: why it is undefined.
        weighted: whether kappa has weights.
        best: of a scored data set with several responses to a prompt; otherwise `None`.
        labels: of a scored data set whose judges have few labels, some in common; otherwise `None`.
    """

    same: float
    kappa: float | None
    kappa_reason: str
    correlation: float | None
    correlation_reason: str
    weighted: bool
    best: BestAgreement | None = None
    labels: LabelAgreement | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A run against the reference.

    Attributes:
        letter: the run.
        difference: of the headline.
        higher: rows with a higher value in the run.
        lower: rows with a lower value.
        same: rows with the same value.
        tests: whether the difference may be chance.
        transitions: the rows by both outcomes, where the outcomes have names.
        settled: whether the interval excludes 0.
        needed: how many rows it would take in all until the interval excludes 0, with a probability of 80 %.
        more: how many more than there are, at least 0; `None` where no number of rows is known.
        categories: the same by category, in the order of their names; empty with one category.
        changed: the rows that changed most, the largest change first.
        agreement: of the two judges; `None` if the judge is the same.
    """

    letter: str
    difference: Estimate
    higher: int
    lower: int
    same: int
    tests: Sequence[TestResult]
    transitions: Sequence[Transition]
    settled: bool
    needed: RowsNeeded
    more: int | None
    categories: Sequence[CategoryDifference]
    changed: Sequence[ChangedRow]
    agreement: JudgesAgreement | None


@dataclass(frozen=True, slots=True)
class GoldAgreement:
    """How far the judge of a run agrees with gold.

    Attributes:
        letter: the run.
        accuracy: the share of labels that are gold's; of scores those at the same level of the scale.
        interval: its 95 % interval; `None` with one row.
        kappa: Cohen's kappa, of scores with quadratic weights; `None` where undefined.
        kappa_interval: its 95 % interval; `None` with one row, or where kappa is undefined.
        kappa_reason: why kappa is undefined.
    """

    letter: str
    accuracy: float
    interval: Interval | None
    kappa: float | None
    kappa_interval: Interval | None
    kappa_reason: str = ""


@dataclass(frozen=True, slots=True)
class GoldDifference:
    """The accuracy of a run against that of the reference, on the same labels."""

    letter: str
    accuracy: Estimate
    test: TestResult


@dataclass(frozen=True, slots=True)
class GoldComparison:
    """The runs against the gold labels of the rows that they share.

    Attributes:
        labels: the number of labels with a verdict in every run.
        rows: how many rows these are of.
        without: labels that are left out, since a run has no verdict on them.
        weighted: whether kappa has quadratic weights: all labels are scores.
        runs: each run; the first is the reference.
        differences: each further run against the reference.
    """

    labels: int
    rows: int
    without: int
    weighted: bool
    runs: Sequence[GoldAgreement]
    differences: Sequence[GoldDifference]


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """How the numbers were computed: bootstrap rounds, their seed, and the level of all intervals."""

    rounds: int
    seed: int
    level: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs on the rows that they share.

    Attributes:
        environment: the environment of all runs.
        metric: the full name of the headline metric.
        words: its label.
        kind: what the values of its rows are.
        rows: the number of rows that are compared: those with a value in every run.
        runs: the runs; the first is the reference.
        differences: each further run against the reference.
        across: what differs and was allowed to.
        differing: where the conditions of the runs differ.
        notes: what a reader of the numbers must know.
        settings: how they were computed.
        item: what a row is: `row`, or `response` of a scored data set.
        unit: what is resampled and counted by tests: the same, or `prompt` where several responses of a scored data set
            were judged together or once for all, so that they depend on each other.
        gold: the runs against the gold labels of the rows; `None` unless that was asked for.
    """

    environment: str
    metric: str
    words: str
    kind: Kind
    rows: int
    runs: Sequence[ComparedRun]
    differences: Sequence[Difference]
    across: Sequence[Condition]
    differing: Sequence[ConditionDifference]
    notes: Sequence[str]
    settings: ComparisonSettings
    item: str = "row"
    unit: str = "row"
    gold: GoldComparison | None = None
