"""The end of a run whose responses have all ended: its metrics, `metrics.json`, and what is to be said of it.

Guarantee: what is computed comes from the lines on disk, in a thread, so that a signal is heard meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from judgegym.data.provenance import DatasetRead
from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.score.input import AnswersOf
from judgegym.datasets.score.results.file import RunTitle, metrics_file
from judgegym.datasets.score.results.numbers import HEADLINE, MOST_CATEGORIES, ScoreNumbers, score_numbers
from judgegym.datasets.score.results.summary import Part, failed, summary_of, too_many_failures
from judgegym.datasets.score.saved import SavedResponses
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.metrics import Metrics
from judgegym.engine.runs.directory import RunDirectory
from judgegym.environments.evaluate.metrics_file import EvaluatedRows
from judgegym.environments.evaluate.saved import Outcomes


@dataclass(frozen=True, slots=True)
class Result:
    """The numbers of a run.

    Attributes:
        statuses: how many responses ended with each status.
        metrics: the metrics.
        summary: what the terminal shows.
        problem: why the command must fail, or `None`.
    """

    statuses: Counter[str]
    metrics: Metrics
    summary: terminal.Summary
    problem: str | None


@dataclass(frozen=True, slots=True)
class ScoreOutput:
    """What a command has written.

    Attributes:
        out: the file.
        run: the run directory; `None` for merged shards that had none.
        result: the numbers of the run; `None` without one.
    """

    out: Path
    run: Path | None = None
    result: Result | None = None

    @property
    def problem(self) -> str | None:
        """Why the command must fail, or `None`."""
        return None if self.result is None else self.result.problem


async def concluded(
    settings: ScoreSettings,
    units: ScoreTasks,
    saved: SavedResponses,
    run: RunDirectory,
    *,
    datasets: Sequence[DatasetRead],
    answers_of: AnswersOf | None,
    notices: Sequence[str],
    part: Part,
) -> Result:
    """Compute the metrics, write `metrics.json` and the log.

    Args:
        settings: of the run.
        units: of the run.
        saved: its responses, each with a line.
        run: the run directory.
        datasets: what was read.
        answers_of: the run that judged the same responses before, if there is one.
        notices: of the judge's client.
        part: what this command has done.

    Raises:
        DiskFull: the disk refused for too long.
    """
    outcomes = saved.outcomes()
    numbers = await asyncio.to_thread(score_numbers, units, saved, outcomes, settings.thinking_mode, seed=settings.seed)
    said = [*notices, *_notices(settings, numbers)]
    rows = EvaluatedRows(outcomes.rows, numbers.digest, datasets, part.seconds, part.finish_reasons)
    await run.write_metrics(metrics_file(settings, rows, numbers, said, answers_of))
    problem = too_many_failures(outcomes, settings.max_judge_error_rate)
    _log(run, numbers.metrics, outcomes, problem)
    summary = summary_of(RunTitle.of(settings, answers_of).title, numbers, outcomes, part, run.path, said)
    return Result(outcomes.statuses, numbers.metrics, summary, problem)


def _notices(settings: ScoreSettings, numbers: ScoreNumbers) -> list[str]:
    """What a reader of the numbers must know."""
    said = [terminal.offline_notice(settings.stand_ins)] if settings.offline else []
    if len(numbers.categories) > MOST_CATEGORIES:
        said.append(
            f"{settings.category_column} has {len(numbers.categories):,} values; the {MOST_CATEGORIES} most frequent "
            "have metrics of their own."
        )
    return said


def _log(run: RunDirectory, metrics: Metrics, outcomes: Outcomes, problem: str | None) -> None:
    value = metrics.values.get(f"eval/{HEADLINE}")
    if value is not None:
        run.log.write(f"eval/{HEADLINE}: {value:.4f}")
    count = failed(outcomes)
    if count:
        line = f"{count} of {outcomes.rows} responses have no score; the last error: {outcomes.last_error}"
        run.log.write(line, logging.WARNING)
    if problem is not None:
        run.log.write(problem, logging.ERROR)
