"""The pages of the command itself: the list of runs, and what is said where there is nothing to show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judgegym.reports.compare.conditions import Condition
from judgegym.reports.pages.document import base_style, document, render
from judgegym.reports.view.entries import Entry

_STATIC = Path(__file__).parent / "static"


def listing(folder: str, entries: Sequence[Entry]) -> bytes:
    """The list of the runs in a folder."""
    body = render("view.html", folder=folder, entries=entries)
    return _page("Runs", body, [(_STATIC / "view.js").read_text("utf-8")])


def problem(title: str, reason: str) -> bytes:
    """Why there is nothing to show."""
    return _page(title, render("view_problem.html", title=title, reason=reason, across=None, keys=[], label=""))


def refused(reason: str, keys: Sequence[str], across: Sequence[Condition], conditions: Sequence[Condition]) -> bytes:
    """Why runs are not compared, and a way to compare them all the same, if there is one.

    Args:
        reason: the comparison's own words.
        keys: the runs.
        across: the conditions that were allowed to differ.
        conditions: those that differ and were not allowed to; empty if the runs cannot be compared at all.
    """
    title = "These runs are not compared"
    allowed = [*dict.fromkeys([*across, *conditions])] if conditions else None
    label = " and ".join("judges" if condition == "judge" else condition for condition in conditions)
    return _page(title, render("view_problem.html", title=title, reason=reason, across=allowed, keys=keys, label=label))


def _page(title: str, body: str, scripts: Sequence[str] = ()) -> bytes:
    styles = [base_style(), (_STATIC / "view.css").read_text("utf-8")]
    return b"".join(document(title=title, body=body, styles=styles, scripts=scripts, sends_forms=True))
