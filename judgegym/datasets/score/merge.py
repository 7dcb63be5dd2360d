"""Merge N shards to one file and one run (`judgegym score --merge N`), without a judge call.

Guarantees: FILE has the bytes of one run over the whole data set (`files/shards.py`). The run
beside it has the lines and calls of all shards, identical to those of one run except for times.
Shards with different settings are not merged, nor a shard whose last run was stopped after an
earlier run had written its file.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from judgegym.data.rows import RowError
from judgegym.datasets.files.shards import list_shards, merge_shards
from judgegym.datasets.files.writer import read_quarantine
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.sample import compared_settings
from judgegym.datasets.score.input import read_input
from judgegym.datasets.score.results import conclude, write_quarantine
from judgegym.datasets.score.saved import open_run, read_ended, read_response
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import (
    CONFIG,
    FAILURES,
    METRICS,
    SAMPLES,
    locate_run_directory,
    read_settings,
)
from judgegym.engine.runs.recorded_calls import join_ledgers
from judgegym.environments.evaluate.evaluation import EvaluationResult
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.fields import declared_settings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.llm.errors import RunDirectoryError
from judgegym.reports.run_page.page import write_report_after

logger = logging.getLogger(__name__)


async def merge(
    settings: ScoreSettings, data: str, out: Path, count: int
) -> EvaluationResult | None:
    """Merge the shards beside a file into it; return the result, or `None` if they have no runs.

    Args:
        settings: the command's settings; settings of data and judge come from the shards' runs.
        data: the data set of the shards.
        out: the file to write.
        count: the number of shards.

    Raises:
        DataError: shards are missing, or were made from other rows.
        RunDirectoryError: only some shards have a run, a run has not ended, or the settings
            differ.
        UserError: the file cannot be written.
    """
    runs = [locate_run_directory(shard.path(out)) for shard in list_shards(count)]
    existing = [path for path in runs if (path / CONFIG).exists()]
    if existing and len(existing) < count:
        missing = next(path for path in runs if path not in existing)
        raise RunDirectoryError(
            f"{missing}: this shard has no run, and another shard has one: {existing[0]}"
        )
    for path in existing:
        # Metrics are written last: without them, the shard's file may be outdated.
        if not (path / METRICS).exists():
            raise RunDirectoryError(
                f"{path}: this run has not ended; run the shard's command again with --resume"
            )
    shard_settings = _common_settings(existing, settings, data, out) if existing else settings
    started = time.monotonic()
    score_input = read_input(shard_settings, data)
    await asyncio.to_thread(
        merge_shards, score_input.output_rows, out, count, score_input.group_starts(shard_settings)
    )
    if not existing:
        logger.warning(
            "the shards have no runs beside them, so %s has none: there is nothing to report", out
        )
        return None
    run = open_run(shard_settings, out)
    with closing(run), run.log.log_end():
        run.drop_results()
        await run.rewrite(lambda: _iter_lines(runs, SAMPLES), lambda: _iter_lines(runs, FAILURES))
        await run.disk.retry_until_written(
            run.path, lambda: join_ledgers(runs, run.path), in_thread=True
        )
        # The rows were checked before they were judged, so `check` accepts all.
        sampled, earlier = shard_settings.responses_per_prompt, score_input.earlier
        bad = dict[int, RowError]()
        for shard in list_shards(count):
            bad.update(read_quarantine(shard.path(out)))
        tasks = ScoreTasks(
            score_input.rows,
            shard_settings,
            lambda task: None,
            sampled=sampled,
            earlier=earlier,
            known_bad=bad,
        )
        await write_quarantine(tasks, out, run.disk)
        with closing(read_ended(tasks, run)) as saved:
            result = await conclude(shard_settings, score_input, tasks, saved, started)
        if shard_settings.write_report:
            await write_report_after(run.path, run.disk)
        return result


def _iter_lines(runs: Sequence[Path], name: str) -> Iterator[bytes]:
    for path in runs:
        for line, _ in read_lines(path / name, read_response):
            yield line.data.rstrip(b"\n") + b"\n"


def _common_settings(
    runs: Sequence[Path], settings: ScoreSettings, data: str, out: Path
) -> ScoreSettings:
    """Return the common settings of all runs.

    Raises:
        RunDirectoryError: settings that determine the results differ.
        SettingsError: a setting is wrong.
    """
    configs = [read_settings(path) for path in runs]
    first, *_ = compared = [compared_settings(config) for config in configs]
    for path, config in zip(runs, compared, strict=True):
        operational = {
            declared.name
            for declared in declared_settings(expand_choices(ScoreSettings))
            if declared.is_operational
        }
        compared_names = [name for name in {**first, **config} if name not in operational]
        differences = []
        for name in compared_names:
            there, here = first.get(name), config.get(name)
            if here != there:
                differences.append(f"{name}: {there!r} there, {here!r} here")
        if differences:
            raise RunDirectoryError(
                f"{path / CONFIG}: has other settings than {runs[0] / CONFIG}, so these are not "
                "shards of one run:\n  " + "\n  ".join(differences)
            )
    command_names = ("resume", "write_report", "max_judge_error_rate")
    overrides = {
        "data": data,
        "out": out,
        "shard": None,
        **{name: getattr(settings, name) for name in command_names},
    }
    defaults = (
        ScoreSettings().public()
    )  # a default column need not exist, but a named one must: drop the defaults
    explicit = {name: value for name, value in configs[0].items() if value != defaults.get(name)}
    return settings_from_keywords(
        ScoreSettings, {**explicit, **overrides}, prefix=f"{runs[0] / CONFIG}: "
    )
