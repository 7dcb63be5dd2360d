"""What the terminal and the page say of a comparison, in the same words."""

from __future__ import annotations

from collections.abc import Mapping

from environments.report.compare.comparison import (
    ComparedRun,
    Comparison,
    Difference,
    Estimate,
    JudgesAgreement,
    TestResult,
)
from judges.statistics.bootstrap import Interval
from judges.statistics.paired import TestName

_TESTS: Mapping[TestName, str] = {
    "sign": "exact sign test",
    "mcnemar": "McNemar's exact test",
    "wilcoxon": "Wilcoxon's signed-rank test",
}
_SMALLEST_P = 0.0001
NO_CATEGORY = "(no category)"


def number(value: float) -> str:
    """A value of the metric."""
    return f"{value:.4f}"


def signed(value: float) -> str:
    """A difference, with its sign."""
    return "0.0000" if round(value, 4) == 0 else f"{value:+.4f}".replace("-", "−")


def interval_of(interval: Interval | None) -> str:
    """The bounds of a value's interval; a dash without one."""
    return "–" if interval is None else f"{number(interval.low)} to {number(interval.high)}"


def signed_interval(estimate: Estimate) -> str:
    """The bounds of a difference's interval, or why there is none."""
    if estimate.interval is None:
        return estimate.reason
    return f"{signed(estimate.interval.low)} to {signed(estimate.interval.high)}"


def title(comparison: Comparison) -> str:
    """What is compared."""
    runs = "both runs" if len(comparison.runs) == 2 else f"all {len(comparison.runs)} runs"
    return f"{comparison.environment}: {comparison.words} on the {rows(comparison.rows)} that {runs} share"


def rows(count: int) -> str:
    """A number of rows."""
    return "1 row" if count == 1 else f"{count:,} rows"


def about(run: ComparedRun) -> str:
    """Who was evaluated and judged, and when; a policy that is the judge is named once."""
    judged = "" if run.judge == run.policy else f", judged by {run.judge}"
    return f"{run.policy}{judged}, {run.date}"


def left_out(run: ComparedRun) -> str:
    """Which rows of a run are not compared; empty if all are."""
    parts = [
        f"{run.not_shared:,} that not every run has with a value" if run.not_shared else "",
        f"{run.failed:,} failed" if run.failed else "",
        f"{run.uncounted:,} that do not count in this metric" if run.uncounted else "",
    ]
    said = ", ".join(part for part in parts if part)
    return f"left out of its {rows(run.rows)}: {said}" if said else ""


def headline(comparison: Comparison, difference: Difference) -> str:
    """The difference with its interval, in a line."""
    estimate = difference.difference
    bounds = signed_interval(estimate)
    said = f"95 %: {bounds}" if estimate.interval is not None else f"no interval: {bounds}"
    return f"{difference.letter} − A: {comparison.words} {signed(estimate.value)} ({said})"


def counts(difference: Difference) -> str:
    """How many rows have a higher, lower or equal value."""
    return f"higher in {rows(difference.higher)}, lower in {difference.lower:,}, the same in {difference.same:,}"


def flips(difference: Difference) -> str:
    """How many rows went from one outcome to another, the widest changes first; empty for scores."""
    names = list(dict.fromkeys(each.before for each in difference.transitions))
    moved = [each for each in difference.transitions if each.before != each.after]
    moved.sort(key=lambda each: (-abs(names.index(each.after) - names.index(each.before)), -names.index(each.before)))
    if moved and not any(each.rows for each in moved):
        return "no row has another outcome"
    return ", ".join(f"{each.before} → {each.after}: {each.rows:,}" for each in moved)


def tested(result: TestResult) -> str:
    """A test with its p-value and the rows that it rests on."""
    test = result.test
    if test.p is None:
        return f"{_TESTS[test.name]}: no p-value, since {test.reason}"
    corrected = "" if result.corrected is None else f" (corrected {_p(result.corrected)})"
    return f"{_TESTS[test.name]}: p {_p(test.p)}{corrected}, over the {rows(test.higher + test.lower)} that differ"


def _p(p: float) -> str:
    return f"< {_SMALLEST_P}" if p < _SMALLEST_P else f"= {p:.4f}"


def needed(difference: Difference) -> str:
    """How many more rows would settle the difference."""
    found = difference.needed
    if found.rows is None:
        return f"Rows that would settle it: unknown, since {found.reason}."
    size = f"a difference of this size takes about {rows(found.rows)} (80\u00a0% power)"
    if difference.settled:
        return f"The interval excludes 0; {size}."
    if not difference.more:
        return f"The interval includes 0, although {size}."
    return f"The interval includes 0; {size}, {difference.more:,} more than there are."


def agreement(found: JudgesAgreement, kind: str) -> str:
    """How far the judges agree."""
    what = "score" if kind == "score" else "outcome"
    weights = " (quadratic weights)" if found.weighted else ""
    kappa = f"{found.kappa:.4f}" if found.kappa is not None else f"undefined ({found.kappa_reason})"
    correlation = (
        f"{found.correlation:.4f}" if found.correlation is not None else f"undefined ({found.correlation_reason})"
    )
    return (
        f"the judges give the same {what} to {100 * found.same:.1f}\u00a0% of the rows; Cohen's κ{weights} {kappa}; "
        f"Spearman's correlation {correlation}"
    )


def method(comparison: Comparison) -> str:
    """How the numbers were computed."""
    settings = comparison.settings
    return (
        f"Intervals: {100 * settings.level:g} %, paired bootstrap, {settings.rounds:,} resamples of rows, seed "
        f"{settings.seed}; those of categories are not corrected for their number."
    )
