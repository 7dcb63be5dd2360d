"""A comparison on the terminal.

What the terminal and the page say of a comparison, in the same words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from judgegym.engine.terminal import Table, console, say, show_table
from judgegym.engine.terminal.output import printable
from judgegym.reports.compare.comparison import (
    ComparedRun,
    Comparison,
    Difference,
    Estimate,
    GoldAgreement,
    GoldComparison,
    JudgesAgreement,
    TestResult,
)
from judgegym.statistics.agreement import Interval
from judgegym.statistics.paired import TestName

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


def difference_cells(estimate: Estimate | None) -> tuple[str, str]:
    """A difference and its interval; empty for the reference."""
    return ("", "") if estimate is None else (signed(estimate.value), signed_interval(estimate))


def title(comparison: Comparison) -> str:
    """What is compared."""
    runs = "both runs" if len(comparison.runs) == 2 else f"all {len(comparison.runs)} runs"
    shared = counted(comparison.rows, comparison.item)
    return f"{comparison.environment}: {comparison.words} on the {shared} that {runs} share"


def counted(count: int, noun: str) -> str:
    """A number of rows, responses or prompts."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def about(run: ComparedRun) -> str:
    """Who was evaluated and judged, and when; a policy that is the judge is named once."""
    judged = "" if run.judge == run.policy else f", judged by {run.judge}"
    return f"{run.policy}{judged}, {run.date}"


def left_out(comparison: Comparison, run: ComparedRun) -> str:
    """Which rows of a run are not compared; empty if all are."""
    parts = [
        f"{run.not_shared:,} without a value in another run" if run.not_shared else "",
        f"{run.failed:,} failed" if run.failed else "",
        f"{run.uncounted:,} that do not count in this metric" if run.uncounted else "",
    ]
    said = ", ".join(part for part in parts if part)
    return f"left out of its {counted(run.rows, comparison.item)}: {said}" if said else ""


def headline(comparison: Comparison, difference: Difference) -> str:
    """The difference with its interval, in a line."""
    estimate = difference.difference
    bounds = signed_interval(estimate)
    said = f"95 %: {bounds}" if estimate.interval is not None else f"no interval: {bounds}"
    return f"{difference.letter} − A: {comparison.words} {signed(estimate.value)} ({said})"


def counts(comparison: Comparison, difference: Difference) -> str:
    """How many rows have a higher, lower or equal value."""
    higher = counted(difference.higher, comparison.item)
    return f"higher in {higher}, lower in {difference.lower:,}, the same in {difference.same:,}"


def flips(difference: Difference) -> str:
    """How many rows went from one outcome to another, the widest changes first; empty for scores."""
    names = list(dict.fromkeys(each.before for each in difference.transitions))
    moved = [each for each in difference.transitions if each.before != each.after]
    moved.sort(key=lambda each: (-abs(names.index(each.after) - names.index(each.before)), -names.index(each.before)))
    if moved and not any(each.rows for each in moved):
        return "no row has another outcome"
    return ", ".join(f"{each.before} → {each.after}: {each.rows:,}" for each in moved)


def tested(comparison: Comparison, result: TestResult) -> str:
    """A test with its p-value and the rows that it rests on."""
    test = result.test
    if test.p is None:
        return f"{_TESTS[test.name]}: no p-value, since {test.reason}"
    corrected = "" if result.corrected is None else f" (corrected {_p(result.corrected)})"
    differing = counted(test.higher + test.lower, comparison.unit)
    return f"{_TESTS[test.name]}: p {_p(test.p)}{corrected}, over the {differing} that differ"


def _p(p: float) -> str:
    return f"< {_SMALLEST_P}" if p < _SMALLEST_P else f"= {p:.4f}"


def needed(comparison: Comparison, difference: Difference) -> str:
    """How many more rows would settle the difference."""
    found = difference.needed
    if found.rows is None:
        return f"{comparison.unit.capitalize()}s that would settle it: unknown, since {found.reason}."
    size = f"a difference of this size takes about {counted(found.rows, comparison.unit)} (80\u00a0% power)"
    if difference.settled:
        return f"The interval excludes 0; {size}."
    if not difference.more:
        return f"The interval includes 0, although {size}."
    return f"The interval includes 0; {size}, {difference.more:,} more than there are."


def difference_rows(comparison: Comparison, difference: Difference) -> list[tuple[str, ...]]:
    """The difference over all rows, then that of each category: name, rows, both values, difference and interval."""
    whole = next(run for run in comparison.runs if run.letter == difference.letter).headline
    name, rows, reference = f"all {comparison.item}s", comparison.rows, comparison.runs[0].headline
    lines = [
        (name, rows, reference, whole, difference.difference),
        *(
            (NO_CATEGORY if each.name is None else each.name, each.rows, each.reference, each.run, each.difference)
            for each in difference.categories
        ),
    ]
    return [
        (name, f"{rows:,}", number(reference), number(run), signed(estimate.value), signed_interval(estimate))
        for name, rows, reference, run, estimate in lines
    ]


def agreement(comparison: Comparison, found: JudgesAgreement) -> list[str]:
    """How far the judges agree: on scores or outcomes, on labels, on the best responses of a prompt."""
    what = "score" if comparison.kind == "score" else "outcome"
    weights = " (quadratic weights)" if found.weighted else ""
    kappa = f"{found.kappa:.4f}" if found.kappa is not None else f"undefined ({found.kappa_reason})"
    correlation = (
        f"{found.correlation:.4f}" if found.correlation is not None else f"undefined ({found.correlation_reason})"
    )
    said = [
        f"the judges give the same {what} to {_share(found.same)} of the {comparison.item}s; Cohen's κ{weights} "
        f"{kappa}; Spearman's correlation {correlation}"
    ]
    if found.labels is not None:
        labels = f"{len(found.labels.labels)} labels"
        said.append(
            f"of {labels} they give the same to {_share(found.labels.same)}; Cohen's κ {found.labels.kappa:.4f}"
        )
    if found.best is not None:
        prompts = f"{counted(found.best.prompts, 'prompt')} with several responses"
        common = f"and at least one best response in common in {_share(found.best.overlapping)}"
        said.append(f"of {prompts}, they find the same responses best in {_share(found.best.same)}, {common}")
    return said


def _share(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"


def gold_title(comparison: Comparison, gold: GoldComparison) -> str:
    """What the runs are compared with gold on."""
    left_out = f"; {gold.without:,} left out, without a verdict in a run" if gold.without else ""
    weights = ", κ with quadratic weights" if gold.weighted else ""
    labels = f"{counted(gold.labels, 'label')} of {counted(gold.rows, comparison.item)}"
    return f"Agreement with gold on {labels} (accuracy{weights}{left_out})"


def kappa(agreement: GoldAgreement) -> str:
    """Cohen's kappa of a run with gold."""
    return number(agreement.kappa) if agreement.kappa is not None else f"undefined ({agreement.kappa_reason})"


def gold_rows(gold: GoldComparison) -> list[tuple[str, ...]]:
    """A line for each run: its accuracy and kappa with their intervals, and the difference of the accuracies."""
    differences = {each.letter: each.accuracy for each in gold.differences}
    return [
        (
            run.letter,
            number(run.accuracy),
            interval_of(run.interval),
            kappa(run),
            interval_of(run.kappa_interval),
            *difference_cells(differences.get(run.letter)),
        )
        for run in gold.runs
    ]


GOLD_HEADER = ("run", "accuracy", "95 %", "κ", "95 %", "difference", "95 %")


def method(comparison: Comparison) -> str:
    """How the numbers were computed."""
    settings, units = comparison.settings, f"{comparison.unit}s"
    return (
        f"Intervals: {100 * settings.level:g} %, paired bootstrap, {settings.rounds:,} resamples of {units}, seed "
        f"{settings.seed}; those of categories are not corrected for their number."
    )


_INDENT = "   "


def show(comparison: Comparison) -> None:
    """Print a comparison."""
    say(title(comparison))
    for run in comparison.runs:
        say(f"{run.letter}  {printable(run.path)}")
        _lines(_INDENT, printable(about(run)), left_out(comparison, run))
    say("")
    show_table(_runs(comparison))
    for each in comparison.differences:
        _difference(comparison, each)
    if comparison.gold is not None:
        gold = comparison.gold
        say("")
        _lines("", gold_title(comparison, gold))
        show_table(Table(title="", header=GOLD_HEADER, rows=tuple(gold_rows(gold))))
        _lines(_INDENT, *(f"{each.letter}: {tested(comparison, each.test)}" for each in gold.differences))
    say("")
    for differing in comparison.differing:
        _lines(
            "",
            printable(
                f"The {differing.condition} differs: {differing.name}: A {differing.reference}; "
                f"{differing.letter} {differing.run}"
            ),
        )
    _lines("", *map(printable, comparison.notes), method(comparison))


def _runs(comparison: Comparison) -> Table:
    estimates = [None, *(each.difference for each in comparison.differences)]
    rows = [
        (run.letter, number(run.headline), interval_of(run.interval), *difference_cells(estimate))
        for run, estimate in zip(comparison.runs, estimates, strict=True)
    ]
    return Table(title="", header=("run", comparison.words, "95 %", "difference", "95 %"), rows=tuple(rows))


def _difference(comparison: Comparison, difference: Difference) -> None:
    say("")
    _lines("", headline(comparison, difference))
    _lines(_INDENT, counts(comparison, difference), flips(difference))
    _lines(_INDENT, *(tested(comparison, test) for test in difference.tests))
    if difference.agreement is not None:
        _lines(_INDENT, *agreement(comparison, difference.agreement))
    _lines(_INDENT, needed(comparison, difference))
    if difference.categories:
        header = ("category", f"{comparison.item}s", "A", difference.letter, "difference", "95 %")
        rows = [(printable(name), *cells) for name, *cells in difference_rows(comparison, difference)[1:]]
        show_table(Table(title="", header=header, rows=tuple(rows)))
    if difference.changed:
        say(f"{_INDENT}changed most:")
    for row in difference.changed:
        line = f"{_INDENT}{number(row.before)} → {number(row.after)}  {row.uid}  {row.start}"
        say(_cut(printable(line)))


def _lines(indent: str, *texts: str) -> None:
    """Print each text that is not empty, wrapped at the width of the terminal."""
    for text in texts:
        if text:
            say(textwrap.fill(text, console().width, initial_indent=indent, subsequent_indent=indent + "  "))


def _cut(line: str) -> str:
    """The line as long as the terminal is wide; whole where there is none."""
    out = console()
    return line if not out.is_terminal or len(line) <= out.width else f"{line[: out.width - 1]}…"
