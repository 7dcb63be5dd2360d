"""Train with a rule and without it; each comparison gives a picture, a file and a table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from examples.tiny_grpo.comparisons import Comparison
from examples.tiny_grpo.curve import WINDOW, Curve, write_curves
from examples.tiny_grpo.hacking import show_alarms
from examples.tiny_grpo.picture import draw_curves
from examples.tiny_grpo.run import Plan, train_seeds
from examples.tiny_grpo.tasks import Task
from judgegym.engine.terminal.output import say


async def compare(
    comparisons: Sequence[Comparison], plan: Callable[[Task, str], Plan], folder: Path
) -> int:
    """Run all comparisons, one training after the other, and return the exit code.

    It is 1 if an alarm was late, missing, or without a reason.
    """
    began, are_shown = time.monotonic(), True
    for comparison in comparisons:
        tasks = (comparison.rule, comparison.without, *comparison.further)
        chosen = f"--compare={comparison.name}"
        curves = [await train_seeds(plan(task, chosen)) for task in tasks]
        write_curves(folder / f"{comparison.name}.json", curves)
        picture = folder / f"{comparison.name}.png"
        await asyncio.to_thread(draw_curves, picture, curves, comparison.title, comparison.panels)
        say(table(comparison, curves))
        say(str(picture))
        if comparison.rule.others:
            are_shown &= show_alarms(*curves)
            say(f"the pages of the runs: {folder}/*/seed-*/serve/report.html")
    say(f"compared in {time.monotonic() - began:.0f} s")
    if are_shown:
        return 0
    return 1


def table(comparison: Comparison, curves: Sequence[Curve]) -> str:
    """Return a Markdown table of the last steps' means, with their deviation over the seeds."""
    names = [
        *(panel.label for panel in comparison.panels),
        f"{comparison.measure.label}, all steps",
    ]
    lines = [
        f"{comparison.title}: means of the last {WINDOW} steps, ± standard deviation over the "
        "seeds",
        f"| | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for curve in curves:
        last = [_mean(curve, panel.field, WINDOW) for panel in comparison.panels]
        cells = " | ".join([curve.name, *last, _mean(curve, comparison.measure.field)])
        lines.append(f"| {cells} |")
    return "\n".join(lines)


def _mean(curve: Curve, field: str, last: int = 0) -> str:
    """Format the mean over the last steps (0: all steps) of all seeds."""
    means = [fmean(getattr(step, field) for step in run.steps[-last:]) for run in curve.runs]
    if len(means) > 1:
        return f"{fmean(means):.2f} ± {stdev(means):.2f}"
    return f"{fmean(means):.2f}"
