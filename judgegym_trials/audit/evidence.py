"""An audit as evidence on a card's judge."""

from __future__ import annotations

from pathlib import Path

from judgegym.judges.prompt_files.evidence import Figure
from judgegym.reports.results.evidence import write_evidence
from judgegym.reports.results.run import SavedRun
from judgegym_trials.audit.audit import Audit
from judgegym_trials.audit.decision import CheckResult


def write_audit(path: Path, run: SavedRun, result: Audit) -> None:
    """Add an audit of a run to the card of its judge.

    Raises:
        SettingsError: the card cannot be read or written, or the run had another judge.
    """
    figures = {
        check.name: figure for check in result.checks if (figure := _make_figure(check)) is not None
    }
    rows = [[row["uid"], row["gold"]] for row in result.judgments]
    write_evidence(path, run, "audit", rows, figures)


def _make_figure(check: CheckResult) -> Figure | None:
    """Return a measured check's number and interval."""
    if check.value is None:
        return None
    if check.interval is None:
        return Figure(value=check.value)
    return Figure(value=check.value, low=check.interval.low, high=check.interval.high)
