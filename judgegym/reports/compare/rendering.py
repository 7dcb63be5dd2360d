"""Render a comparison as lines and cells, which terminal and page share."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from judgegym.engine.terminal import Table, console, say, show_table
from judgegym.engine.terminal.output import format_count, printable
from judgegym.reports.compare.comparison import LEVEL, Comparison
from judgegym.reports.compare.difference_text import difference_cells
from judgegym.reports.compare.succession_text import render_succession
from judgegym.reports.labels.correction import CorrectedNumber
from judgegym.reports.labels.rendering import describe_label_equivalent, format_bounds
from judgegym.statistics.paired import TestName

_TESTS: Mapping[TestName, str] = {
    "sign": "exact sign test",
    "mcnemar": "McNemar's exact test",
    "wilcoxon": "Wilcoxon's signed-rank test",
}
_SMALLEST_P = 0.0001
_GOLD_HEADER = ("run", "accuracy", "95 %", "κ", "95 %", "difference", "95 %")
_INDENT = "   "


def render_comparison(comparison: Comparison) -> dict[str, Any]:
    """Render a comparison as text.

    Returns:
        Lines for `title`, `method` and `differing`; for each of `runs` the policy and the judge,
        what is left out, and its cells; for each of `differences` its lines and cells; the same
        for `gold` and `corrected`.
    """
    item, gold, differences = comparison["item"], comparison["gold"], comparison["differences"]
    count = len(comparison["runs"])
    shared = "both runs" if count == 2 else f"all {count} runs"
    settings = comparison["settings"]
    resamples = (
        f"{settings['rounds']:,} resamples of {comparison['unit']}s, seed {settings['seed']}"
    )
    kappa_method = f" Those of κ: paired bootstrap, {resamples}." if gold else ""
    return {
        "title": f"{comparison['environment']}: {comparison['words']} on the "
        f"{format_count(comparison['rows'], item)} that {shared} share",
        "runs": [
            _render_run(run, item, None if not number else differences[number - 1]["difference"])
            for number, run in enumerate(comparison["runs"])
        ],
        "differences": [_render_difference(comparison, difference) for difference in differences],
        "gold": gold and render_gold(comparison, gold),
        "corrected": comparison["corrected"] and _render_corrected(comparison),
        "succession": comparison["succession"] and render_succession(comparison),
        "differing": [
            f"The {condition.condition} differs: {condition}"
            for condition in comparison["differing"]
        ],
        "method": f"Intervals: {100 * settings['level']:g} %, {comparison['intervals']} over "
        f"{comparison['unit']}s, paired; they are not corrected for the number of runs or "
        f"categories.{kappa_method}",
    }


def format_value(value: float | None, reason: str = "") -> str:
    """Format a value of the metric, or why there is none."""
    if value is None:
        return f"undefined ({reason})"
    return f"{value:.4f}"


def _format_share(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"


def _render_run(
    run: Mapping[str, Any], item: str, difference: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Render a run: policy, judge (unless it is the policy) and date; rows left out; cells."""
    judged = "" if run["judge"] == run["policy"] else f", judged by {run['judge']}"
    counts = {
        "that another run lacks": run["not_shared"],
        "failed": run["failed"],
        "that do not count in this metric": run["uncounted"],
    }
    left_out = ", ".join(f"{count:,} {why}" for why, count in counts.items() if count)
    if left_out:
        left_out = f"left out of its {format_count(run['rows'], item)}: {left_out}"
    return {
        "about": f"{run['policy']}{judged}, {run['date']}",
        "left_out": left_out,
        "cells": (
            run["letter"],
            format_value(run["headline"]),
            format_bounds(run["interval"], "–"),
            *difference_cells(difference),
        ),
    }


def _render_difference(comparison: Comparison, difference: Mapping[str, Any]) -> dict[str, Any]:
    """Render a difference: headline, details, and cells for all rows and each category."""
    item, letter, estimate = comparison["item"], difference["letter"], difference["difference"]
    value, between = difference_cells(estimate)
    run = next(run for run in comparison["runs"] if run["letter"] == letter)
    everything = {
        "name": f"all {item}s",
        "rows": comparison["rows"],
        "reference": comparison["runs"][0]["headline"],
        "run": run["headline"],
        "difference": estimate,
    }
    level = "no interval" if estimate["interval"] is None else "95 %"
    agreement = []
    if difference["agreement"]:
        agreement = _describe_agreement(comparison, difference["agreement"])
    return {
        "headline": f"{letter} − A: {comparison['words']} {value} ({level}: {between})",
        "counts": f"higher in {format_count(difference['higher'], item)}, "
        f"lower in {difference['lower']:,}, the same in {difference['same']:,}",
        "flips": _flips(difference["transitions"]),
        "tests": [_describe_test(comparison, result) for result in difference["tests"]],
        "agreement": agreement,
        "needed": _describe_needed(comparison["unit"], difference),
        "header": ("category", f"{item}s", "A", letter, "difference", "95 %"),
        "rows": [
            (
                "(no category)" if category["name"] is None else category["name"],
                f"{category['rows']:,}",
                format_value(category["reference"]),
                format_value(category["run"]),
                *difference_cells(category["difference"]),
            )
            for category in (everything, *difference["categories"])
        ],
    }


def _flips(transitions: list[dict[str, Any]]) -> str:
    """Describe how many rows changed their outcome, the widest changes first; empty for scores."""
    places = {
        name: rank
        for rank, name in enumerate(
            dict.fromkeys(transition["before"] for transition in transitions)
        )
    }
    moved = [
        transition for transition in transitions if transition["before"] != transition["after"]
    ]
    moved.sort(
        key=lambda transition: (
            -abs(places[transition["after"]] - places[transition["before"]]),
            -places[transition["before"]],
        )
    )
    if moved and not any(transition["rows"] for transition in moved):
        return "no row has another outcome"
    return ", ".join(
        f"{transition['before']} → {transition['after']}: {transition['rows']:,}"
        for transition in moved
    )


def _describe_test(comparison: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Describe a test, with its p-value and the number of differing rows."""
    test, corrected = result["test"], result["corrected"]
    if test.p is None:
        return f"{_TESTS[test.name]}: no p-value, since {test.reason}"
    p = _format_p(test.p)
    also = "" if corrected is None else f" (corrected {_format_p(corrected)})"
    differing = format_count(test.higher + test.lower, comparison["unit"])
    return f"{_TESTS[test.name]}: p {p}{also}, over the {differing} that differ"


def _format_p(p: float) -> str:
    if p < _SMALLEST_P:
        return f"< {_SMALLEST_P}"
    return f"= {p:.4f}"


def _describe_needed(unit: str, difference: Mapping[str, Any]) -> str:
    """Describe how many more rows would settle the difference."""
    needed = difference["needed"]
    if needed.rows is None:
        return f"{unit.capitalize()}s that would settle it: unknown, since {needed.reason}."
    needed_count = format_count(needed.rows, unit)
    size = f"a difference of this size takes about {needed_count} (80\u00a0% power)"
    corrected = _corrected_words(difference)
    if difference["settled"]:
        return f"The interval excludes 0{corrected}; {size}."
    if difference["p"] is not None and difference["p"] < 1 - LEVEL:
        return (
            f"The interval excludes 0, but not corrected for the number of runs{corrected}; {size}."
        )
    if not difference["more"]:
        return f"The interval includes 0, although {size}."
    return f"The interval includes 0; {size}, {difference['more']:,} more than there are."


def _corrected_words(difference: Mapping[str, Any]) -> str:
    """Describe the corrected p-value; empty with two runs."""
    p = difference["p_corrected"]
    if p is None:
        return ""
    return f" (corrected p {_format_p(p)})"


def _describe_agreement(comparison: Comparison, agreement: Mapping[str, Any]) -> list[str]:
    """Describe how far the judges agree: on scores or outcomes, labels, and best responses."""
    unit = "score" if comparison["kind"] == "score" else "outcome"
    weights = " (quadratic weights)" if agreement["weighted"] else ""
    same_share = _format_share(agreement["same"])
    kappa = format_value(agreement["kappa"], agreement["kappa_reason"])
    correlation = format_value(agreement["correlation"], agreement["correlation_reason"])
    sentences = [
        f"the judges give the same {unit} to {same_share} of the {comparison['item']}s; "
        f"Cohen's κ{weights} {kappa}; Spearman's correlation {correlation}"
    ]
    labels, best = agreement["labels"], agreement["best"]
    if labels is not None:
        count = len(labels["labels"])
        same_labels = _format_share(labels["same"])
        kappa = format_value(labels["kappa"])
        sentences.append(
            f"of {count} labels they give the same to {same_labels}; Cohen's κ {kappa}"
        )
    if best is not None:
        prompts = format_count(best["prompts"], "prompt")
        same_best = _format_share(best["same"])
        overlapping = _format_share(best["overlapping"])
        sentences.append(
            f"of {prompts} with several responses, they find the same responses best in "
            f"{same_best}, and at least one best response in common in {overlapping}"
        )
    return sentences


def render_gold(comparison: Mapping[str, Any], gold: Mapping[str, Any]) -> dict[str, Any]:
    """Render the agreement with gold: a title, cells for each run, and tests of the differences."""
    left_out = ""
    if gold["without"]:
        left_out = f"; {gold['without']:,} left out, without a verdict in a run"
    weights = ", κ with quadratic weights" if gold["weighted"] else ""
    label_count = format_count(gold["labels"], "label")
    row_count = format_count(gold["rows"], comparison["item"])
    labels = f"{label_count} of {row_count}"
    tests = []
    for difference in gold["differences"]:
        test_line = _describe_test(comparison, difference["test"])
        tests += [f"{difference['letter']}: {test_line}", _kappa_line(difference)]
    differences = {
        difference["letter"]: difference["accuracy"] for difference in gold["differences"]
    }
    return {
        "title": f"Agreement with gold on {labels} (accuracy{weights}{left_out})",
        "header": _GOLD_HEADER,
        "rows": [
            (
                run["letter"],
                format_value(run["accuracy"]),
                format_bounds(run["interval"], "–"),
                format_value(run["kappa"], run["kappa_reason"]),
                format_bounds(run["kappa_interval"], "–"),
                *difference_cells(differences.get(run["letter"])),
            )
            for run in gold["runs"]
        ],
        "tests": tests,
    }


def _render_corrected(comparison: Comparison) -> dict[str, Any]:
    """Render the corrected numbers: cells for each run and each difference, and remarks."""
    numbers: list[CorrectedNumber] = comparison["corrected"]["numbers"]
    return {
        "title": f"Corrected by {', '.join(comparison['corrected']['files'])}",
        "header": ("run", comparison["words"], "95 %", "labels only", "95 %"),
        "rows": [
            (
                corrected.name,
                "–" if corrected.value is None else f"{corrected.value:.4f}",
                format_bounds(corrected.interval, "–"),
                "–" if corrected.labels_only is None else f"{corrected.labels_only:.4f}",
                format_bounds(corrected.labels_only_interval, "–"),
            )
            for corrected in numbers
        ],
        "tests": [
            f"{corrected.name}: {corrected.reason or describe_label_equivalent(corrected)[1]}"
            for corrected in numbers
        ],
    }


def _kappa_line(difference: Mapping[str, Any]) -> str:
    """Describe the difference of the kappas with its interval, or why there is none."""
    kappa = difference["kappa"]
    value, between = ("", kappa["reason"]) if kappa["value"] is None else difference_cells(kappa)
    return f"{difference['letter']}: κ {value} (95\u00a0%: {between})"


def show_comparison(comparison: Comparison) -> None:
    """Print a comparison."""
    words = render_comparison(comparison)
    say(words["title"])
    for run, run_words in zip(comparison["runs"], words["runs"], strict=True):
        say(f"{run['letter']}  {printable(run['path'])}")
        _say_lines(_INDENT, printable(run_words["about"]), run_words["left_out"])
    say("")
    _show_table(
        ("run", comparison["words"], "95 %", "difference", "95 %"),
        [run["cells"] for run in words["runs"]],
    )
    for difference, run_words in zip(comparison["differences"], words["differences"], strict=True):
        say("")
        _say_lines("", run_words["headline"])
        _say_lines(
            _INDENT,
            run_words["counts"],
            run_words["flips"],
            *run_words["tests"],
            *run_words["agreement"],
            run_words["needed"],
        )
        if difference["categories"]:
            _show_table(
                run_words["header"],
                [(printable(name), *cells) for name, *cells in run_words["rows"][1:]],
            )
        if difference["changed"]:
            say(f"{_INDENT}changed most:")
        for row in difference["changed"]:
            before = format_value(row["before"])
            after = format_value(row["after"])
            line = f"{_INDENT}{before} → {after}  {row['uid']}  {row['start']}"
            say(_truncate(printable(line)))
    for part in filter(None, (words["gold"], words["corrected"])):
        say("")
        show_gold(part)
    if words["succession"]:
        say("")
        _show_succession(words["succession"])
    say("")
    _say_lines("", *map(printable, words["differing"] + comparison["notes"]), words["method"])


def _show_succession(words: Mapping[str, Any]) -> None:
    """Print what changes with the judge (`render_succession`)."""
    _say_lines("", printable(words["title"]))
    _say_lines(_INDENT, *map(printable, words["lines"]))
    for table in words["tables"]:
        _say_lines(_INDENT, table["title"])
        _show_table(table["header"], [(printable(name), *cells) for name, *cells in table["rows"]])


def show_gold(words: Mapping[str, Any]) -> None:
    """Print how far runs or audits agree with gold (`render_gold`)."""
    _say_lines("", printable(words["title"]))
    _show_table(words["header"], words["rows"])
    _say_lines(_INDENT, *words["tests"])


def _show_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    show_table(Table(title="", header=header, rows=tuple(rows)))


def _say_lines(indent: str, *texts: str) -> None:
    """Print each non-empty text, wrapped at the width of the terminal."""
    for text in filter(None, texts):
        say(
            textwrap.fill(
                text, console().width, initial_indent=indent, subsequent_indent=indent + "  "
            )
        )


def _truncate(line: str) -> str:
    """Cut a line to the width of the terminal; without a terminal keep it whole."""
    out = console()
    if not out.is_terminal or len(line) <= out.width:
        return line
    return f"{line[: out.width - 1]}…"
