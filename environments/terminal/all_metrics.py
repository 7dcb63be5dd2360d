"""The table of all metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from environments.metrics import Metrics
from environments.terminal.output import console, say

_VALUE_WIDTH = 30


@dataclass(frozen=True, slots=True)
class MetricDisplay:
    """How the metrics of a run are shown.

    Attributes:
        headline: full name and label of the metric to quote, which is shown apart.
        notes: what a metric with a misleading name means, by full name.
        elsewhere: metrics that other tables of the run show.
    """

    headline: tuple[str, str] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()


def show_metrics(
    title: str, metrics: Metrics, notices: Sequence[str], display: MetricDisplay = MetricDisplay()
) -> None:
    """Print the table of metrics, the metrics that were left out, the notices, and the headline."""
    from rich.table import Table as RichTable
    from rich.text import Text

    out = console()
    if not out.is_terminal and metrics.values:  # whoever reads it from a file wants the names whole
        noted = max(map(len, display.notes.values()), default=0)
        out.width = max(out.width, max(map(len, metrics.values)) + _VALUE_WIDTH + noted)
    drawn = RichTable(title=Text(title), title_justify="left")
    drawn.add_column("metric", overflow="fold")
    drawn.add_column("value", justify="right")
    if display.notes.keys() & metrics.values.keys():
        drawn.add_column("", overflow="fold")
    for name, value in metrics.values.items():
        if name not in display.elsewhere:
            note = [display.notes[name]] if name in display.notes else []
            drawn.add_row(name, f"{value:.4f}" if isinstance(value, float) else str(value), *note)
    for name in metrics.unknown:
        drawn.add_row(name, "unknown")
    out.print(drawn)
    if display.elsewhere:
        say(f"{len(display.elsewhere & metrics.values.keys())} more metrics, of single models, are in metrics.json")
    by_reason: dict[str, list[str]] = {}
    for name, reason in metrics.left_out.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        say(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} left out: {reason}")
    if display.headline is not None and display.headline[0] in metrics.values:
        say(_headline(metrics, *display.headline))
    for notice in notices:
        say(notice)


def _headline(metrics: Metrics, name: str, words: str) -> str:
    bounds = [metrics.values.get(f"{name}_{end}") for end in ("ci_low", "ci_high")]
    low, high = (None if bound is None else f"{bound:.4f}" for bound in bounds)
    interval = f" (95 %: {low} to {high})" if low is not None and high is not None else ""
    return f"The result: {words} {metrics.values[name]:.4f}{interval}, {name}"
