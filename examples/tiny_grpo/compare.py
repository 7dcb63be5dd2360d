"""Trains with a rule and without it, and says what came of it: a picture, a file and a table for each comparison."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from environments.terminal.output import say
from examples.tiny_grpo.comparisons import Comparison
from examples.tiny_grpo.curve import WINDOW, Curve, write_curves
from examples.tiny_grpo.picture import Panel, draw_curves
from examples.tiny_grpo.run import Plan, train_seeds
from examples.tiny_grpo.tasks import Task


async def compare(comparisons: Sequence[Comparison], plan: Callable[[Task, str], Plan], folder: Path) -> int:
    """Run all comparisons, one training after the other; returns the exit code."""
    began = time.monotonic()
    for comparison in comparisons:
        chosen = f"--compare={comparison.name}"
        curves = [await train_seeds(plan(task, chosen)) for task in (comparison.rule, comparison.without)]
        write_curves(folder / f"{comparison.name}.json", curves)
        picture = folder / f"{comparison.name}.png"
        await asyncio.to_thread(draw_curves, picture, curves, comparison.title, comparison.panels)
        say(table(comparison, curves))
        say(str(picture))
    say(f"compared in {time.monotonic() - began:.0f} s")
    return 0


def table(comparison: Comparison, curves: Sequence[Curve]) -> str:
    """The means of the last steps as a table in Markdown: over the seeds, with their standard deviation."""
    names = [panel.label for panel in comparison.panels]
    lines = [
        f"{comparison.title}: means of the last {WINDOW} steps, ± standard deviation over the seeds",
        f"| | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    lines += [
        f"| {curve.name} | {' | '.join(_cell(curve, panel) for panel in comparison.panels)} |" for curve in curves
    ]
    return "\n".join(lines)


def _cell(curve: Curve, panel: Panel) -> str:
    means = [fmean(getattr(step, panel.field) for step in run.steps[-WINDOW:]) for run in curve.runs]
    return f"{fmean(means):.2f}" + (f" ± {stdev(means):.2f}" if len(means) > 1 else "")
