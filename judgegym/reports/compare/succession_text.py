"""Render a succession as lines and tables, which terminal and page share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judgegym.engine.terminal.output import format_count
from judgegym.reports.compare.difference_text import difference_cells
from judgegym.reports.results.run import SCORED
from judgegym.statistics import percent
from judgegym.statistics.paired import RowsForWidth

_CROSSINGS = ("rows", "A", "B", "rise", "fall", "difference", "95 %")


def render_succession(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Render what changes if B's judge replaces A's.

    Returns:
        A `title`, `lines`, and `tables` with `title`, `header` and `rows` of cells.
    """
    succession = comparison["succession"]
    old, new = (judge["name"] for judge in succession["judges"])
    return {
        "title": f"Succession from {old} to {new}",
        "lines": [
            *_describe_dates(succession),
            *_describe_pilot(comparison),
            *_describe_cascade(succession),
            *_describe_anchors(comparison),
            *_describe_unknown_rows(comparison),
            "No score is converted: thresholds and gates are applied to both judges as they are.",
        ],
        "tables": [*_list_tables(comparison)],
    }


def _describe_dates(succession: Mapping[str, Any]) -> Iterator[str]:
    """Yield when each model ends, as far as that is known."""
    for letter, judge in zip("AB", succession["judges"], strict=True):
        for model in judge["models"]:
            if model["end"] is not None:
                yield f"The judge of {letter}: {model['end']} (at {model['provider']})."
            elif model["not_before"] is not None:
                yield (
                    f"The judge of {letter}: {model['name']} will not be retired before "
                    f"{model['not_before']} (at {model['provider']})."
                )


def _describe_pilot(comparison: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many rows of the old run a pilot has, and which categories are not compared.

    A run whose rows have failed in part is no pilot.
    """
    succession, item = comparison["succession"], comparison["item"]
    old, new = (run["rows"] for run in comparison["runs"])
    if new < old:
        count = format_count(old, item)
        yield f"B is a pilot: {new:,} of A's {count}."
        if comparison["environment"] == SCORED:
            yield (
                "If they are the first ones, as `judgegym score --limit` takes them, the shift of "
                "the others may differ."
            )
    missing = succession["missing_categories"]
    if missing:
        shown = ", ".join(missing[:5])
        more = ""
        if len(missing) > 5:
            more_count = len(missing) - 5
            more = f" and {more_count} more"
        yield f"No compared {item} is of these categories of A: {shown}{more}."


def _describe_cascade(succession: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many rows the cascade's strong judge decides, and what its threshold is worth."""
    cascade = succession["escalation"]
    if cascade is None:
        return
    rows = cascade["rows"]
    if not rows:
        yield "A is a cascade, B is none: nothing is escalated, and its promise does not apply."
        return
    before, after = (percent(cascade[side] / rows) for side in ("before", "after"))
    yield (
        f"The cascade (threshold {cascade['threshold']:g} of {cascade['confidence']}) escalates "
        f"{before} of {rows:,} rows in A, {after} in B."
    )
    promise = "Its threshold was"
    if cascade["harm"] is not None:
        harm = percent(cascade["harm"])
        promise = f"The threshold and the promise of {harm} were"
    yield (
        f"{promise} chosen for A's judges: choose again with `judgegym replay --choose` from runs "
        "of B's judges."
    )


def _describe_anchors(comparison: Mapping[str, Any]) -> Iterator[str]:
    """Yield what becomes of the anchors' baseline."""
    anchors = comparison["succession"]["anchors"]
    if anchors is None:
        return
    started = "B has started its own"
    if not anchors["has_new"]:
        started = "the first run of B's judge with --anchors starts its own"
    yield (
        f"Anchors: the baseline of {anchors['rows']:,} anchors is of A's judge and settings; "
        f"{started}, and drift is tested from there."
    )
    old, new = anchors["agreeing"]
    if old is not None and new is not None:
        yield f"Anchors: A agrees with {old:,} labels, B with {new:,}."


def _describe_unknown_rows(comparison: Mapping[str, Any]) -> Iterator[str]:
    """Yield why no number of rows is known, once for all half widths."""
    half_widths, unit = comparison["succession"]["half_widths"], comparison["unit"]
    if half_widths and half_widths[0].rows is None:
        yield f"How many {unit}s the shift takes is unknown: {half_widths[0].reason}."


def _list_tables(comparison: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tables: thresholds, gates, and rows for an interval."""
    succession = comparison["succession"]
    items, units = (f"{comparison[name]}s" for name in ("item", "unit"))
    if succession["thresholds"]:
        yield {
            "title": f"{items} that reach a threshold",
            "header": ("at least", *_CROSSINGS),
            "rows": [
                _crossing_cells(f"{crossing['threshold']:g}", crossing)
                for crossing in succession["thresholds"]
            ],
        }
    if succession["gates"]:
        yield {
            "title": f"{items} that pass A's gates",
            "header": ("gate", *_CROSSINGS),
            "rows": [
                _crossing_cells(f"{gate['name']} ≥ {gate['threshold']:g}", gate)
                for gate in succession["gates"]
            ],
        }
    half_widths = [*_list_half_widths(succession["half_widths"])]
    if half_widths:
        yield {
            "title": f"{units} that the shift takes to ± x (95 %)",
            "header": ("±", units, "90 %"),
            "rows": half_widths,
        }


def _crossing_cells(name: str, crossing: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a threshold: rows that pass, and the difference of their shares."""
    counts = (crossing[column] for column in ("rows", "before", "after", "rise", "fall"))
    if crossing["difference"] is None:
        cells = ("–", "no row has this score in both runs")
    else:
        cells = difference_cells(crossing["difference"])
    return (name, *(f"{count:,}" for count in counts), *cells)


def _list_half_widths(half_widths: Sequence[RowsForWidth]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each half width whose number of rows is known."""
    for needed in half_widths:
        interval = needed.interval
        if interval is not None:
            between = f"{interval.low:,.0f} to {interval.high:,.0f}"
            yield f"{needed.half_width:.4g}", f"{needed.rows:,}", between
