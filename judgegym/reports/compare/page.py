"""A comparison as a self-contained HTML page: no script, no network, every text escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from judgegym.reports.compare import text
from judgegym.reports.compare.comparison import (
    ChangedRow,
    ComparedRun,
    Comparison,
    Difference,
    Estimate,
    GoldComparison,
)
from judgegym.reports.compare.difference import WIDTH, forest
from judgegym.reports.compare.outcomes import OUTCOMES
from judgegym.reports.document import base_style, document, render

Link = Callable[[ComparedRun, str | None], str | None]
"""The address of a run's report, or of a row in it; `None` if there is none."""

_STYLE = Path(__file__).parent / "static" / "compare.css"
ALL_ROWS = "all rows"


@dataclass(frozen=True, slots=True)
class _RunView:
    run: ComparedRun
    about: str
    left_out: str
    headline: str
    interval: str
    report: str | None


@dataclass(frozen=True, slots=True)
class _LineView:
    """A line of the table of differences, with its place in the drawing."""

    name: str
    rows: str
    reference: str
    run: str
    difference: str
    interval: str
    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class _ChangedView:
    row: ChangedRow
    before: str
    after: str
    in_reference: str | None
    in_run: str | None


@dataclass(frozen=True, slots=True)
class _DifferenceView:
    letter: str
    headline: str
    counts: str
    tests: Sequence[str]
    agreement: Sequence[str]
    needed: str
    outcomes: Sequence[str]
    table: Sequence[Sequence[int]]
    zero: float
    lines: Sequence[_LineView]
    changed: Sequence[_ChangedView]


@dataclass(frozen=True, slots=True)
class _GoldView:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    tests: Sequence[str]


def html(comparison: Comparison, link: Link = lambda run, uid: None) -> Iterator[bytes]:
    """Write the page, part by part.

    Args:
        comparison: what it shows.
        link: where the reports of the runs are.
    """
    title = text.title(comparison)
    runs = {run.letter: run for run in comparison.runs}
    body = render(
        "compare.html",
        title=title,
        words=comparison.words,
        item=comparison.item,
        runs=[_run(comparison, run, link) for run in comparison.runs],
        differences=[_difference(comparison, each, runs, link) for each in comparison.differences],
        gold=None if comparison.gold is None else _gold(comparison, comparison.gold),
        differing=comparison.differing,
        notes=comparison.notes,
        method=text.method(comparison),
        width=WIDTH,
    )
    yield from document(title=title, body=body, styles=[base_style(), _STYLE.read_text("utf-8")], scripts=[])


def _gold(comparison: Comparison, gold: GoldComparison) -> _GoldView:
    tests = [f"{each.letter}: {text.tested(comparison, each.test)}" for each in gold.differences]
    return _GoldView(text.gold_title(comparison, gold), text.GOLD_HEADER, text.gold_rows(gold), tests)


def _run(comparison: Comparison, run: ComparedRun, link: Link) -> _RunView:
    return _RunView(
        run=run,
        about=text.about(run),
        left_out=text.left_out(comparison, run),
        headline=text.number(run.headline),
        interval=text.interval_of(run.interval),
        report=link(run, None),
    )


def _difference(
    comparison: Comparison, difference: Difference, runs: dict[str, ComparedRun], link: Link
) -> _DifferenceView:
    reference, run = comparison.runs[0], runs[difference.letter]
    names = OUTCOMES[comparison.kind]
    counted = {(each.before, each.after): each.rows for each in difference.transitions}
    agreement = difference.agreement
    drawn = forest([difference.difference, *(each.difference for each in difference.categories)])
    lines: list[tuple[str, int, float, float, Estimate]] = [
        (f"all {comparison.item}s", comparison.rows, reference.headline, run.headline, difference.difference)
    ]
    for each in difference.categories:
        name = text.NO_CATEGORY if each.name is None else each.name
        lines.append((name, each.rows, each.reference, each.run, each.difference))
    return _DifferenceView(
        letter=difference.letter,
        headline=text.headline(comparison, difference),
        counts=text.counts(comparison, difference),
        tests=[text.tested(comparison, result) for result in difference.tests],
        agreement=[] if agreement is None else text.agreement(comparison, agreement),
        needed=text.needed(comparison, difference),
        outcomes=names,
        table=[[counted[before, after] for after in names] for before in names],
        zero=drawn.zero,
        lines=[
            _LineView(
                name=name,
                rows=f"{count:,}",
                reference=text.number(first),
                run=text.number(second),
                difference=text.signed(estimate.value),
                interval=text.signed_interval(estimate),
                low=line.low,
                value=line.value,
                high=line.high,
            )
            for (name, count, first, second, estimate), line in zip(lines, drawn.lines, strict=True)
        ],
        changed=[
            _ChangedView(
                row=row,
                before=text.number(row.before),
                after=text.number(row.after),
                in_reference=link(reference, row.uid),
                in_run=link(run, row.uid),
            )
            for row in difference.changed
        ],
    )
