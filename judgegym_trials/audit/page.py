"""An audit's table on the terminal and its self-contained page, with the same cells."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from judgegym.engine.terminal import Table, console, say, show_table
from judgegym.engine.terminal.output import printable
from judgegym.llm.wire import JSON
from judgegym.reports.compare.page import WIDTH, forest
from judgegym.reports.document import document, render
from judgegym_trials.audit.audit import Audit
from judgegym_trials.audit.decision import CheckResult, format_interval, format_value

_STATIC = Path(__file__).parent / "static"
_LIMITS = {"at_least": "≥ ", "at_most": "≤ ", "within": "±"}
_ORDERS = {"right_given": "given order", "right_swapped": "swapped", "right_both": "both"}
_WIDEST = 100
_RARE = ("suspect", "cannot tell")
"""Decisions that are counted only if there are any."""


def format_cells(check: CheckResult) -> tuple[str, ...]:
    """Return a measured check as a line of the table; the last cell is the rows needed."""
    assert check.value is not None and check.interval is not None
    value = format_value(check.value, check.unit).replace(" points", "")
    between = format_interval(check.interval, check.unit).replace(" points", "")
    wanted = ""
    if check.threshold is not None:
        percent = 100 if check.unit in ("share", "points") else 1
        wanted = f"{_LIMITS[check.side]}{percent * check.threshold:g}"
    needed = "" if check.rows_needed is None else f"{check.rows_needed:,}"
    return (check.title, value, between, wanted, check.word, needed)


def format_heading(audit: Audit) -> str:
    """Return the audited source and judge as one line."""
    words = {"fails": "fail", "passes": "pass", "underpowered": "underpowered"} | {
        rare: rare for rare in _RARE
    }
    counts = {
        label: sum(check.word == word for check in audit.checks) for word, label in words.items()
    }
    for word in _RARE:
        if not counts[word]:
            del counts[word]
    summary = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{audit.judge} on {audit.rows:,} labelled rows, checks: {summary}"


def list_notes(audit: Audit) -> list[str]:
    """Return the notes for a reader.

    They are right verdicts by category, what was not measured, and how it was decided.
    """
    missing: dict[str, list[str]] = {}
    for check in audit.checks:
        if check.word == "not measured":
            missing.setdefault(check.sentence, []).append(check.title)
    missing_titles = {why: ", ".join(titles) for why, titles in missing.items()}
    return [
        *map(_describe_category, audit.categories),
        *(f"Rows left out: {count:,} {why}." for why, count in audit.left_out.items()),
        *(f"Not measured, since {why}: {titles}." for why, titles in missing_titles.items()),
        *audit.notes,
    ]


def _describe_category(category: Mapping[str, JSON]) -> str:
    """Return how many verdicts of a category are right."""
    parts = [
        f"{category[name]:g} in {words}" for name, words in _ORDERS.items() if name in category
    ]
    name = category["name"] or "(no category)"
    listed = ", ".join(parts)
    return f"{name}: of {category['rows']:,} rows right: {listed}"


def show(audit: Audit) -> None:
    """Print an audit; its table fits 80 columns."""
    say(printable(format_heading(audit)))
    measured = [check for check in audit.checks if check.value is not None]
    header = ("check", "value", f"{100 * audit.level:g} %", "wanted", "says")
    show_table(Table("", header, tuple(format_cells(check)[:-1] for check in measured)))
    decided = [check for check in measured if check.word in ("fails", "underpowered", *_RARE)]
    for line in [*(f"{check.word}: {check.sentence}" for check in decided), *list_notes(audit)]:
        say(textwrap.fill(printable(line), min(console().width, _WIDEST), subsequent_indent="  "))


def html(audit: Audit) -> Iterator[bytes]:
    """Yield the page, part by part."""
    measured = [check for check in audit.checks if check.value is not None]
    rows = [(check, format_cells(check), _draw_interval(check)) for check in measured]
    body = render(
        _STATIC / "audit.html",
        title=format_heading(audit),
        audit=audit,
        rows=rows,
        notes=list_notes(audit),
        width=WIDTH,
    )
    yield from document(title=format_heading(audit), body=body, styles=[_STATIC / "audit.css"])


def _draw_interval(check: CheckResult) -> tuple[list[float], tuple[float, float, float]]:
    """Return the thresholds and the interval of a check in pixels from the left.

    The interval's ends come with the value between them.
    """
    limits = []
    if check.threshold is not None:
        limits = [check.threshold, -check.threshold][: 1 + (check.side == "within")]
    drawn: list[Mapping[str, Any]] = [{"value": check.value, "interval": check.interval}]
    _, (interval, *places) = forest(
        [*drawn, *({"value": limit, "interval": None} for limit in limits)]
    )
    return [value for _, value, _ in places], interval
