"""Estimate the calls and the cost of a run (`judgegym score --plan`), without any call.

The run's own judge, and its policy if there is one, go through a sample of the rows
(`judgegym.engine.plan`). The files of a run to resume are only read, and its lock is not taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from judgegym.datasets.sample import ResponseJudge
from judgegym.datasets.score.clients import open_clients
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.saved import find_position, list_missing_tasks, read_response
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.command import interruptible
from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.earlier import EarlierRun
from judgegym.engine.plan.estimate import PlanEstimate, estimate_anchors
from judgegym.engine.plan.lines import Plan
from judgegym.engine.plan.planning import PlanOptions, PlanSource, plan_run, planning
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import SAMPLES, locate_run_directory
from judgegym.judges.config.sources import LoadedSettings
from judgegym.judges.core.tasks import judge_responses
from judgegym.llm.ledger import record_calls
from judgegym.offline.answers import load_known_prompts


class _ScoredRows(PlanSource):
    """The rows of `score`, or its groups of rows, to plan."""

    def __init__(self, run: ScoreRun, dry: DryRun) -> None:
        """Plan a run that has read its rows."""
        self._run, self._dry, self._tasks = run, dry, run.tasks
        self._judge = ResponseJudge(
            partial(judge_responses, run.scorer), run.settings, run.clients.policy
        )
        self._judged = self._left = 0

    def left(self, run: Path | None) -> Sequence[int]:
        """See `PlanSource`."""
        judged = bytearray(self._tasks.response_index.count)
        for _, sample in () if run is None else read_lines(run / SAMPLES, read_response):
            if (place := find_position(sample, self._tasks)) is not None:
                judged[place] = 1
        left = list_missing_tasks(
            self._tasks, (place for place, is_judged in enumerate(judged) if not is_judged)
        )
        self._judged, self._left = sum(judged), len(left)
        return left

    def uid(self, number: int) -> str:
        """See `PlanSource`."""
        return self._tasks.uid(number)

    async def step(self, earlier: EarlierRun, number: int) -> None:
        """See `PlanSource`."""
        with record_calls(earlier.row(self.uid(number)).begin()):
            await self._judge(self._tasks[number])

    async def estimate_rest(self, run: Path | None) -> PlanEstimate:
        """See `PlanSource`."""
        return await estimate_anchors(self._dry, self._run.anchor_judge, run)

    @property
    def head(self) -> Iterator[tuple[str, str]]:
        """See `PlanSource`."""
        tasks = self._tasks
        empty = f", {tasks.empty:,} of them empty, which are not judged" if tasks.empty else ""
        equal = sum(
            number != first
            for number, first in enumerate(tasks.first_equal)
            if tasks.response_index.find_task_positions(number)
        )
        shared = ""
        if equal:
            shared = f"; {equal:,} more are equal to one of the data and share its judgment"
        yield "rows", f"{len(tasks.numbers):,}"
        yield "responses", f"{tasks.response_index.count:,}{empty}"
        if self._run.settings.resume:
            yield "judged already", f"{self._judged:,} responses"
        yield "to judge", f"{self._left:,} rows or groups{shared}"


async def make_plan(
    loaded: LoadedSettings[ScoreSettings],
    data: str,
    out: Path,
    *,
    run: Path | None,
    dry: DryRun | None = None,
) -> Plan:
    """Plan a run.

    Args:
        loaded: the settings, and where each was set.
        data: the data set.
        out: the file that the run would write.
        run: the directory of the run to resume; `None` for a new one.
        dry: shared by several runs that are planned together; by default the run has its own.

    Raises:
            UserError: the run could not start either: the data or the settings are wrong, or the
                run to resume cannot be read.
    """
    settings, dry = loaded.settings, dry or DryRun()
    dry.parts, dry.formats = frozenset(settings.part_names), load_known_prompts(settings)
    options = PlanOptions(
        tokens=settings.plan,
        is_offline=settings.offline,
        seed=settings.seed,
        budget=settings,
        batch_share=settings.batch_share,
        run=run,
    )
    with planning():
        async with open_clients(loaded, settings.budget(), dry) as clients:
            with interruptible(is_profiled=settings.profile is not None):
                source = _ScoredRows(ScoreRun(settings, data, out, clients), dry)
            return await plan_run(source, dry, options)


async def show_plan(loaded: LoadedSettings[ScoreSettings], data: str, out: Path) -> None:
    """Print the plan of a run; arguments and errors are those of `make_plan`."""
    run = locate_run_directory(out) if loaded.settings.resume else None
    plan = await make_plan(loaded, data, out, run=run)
    terminal.say("\n".join(plan.lines()))
