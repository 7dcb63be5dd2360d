"""`--plan`: prints what a run would ask, and asks nobody."""

from __future__ import annotations

from pathlib import Path

from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.plan.asking import CountingClient
from judgegym.datasets.score.plan.lines import budget_line, plan_lines
from judgegym.datasets.score.plan.planning import plan_of
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.runs.directory import run_directory_of
from judgegym.environments.command_line.signals import interruptible


async def show_plan(settings: ScoreSettings, data: str, out: Path) -> None:
    """Print the plan of a run.

    Args:
        settings: of the run; with `resume` what is there of it is taken off.
        data: where the rows are.
        out: the file that the run would write.

    Raises:
        UserError: the run would not begin either: the data or the settings are wrong, or the run cannot be read.
    """
    with interruptible(is_profiled=settings.profile is not None):
        units = ScoreRun(settings, data, out, ScoreClients(CountingClient(settings))).units
    plan = await plan_of(settings, units, run=run_directory_of(out) if settings.resume else None)
    for line in plan_lines(plan):
        terminal.say(line)
    budget = budget_line(plan, settings.budget_calls, settings.budget_usd)
    if budget is not None:
        terminal.say(f"\n{budget}")
