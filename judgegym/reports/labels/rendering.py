"""Render corrected numbers as lines, sections and tables, which terminal and pages share."""

from __future__ import annotations

from collections.abc import Iterator

from judgegym.engine.terminal.output import Table, format_count
from judgegym.engine.terminal.summary import Section, SummaryLine
from judgegym.reports.labels.correction import CorrectedNumber, Correction
from judgegym.statistics import percent
from judgegym.statistics.agreement import Interval

NO_USE = "the judge adds nothing here (λ = 0)"


def format_bounds(interval: Interval | None, reason: str = "") -> str:
    """Format the ends of an interval, or why there is none."""
    if interval is None:
        return reason
    return f"{interval.low:.4f} to {interval.high:.4f}"


def format_with_interval(interval: Interval | None, reason: str = "no interval") -> str:
    """Format an interval beside its number."""
    if interval is None:
        return reason
    return f"95 %: {format_bounds(interval)}"


def describe_label_equivalent(number: CorrectedNumber) -> tuple[str, str]:
    """Return how many labels the judge is worth, with a sentence; empty without a number."""
    if number.weight is None or number.effective_labels is None:
        return "", ""
    more = round(number.effective_labels) - number.labels
    if number.labels == number.rows:
        return "0 labels", "all rows are labelled"
    if number.weight == 0 and not more:
        return "0 labels", f"beside {format_count(number.labels, 'label')} {NO_USE}"
    alone = (
        f"{round(number.effective_labels):,} labels of random rows alone (λ = {number.weight:.2f})"
    )
    return (
        f"{more:+,} labels",
        f"{format_count(number.labels, 'label')} and the judge tell as much as {alone}",
    )


def format_numbers(correction: Correction, name: str) -> Iterator[SummaryLine]:
    """Yield the corrected number under this name, the number of labels only, and the categories."""
    whole = correction.whole
    if whole.value is None or whole.labels_only is None:
        yield SummaryLine("none", "–", whole.reason)
        return
    yield SummaryLine(
        name, f"{whole.value:.4f}", format_with_interval(whole.interval, whole.reason)
    )
    yield SummaryLine(
        "labels only", f"{whole.labels_only:.4f}", format_with_interval(whole.labels_only_interval)
    )
    for category in correction.categories:
        interval = format_with_interval(category.interval, category.reason)
        labels = format_count(category.labels, "label")
        category_value = "–" if category.value is None else f"{category.value:.4f}"
        yield SummaryLine(category.name, category_value, f"{interval}, {labels}")


def format_remarks(correction: Correction) -> Iterator[SummaryLine]:
    """Yield how many labels the judge is worth, the labellers' agreement, and what is left out."""
    value, remark = describe_label_equivalent(correction.whole)
    if value:
        yield SummaryLine("the judge is worth", value, remark)
    agreement = correction.agreement
    if agreement.same is not None:
        alpha = agreement.alpha if isinstance(agreement.alpha, str) else f"α {agreement.alpha:.2f}"
        shared = percent(agreement.same)
        rows = format_count(agreement.rows, "row")
        remark = f"give the same label to {shared} of {rows} that several labelled; {alpha}"
        yield SummaryLine("labellers", f"{correction.labellers:,}", remark)
    if correction.left_out:
        yield SummaryLine(
            "left out", f"{correction.left_out:,}", "labelled rows have no value of the judge"
        )
    if correction.undecided:
        remark = (
            "rows have no other label; intervals hold if their labels would be like those of the "
            "other rows"
        )
        yield SummaryLine("cannot tell", f"{correction.undecided:,}", remark)


def make_title(correction: Correction) -> str:
    """Return the title of the corrected numbers."""
    return f"corrected by {format_count(correction.whole.labels, 'label')}"


def make_section(correction: Correction) -> Section:
    """Return the corrected numbers as a section of the summary on the terminal."""
    return Section(
        make_title(correction),
        [*format_numbers(correction, correction.words), *format_remarks(correction)],
    )


def make_table(correction: Correction) -> Table:
    """Return the corrected numbers beside the raw one as a table of the page."""
    whole = correction.whole
    raw = ("judge alone", f"{whole.raw:.4f}", format_with_interval(correction.raw_interval))
    rows = [
        raw,
        *(
            (line.label, line.value, line.remark)
            for line in format_numbers(correction, "corrected")
        ),
    ]
    return Table(
        make_title(correction).capitalize(), ("", correction.words, "interval"), tuple(rows)
    )


def make_fact(correction: Correction) -> tuple[str, str]:
    """Return the page's line about the labels."""
    remarks = (f"{line.label}: {line.value}, {line.remark}" for line in format_remarks(correction))
    return "labels", "; ".join((correction.file, *remarks))
