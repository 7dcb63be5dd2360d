"""`judgegym score --plan`: what a run would ask, and what that would cost. Nobody is asked.

The run's own judge, and its policy if there is one, go through a sample of the rows (`judgegym.engine.plan`). Of a run
that a plan is to resume, files are only read: neither its lock nor its files are touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.sample import ResponseJudge
from judgegym.datasets.score.clients import open_clients
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.saved import missing_tasks, place_of, read_response
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.command import interruptible
from judgegym.engine.plan.anchors import estimate_anchors
from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.earlier import EarlierRun
from judgegym.engine.plan.estimate import draw_rows, estimate
from judgegym.engine.plan.lines import Plan
from judgegym.engine.plan.opening import assumed_tokens, planning
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import SAMPLES, run_directory_of
from judgegym.judges.config.sources import LoadedSettings
from judgegym.judges.core.tasks import judge_responses
from judgegym.llm.ledger import recorded_in
from judgegym.offline.answers import known_prompts


async def plan_of(loaded: LoadedSettings[ScoreSettings], data: str, out: Path, *, run: Path | None) -> Plan:
    """Plan a run.

    Args:
        loaded: its settings, and where each was given.
        data: where the rows are.
        out: the file that it would write.
        run: the directory of the run to resume; `None` for a new one.

    Raises:
        UserError: the run would not begin either: the data or the settings are wrong, or the run cannot be read.
    """
    settings = loaded.settings
    dry = DryRun(parts=frozenset(settings.part_names), formats=known_prompts(settings))
    with planning():
        async with open_clients(loaded, settings.budget(), dry) as clients:
            with interruptible(is_profiled=settings.profile is not None):
                score = ScoreRun(settings, data, out, clients)
            tasks, judged = score.tasks, bytearray(score.tasks.places.count)
            for _, sample in () if run is None else read_lines(run / SAMPLES, read_response):
                if (place := place_of(sample, tasks)) is not None:
                    judged[place] = 1
            left = missing_tasks(tasks, (place for place, is_judged in enumerate(judged) if not is_judged))
            chosen = draw_rows(left, settings.seed)
            rows = frozenset(tasks.uid(number) for number in chosen)
            earlier = EarlierRun() if run is None else EarlierRun.read(run, rows)
            dry.reply_tokens = assumed_tokens(settings.plan, earlier, is_offline=settings.offline)
            dry.cached_share = earlier.cached_share
            judge = ResponseJudge(partial(judge_responses, score.scorer), settings, clients.policy)

            async def step(number: int) -> None:
                with recorded_in(earlier.row(tasks.uid(number)).begin()):
                    await judge(tasks[number])

            found = await estimate(dry, step, chosen, len(left))
            found += await estimate_anchors(dry, score.anchor_judge, run)
            return Plan(
                estimate=found,
                unit="row",
                head=[*_head(tasks, sum(judged) if settings.resume else None, len(left))],
                reply_tokens=dry.reply_tokens,
                clients=dry.clients,
                budget=settings,
                batch_share=settings.batch_share,
                earlier=(earlier,),
                cached_share=dry.cached_share,
                asks_for_several=dry.asks_for_several,
            )


def _head(tasks: ScoreTasks, judged: int | None, left: int) -> Iterator[tuple[str, str]]:
    empty = f", {tasks.empty:,} of them empty, which are not judged" if tasks.empty else ""
    equal = sum(number != first for number, first in enumerate(tasks.first_equal) if tasks.places.of_task(number))
    shared = f"; {equal:,} more are equal to one of the data and share its judgment" if equal else ""
    yield "rows", f"{len(tasks.numbers):,}"
    yield "responses", f"{tasks.places.count:,}{empty}"
    if judged is not None:
        yield "judged already", f"{judged:,} responses"
    yield "to judge", f"{left:,} rows or groups{shared}"


async def show_plan(loaded: LoadedSettings[ScoreSettings], data: str, out: Path) -> None:
    """Print the plan of a run; arguments and errors as of `plan_of`."""
    run = run_directory_of(out) if loaded.settings.resume else None
    plan = await plan_of(loaded, data, out, run=run)
    terminal.say("\n".join(plan.lines()))
