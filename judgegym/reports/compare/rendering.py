"""A comparison as lines and cells: terminal and page show the same text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from judgegym.engine.terminal import Table, console, say, show_table
from judgegym.engine.terminal.output import counted, printable
from judgegym.reports.compare.comparison import LEVEL, Comparison
from judgegym.reports.labels.correction import CorrectedNumber
from judgegym.reports.labels.rendering import bounds, label_equivalent
from judgegym.statistics.agreement import Interval
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
        `title`, `method`, `differing` and `notes` in lines; of each run (`runs`) who was evaluated
        and judged, what is left out, and its cells; of each difference (`differences`) its lines
        and cells; of `gold` and `corrected` the same.
    """
    item, gold, differences = comparison["item"], comparison["gold"], comparison["differences"]
    count = len(comparison["runs"])
    shared = "both runs" if count == 2 else f"all {count} runs"
    settings = comparison["settings"]
    resamples = (
        f"{settings['rounds']:,} resamples of {comparison['unit']}s, seed {settings['seed']}"
    )
    of_kappa = f" Those of κ: paired bootstrap, {resamples}." if gold else ""
    return {
        "title": f"{comparison['environment']}: {comparison['words']} on the "
        f"{counted(comparison['rows'], item)} that "
        f"{shared} share",
        "runs": [
            _run(run, item, None if not number else differences[number - 1]["difference"])
            for number, run in enumerate(comparison["runs"])
        ],
        "differences": [_difference(comparison, each) for each in differences],
        "gold": gold and gold_words(comparison, gold),
        "corrected": comparison["corrected"] and _corrected(comparison),
        "differing": [f"The {each.condition} differs: {each}" for each in comparison["differing"]],
        "method": f"Intervals: {100 * settings['level']:g} %, {comparison['intervals']} over "
        f"{comparison['unit']}s, "
        f"paired; they are not corrected for the number of runs or categories.{of_kappa}",
    }


def number(value: float | None, reason: str = "") -> str:
    """A value of the metric, or why there is none."""
    return f"undefined ({reason})" if value is None else f"{value:.4f}"


def _signed(value: float) -> str:
    return "0.0000" if round(value, 4) == 0 else f"{value:+.4f}".replace("-", "−")


def _cells(estimate: Mapping[str, Any] | None) -> tuple[str, str]:
    """A difference, and its interval or why there is none; empty for the reference."""
    if estimate is None:
        return "", ""
    interval: Interval | None = estimate["interval"]
    between = (
        estimate["reason"]
        if interval is None
        else f"{_signed(interval.low)} to {_signed(interval.high)}"
    )
    return _signed(estimate["value"]), between


def _share(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"


def _run(run: Mapping[str, Any], item: str, difference: Mapping[str, Any] | None) -> dict[str, Any]:
    """Who was evaluated and judged, and when: a policy that is the judge is named once; which rows are left out."""
    judged = "" if run["judge"] == run["policy"] else f", judged by {run['judge']}"
    counts = {
        "that another run lacks": run["not_shared"],
        "failed": run["failed"],
        "that do not count in this metric": run["uncounted"],
    }
    said = ", ".join(f"{count:,} {why}" for why, count in counts.items() if count)
    return {
        "about": f"{run['policy']}{judged}, {run['date']}",
        "left_out": f"left out of its {counted(run['rows'], item)}: {said}" if said else "",
        "cells": (
            run["letter"],
            number(run["headline"]),
            bounds(run["interval"], "–"),
            *_cells(difference),
        ),
    }


def _difference(comparison: Comparison, found: Mapping[str, Any]) -> dict[str, Any]:
    """The difference in a line, what is said below it, and a line of cells for all rows and for each category."""
    item, letter, estimate = comparison["item"], found["letter"], found["difference"]
    value, between = _cells(estimate)
    run = next(run for run in comparison["runs"] if run["letter"] == letter)
    everything = {
        "name": f"all {item}s",
        "rows": comparison["rows"],
        "reference": comparison["runs"][0]["headline"],
        "run": run["headline"],
        "difference": estimate,
    }
    return {
        "headline": f"{letter} − A: {comparison['words']} {value} "
        f"({'no interval' if estimate['interval'] is None else '95 %'}: {between})",
        "counts": f"higher in {counted(found['higher'], item)}, lower in {found['lower']:,}, the same in "
        f"{found['same']:,}",
        "flips": _flips(found["transitions"]),
        "tests": [_test(comparison, each) for each in found["tests"]],
        "agreement": _agreement(comparison, found["agreement"]) if found["agreement"] else [],
        "needed": _needed(comparison["unit"], found),
        "header": ("category", f"{item}s", "A", letter, "difference", "95 %"),
        "rows": [
            (
                "(no category)" if each["name"] is None else each["name"],
                f"{each['rows']:,}",
                number(each["reference"]),
                number(each["run"]),
                *_cells(each["difference"]),
            )
            for each in (everything, *found["categories"])
        ],
    }


def _flips(transitions: list[dict[str, Any]]) -> str:
    """How many rows went from one outcome to another, the widest changes first; empty for scores."""
    places = {
        name: place
        for place, name in enumerate(dict.fromkeys(each["before"] for each in transitions))
    }
    moved = [each for each in transitions if each["before"] != each["after"]]
    moved.sort(
        key=lambda each: (
            -abs(places[each["after"]] - places[each["before"]]),
            -places[each["before"]],
        )
    )
    if moved and not any(each["rows"] for each in moved):
        return "no row has another outcome"
    return ", ".join(f"{each['before']} → {each['after']}: {each['rows']:,}" for each in moved)


def _test(comparison: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """A test with its p-value and the rows that it rests on."""
    test, corrected = result["test"], result["corrected"]
    if test.p is None:
        return f"{_TESTS[test.name]}: no p-value, since {test.reason}"
    also = "" if corrected is None else f" (corrected {_p(corrected)})"
    differing = counted(test.higher + test.lower, comparison["unit"])
    return f"{_TESTS[test.name]}: p {_p(test.p)}{also}, over the {differing} that differ"


def _p(p: float) -> str:
    return f"< {_SMALLEST_P}" if p < _SMALLEST_P else f"= {p:.4f}"


def _needed(unit: str, difference: Mapping[str, Any]) -> str:
    """How many more rows would settle the difference."""
    needed = difference["needed"]
    if needed.rows is None:
        return f"{unit.capitalize()}s that would settle it: unknown, since {needed.reason}."
    size = f"a difference of this size takes about {counted(needed.rows, unit)} (80\u00a0% power)"
    if difference["settled"]:
        return f"The interval excludes 0{_corrected_words(difference)}; {size}."
    if difference["p"] is not None and difference["p"] < 1 - LEVEL:
        return (
            "The interval excludes 0, but not corrected for the number of "
            f"runs{_corrected_words(difference)}; {size}."
        )
    if not difference["more"]:
        return f"The interval includes 0, although {size}."
    return f"The interval includes 0; {size}, {difference['more']:,} more than there are."


def _corrected_words(difference: Mapping[str, Any]) -> str:
    """The p-value of no difference over all runs; empty with one beside the reference."""
    p = difference["p_corrected"]
    return "" if p is None else f" (corrected p {_p(p)})"


def _agreement(comparison: Comparison, found: Mapping[str, Any]) -> list[str]:
    """How far the judges agree: on scores or outcomes, on labels, on the best responses of a prompt."""
    what = "score" if comparison["kind"] == "score" else "outcome"
    weights = " (quadratic weights)" if found["weighted"] else ""
    said = [
        f"the judges give the same {what} to {_share(found['same'])} of the {comparison['item']}s; "
        f"Cohen's κ{weights} "
        f"{number(found['kappa'], found['kappa_reason'])}; Spearman's correlation "
        f"{number(found['correlation'], found['correlation_reason'])}"
    ]
    labels, best = found["labels"], found["best"]
    if labels is not None:
        same = (
            f"they give the same to {_share(labels['same'])}; Cohen's κ {number(labels['kappa'])}"
        )
        said.append(f"of {len(labels['labels'])} labels {same}")
    if best is not None:
        said.append(
            f"of {counted(best['prompts'], 'prompt')} with several responses, they find the same "
            "responses best in "
            f"{_share(best['same'])}, and at least one best response in common in "
            f"{_share(best['overlapping'])}"
        )
    return said


def gold_words(comparison: Mapping[str, Any], gold: Mapping[str, Any]) -> dict[str, Any]:
    """What the runs are compared with gold on; a line of cells for each; the tests of their differences."""
    left_out = (
        f"; {gold['without']:,} left out, without a verdict in a run" if gold["without"] else ""
    )
    weights = ", κ with quadratic weights" if gold["weighted"] else ""
    labels = f"{counted(gold['labels'], 'label')} of {counted(gold['rows'], comparison['item'])}"
    differences = {each["letter"]: each["accuracy"] for each in gold["differences"]}
    return {
        "title": f"Agreement with gold on {labels} (accuracy{weights}{left_out})",
        "header": _GOLD_HEADER,
        "rows": [
            (
                run["letter"],
                number(run["accuracy"]),
                bounds(run["interval"], "–"),
                number(run["kappa"], run["kappa_reason"]),
                bounds(run["kappa_interval"], "–"),
                *_cells(differences.get(run["letter"])),
            )
            for run in gold["runs"]
        ],
        "tests": [
            line
            for each in gold["differences"]
            for line in (f"{each['letter']}: {_test(comparison, each['test'])}", _kappa_line(each))
        ],
    }


def _corrected(comparison: Comparison) -> dict[str, Any]:
    """The corrected numbers: a line of cells for each run and each difference, and what is to be said of them."""
    numbers: list[CorrectedNumber] = comparison["corrected"]["numbers"]
    return {
        "title": f"Corrected by {', '.join(comparison['corrected']['files'])}",
        "header": ("run", comparison["words"], "95 %", "labels only", "95 %"),
        "rows": [
            (
                each.name,
                "–" if each.value is None else f"{each.value:.4f}",
                bounds(each.interval, "–"),
                "–" if each.labels_only is None else f"{each.labels_only:.4f}",
                bounds(each.labels_only_interval, "–"),
            )
            for each in numbers
        ],
        "tests": [f"{each.name}: {each.reason or label_equivalent(each)[1]}" for each in numbers],
    }


def _kappa_line(difference: Mapping[str, Any]) -> str:
    """The difference of the kappas with its interval, or why there is none."""
    kappa = difference["kappa"]
    value, between = ("", kappa["reason"]) if kappa["value"] is None else _cells(kappa)
    return f"{difference['letter']}: κ {value} (95\u00a0%: {between})"


def show(comparison: Comparison) -> None:
    """Print a comparison."""
    words = render_comparison(comparison)
    say(words["title"])
    for run, said in zip(comparison["runs"], words["runs"], strict=True):
        say(f"{run['letter']}  {printable(run['path'])}")
        _lines(_INDENT, printable(said["about"]), said["left_out"])
    say("")
    _table(
        ("run", comparison["words"], "95 %", "difference", "95 %"),
        [run["cells"] for run in words["runs"]],
    )
    for difference, said in zip(comparison["differences"], words["differences"], strict=True):
        say("")
        _lines("", said["headline"])
        _lines(
            _INDENT,
            said["counts"],
            said["flips"],
            *said["tests"],
            *said["agreement"],
            said["needed"],
        )
        if difference["categories"]:
            _table(said["header"], [(printable(name), *cells) for name, *cells in said["rows"][1:]])
        if difference["changed"]:
            say(f"{_INDENT}changed most:")
        for row in difference["changed"]:
            line = (
                f"{_INDENT}{number(row['before'])} → {number(row['after'])}  {row['uid']}  "
                f"{row['start']}"
            )
            say(_cut(printable(line)))
    for part in filter(None, (words["gold"], words["corrected"])):
        say("")
        show_gold(part)
    say("")
    _lines("", *map(printable, words["differing"] + comparison["notes"]), words["method"])


def show_gold(words: Mapping[str, Any]) -> None:
    """Print how far runs or audits agree with gold (`gold_words`)."""
    _lines("", printable(words["title"]))
    _table(words["header"], words["rows"])
    _lines(_INDENT, *words["tests"])


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    show_table(Table(title="", header=header, rows=tuple(rows)))


def _lines(indent: str, *texts: str) -> None:
    """Print each text that is not empty, wrapped at the width of the terminal."""
    for text in filter(None, texts):
        say(
            textwrap.fill(
                text, console().width, initial_indent=indent, subsequent_indent=indent + "  "
            )
        )


def _cut(line: str) -> str:
    """The line as long as the terminal is wide; whole where there is none."""
    out = console()
    return line if not out.is_terminal or len(line) <= out.width else f"{line[: out.width - 1]}…"
