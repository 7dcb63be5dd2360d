"""The table of all metrics."""

from __future__ import annotations

from collections.abc import Mapping

from judgegym.engine.metrics import Metrics
from judgegym.engine.terminal.output import console, say

_VALUE_WIDTH = 30


def show_all_metrics(title: str, metrics: Metrics, notes: Mapping[str, str]) -> None:
    """Print the table of all metrics, and the metrics that are left out.

    Args:
        title: what was run.
        metrics: the metrics.
        notes: what a metric with a misleading name means, by full name.
    """
    from rich.table import Table as RichTable
    from rich.text import Text

    out = console()
    if not out.is_terminal and metrics.values:  # whoever reads it from a file wants the names whole
        noted = max(map(len, notes.values()), default=0)
        out.width = max(out.width, max(map(len, metrics.values)) + _VALUE_WIDTH + noted)
    drawn = RichTable(title=Text(title), title_justify="left")
    drawn.add_column("metric", overflow="fold")
    drawn.add_column("value", justify="right")
    if notes.keys() & metrics.values.keys():
        drawn.add_column("", overflow="fold")
    for name, value in metrics.values.items():
        note = [notes[name]] if name in notes else []
        drawn.add_row(name, f"{value:.4f}" if isinstance(value, float) else str(value), *note)
    for name in metrics.unknown:
        drawn.add_row(name, "unknown")
    out.print(drawn)
    by_reason: dict[str, list[str]] = {}
    for name, reason in metrics.left_out.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        say(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} left out: {reason}")
