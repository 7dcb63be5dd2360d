"""Draw `curve.png`: one line for each setting, the mean over its seeds with their spread.

Colours are those of Okabe and Ito, which are distinct for any colour vision; lines also differ in
their dashes. The background is opaque, so that a dark page shows the same picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from examples.tiny_grpo.curve import Curve, across_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = (
    ("#0072B2", "-"),
    ("#D55E00", (0, (5, 2))),
    ("#009E73", (0, (1, 1))),
    ("#CC79A7", (0, (5, 1, 1, 1))),
)
_WIDTH, _ROW = 7.2, 0.95  # inches


@dataclass(frozen=True)
class Panel:
    """One of the stacked charts: a field of `Step`, its label, and its height in rows."""

    field: str
    label: str
    rows: int = 1


REWARD = Panel("reward", "mean reward", 2)
SHARE = Panel("letter_share", "share of the letter", 2)
FORMED = Panel("well_formed", "well-formed", 2)
GOLD = Panel("gold", "gold judge's score", 2)
LENGTH = Panel("length", "length in tokens", 2)
RATIO = Panel("ratio", "ratio")
CLIPPED = Panel("clip_fraction", "clipped")

LEARNING = (replace(REWARD, rows=3), RATIO, CLIPPED)
"""The panels of a training run."""


def draw_curves(
    path: Path, curves: Sequence[Curve], title: str, panels: Sequence[Panel] = LEARNING
) -> None:
    """Draw the curves to a PNG file; matplotlib is imported here, and needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [panel.rows for panel in panels]
    figure = Figure(
        figsize=(_WIDTH, _ROW * sum(rows) + 0.9), dpi=120, layout="constrained", facecolor="white"
    )
    FigureCanvasAgg(figure)
    charts = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=rows)[:, 0]
    for panel, chart in zip(panels, charts, strict=True):
        _draw(chart, panel, curves)
    seeds = max((len(curve.runs) for curve in curves), default=0)
    charts[0].set_title(title, loc="left", fontsize=11)
    if len(curves) > 1:
        charts[0].legend(frameon=False, fontsize=9)
    charts[-1].set_xlabel(
        f"step of the trainer (line: mean of {seeds} seeds, band: their standard deviation)"
    )
    figure.savefig(path, metadata={"Software": None})


def _draw(chart: Axes, panel: Panel, curves: Sequence[Curve]) -> None:
    for curve, (colour, dashes) in zip(curves, _STYLES, strict=False):
        points = across_seeds(curve.runs, panel.field)
        steps = range(1, len(points) + 1)
        means = [mean for mean, _ in points]
        chart.plot(steps, means, color=colour, linestyle=dashes, linewidth=1.6, label=curve.name)
        low = [mean - spread for mean, spread in points]
        high = [mean + spread for mean, spread in points]
        chart.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
        for step in (run.alarm for run in curve.runs if run.alarm is not None):
            chart.axvline(step, color=colour, linewidth=0.9, linestyle=(0, (1, 2)))
    chart.set_ylabel(panel.label, fontsize=9)
    chart.grid(color="#d9dee3", linewidth=0.6)
    chart.spines[["top", "right"]].set_visible(False)
    chart.tick_params(labelsize=8)
