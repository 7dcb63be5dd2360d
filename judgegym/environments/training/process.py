"""`process`: write the groups that `serve` would send to a JSONL file, with an HTML page, without a trainer.

Guarantees: which rows become groups does not depend on who answered first: they are the first ones, in the order of the
sampler, whose groups are not dropped. A run directory beside the file holds the ledger of calls, from which a run that
was stopped is resumed: its rows run again, without asking again for what was answered, and the file in the end is that
of a run that was not stopped. Calls that failed are made again; a group that is now of use takes the place of the last
one, which had stood in for it.

The summary of `process`: headline, groups, rewards, outcomes, what went wrong, cost and time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgegym.data.task_list import select
from judgegym.engine.loop import run_each
from judgegym.engine.metrics import Metrics
from judgegym.engine.runs.directory import RunDirectory, run_directory_of
from judgegym.engine.runs.disk import Disk
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.recorded_calls import pack
from judgegym.engine.terminal import ProgressDisplay, ProgressState, offline_notice
from judgegym.engine.terminal.output import duration
from judgegym.engine.terminal.summary import (
    Section,
    Summary,
    SummaryLine,
    cost_lines,
    headline_line,
    latency_words,
    number,
    outcome_lines,
)
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rollouts.groups import GroupPipeline, ScoredGroup
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.scored_group import RowOfGroup
from judgegym.environments.rollouts.sources import open_source
from judgegym.environments.training.delivery import worker_slots
from judgegym.environments.training.group_file import GroupFile, make_folder
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.environments.training.sampler import EpochSampler
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError, SettingsError, UserError
from judgegym.reports.run_page.page import report_of, write_report_after

logger = logging.getLogger(__name__)

METRICS = "train_metrics.json"
"""The metrics of all groups, in the run directory."""

_ROWS_FOR_EACH_GROUP = 3
"""Try at most this many rows, in the mean, for each group that is wanted."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of `process`.

    Attributes:
        path: the file of groups.
        page: the HTML page; `None` without one.
        groups: how many groups were written.
        dropped: how many groups were dropped, by reason.
        metrics: the metrics of all groups.
        metrics_file: the file that holds them.
        seconds: how long this command took for them.
    """

    path: Path
    page: Path | None
    groups: int
    dropped: Mapping[str, int]
    metrics: Metrics
    metrics_file: Path
    seconds: float


def forecast(groups: int, group_size: int, rows: int) -> str:
    """Say what a run will ask for, before it does."""
    completions = groups * group_size
    each = f", each row about {groups / rows:.0f} times" if groups > rows else ""
    return (
        f"to ask for: {completions:,} completions of the policy ({groups:,} groups of {group_size}{each}), and a "
        "judgment of each, which may take several calls; --env.total_steps asks for fewer or more groups"
    )


class ProcessRun:
    """One run of `process`."""

    def __init__(self, env: JudgedEnv[Any, Any, Any]) -> None:
        """Load the rows that `--limit` chooses, and open the file and its run directory.

        Raises:
            DataError: the rows cannot be loaded.
            SettingsError: `total_steps` is below 1, an API key is missing, or the file cannot be created.
            RunDirectoryError: the run cannot be resumed, or another process is at it.
        """
        config, settings = env.config, env.settings
        if config.total_steps < 1:
            raise SettingsError(f"--env.total_steps: process needs the number of groups, got {config.total_steps}")
        source = open_source(settings, env.clients, Retokenizer(settings.tokenizer))
        self._wanted, self._group_size = config.total_steps, config.group_size
        self._without = {"judge"} if env.policy_is_judge else set[str]()
        self._workers = worker_slots(settings)
        self._metrics = TrainingMetrics(
            config={"thinking_mode": float(config.thinking_mode)}, together=env.group_judge is not None
        )
        self._source, self._clients = source, env.clients
        self._pipeline = GroupPipeline(env, source, self._metrics)
        if "max_token_length" in config.model_fields_set:  # there is no trainer that sets a limit
            self._pipeline.max_token_len = config.max_token_length
        tasks = select(env.load_tasks("train"), limit=settings.limit, seed=config.seed)
        self._rows = len(tasks)
        self._sampler: EpochSampler[Any] = EpochSampler(tasks, config.seed)
        self._begun = self._written = self._dropped = 0
        self._disk = Disk(config.disk_full_deadline)
        self._keeps_calls, self._writes_report = settings.keep_calls, config.write_report
        path = Path(config.data_path_to_save_groups)
        make_folder(path)
        self._run, _ = RunDirectory.open(
            run_directory_of(path),
            config=settings.public(),
            matters=settings.matters("process"),
            defaults=settings.defaults("process"),
            resume=settings.resume,
            disk=self._disk,
            elsewhere="--env.data_path_to_save_groups",
        )
        try:
            self._file = GroupFile(path, self._disk, resume=settings.resume)
            self._ledger = CallLedger(self._run, finished=(), keep_texts=settings.keep_calls)
            if self._file.kept and not self._ledger.is_resumed:
                raise RunDirectoryError(
                    f"{path} cannot be resumed: its groups are complete, and the answers were not kept "
                    "(--keep_calls=False)"
                )
        except UserError:
            self._run.close()
            raise

    async def run(self, display: ProgressDisplay) -> ProcessResult:
        """Write `total_steps` groups, as many at once as there are workers; `display` shows the progress.

        Raises:
            NothingSucceeds: an endpoint refused the first ten groups, so it would refuse the next.
            EndpointOutage: an endpoint answers no call; the groups in progress that do not need it are written.
            DiskFull: the file could not be written to for too long.
        """
        started = time.monotonic()
        logger.info("writing %d groups (env.total_steps) of %d rows to %s", self._wanted, self._rows, self._file.path)
        logger.info("%s", forecast(self._wanted - self._file.kept, self._group_size, self._rows))
        if self._ledger.is_resumed:
            report_of(self._file.path).unlink(missing_ok=True)  # it would not fit the groups that come
            logger.info("resuming: %d groups are written; %s", self._file.kept, self._ledger.loss)
        at_once = min(self._workers, self._wanted)
        try:
            with self._run.log.ending():
                with display.following(self._progress, self._run.log.write, left=self._wanted):
                    await run_each(self._take, self._make, disk=self._disk, in_flight=at_once)
                await self._file.finish()
                metrics = self._metrics.flush(max_token_len=-1)
                for name, reason in metrics.left_out.items():
                    self._run.log.write(f"{name} is left out: {reason}")
                await self._disk.write(self._run.path / METRICS, wire.dumps_readable(metrics.to_json()))
                if self._keeps_calls or self._written == self._wanted:  # groups that failed still need the answers
                    await asyncio.to_thread(pack, self._run.path, keep=self._keeps_calls)
                page = await write_report_after(self._file.path, self._disk) if self._writes_report else None
        finally:
            self._file.close()
            self._ledger.close()
            self._run.close()
        return ProcessResult(
            path=self._file.path,
            page=page,
            groups=self._written,
            dropped=self._metrics.total_dropped,
            metrics=metrics,
            metrics_file=self._run.path / METRICS,
            seconds=time.monotonic() - started,
        )

    def _take(self) -> tuple[int, Any] | None:
        """Return the next row with its number; `None` if no further one is needed now, or too many were tried."""
        if self._begun >= min(self._wanted + self._dropped, self._wanted * _ROWS_FOR_EACH_GROUP):
            return None
        self._begun += 1
        return self._begun - 1, self._sampler.next()

    def _progress(self) -> ProgressState:
        waiting = "; ".join(filter(None, (self._disk.waiting, self._source.waiting, self._clients.waiting))) or None
        found = self._metrics
        costs = {role: cost for role, cost in found.costs.items() if role not in self._without}
        return ProgressState(self._written, "reward", found.reward_mean, self._dropped, costs, waiting)

    async def _make(self, item: tuple[int, Any]) -> None:
        """Make the group of a row, and write it if it is of use."""
        number, task = item
        calls = self._ledger.row(task.uid, number)
        row = RowOfGroup(task.uid, number, task.category, task.question, self._pipeline.env.texts(task))

        async def to_file(group: ScoredGroup) -> None:
            self._file.write(number, await group.packed(row))

        outcome = await self._pipeline.run(task, to_file, calls)
        if outcome == "failed":
            calls.row_failed()
        self._written += outcome == "sent"
        self._dropped += outcome != "sent"


_REWARDS = {
    "reward_mean": "mean",
    "reward_std": "deviation",
    "reward_length_correlation": "correlation with length",
    "reward_position_correlation": "correlation with place",
}
_FAULTS = {
    "judge_error_rate": "judgments that failed",
    "refused_response_rate": "refused answers",
}


def process_summary(env: JudgedEnv[Any, Any, Any], processed: ProcessResult) -> Summary:
    """Return what the command prints."""
    metrics, stand_ins = processed.metrics, env.settings.stand_ins
    headline = env.training_headline or env.headline[0]
    values = metrics.values
    equal = f"{number(values.get('train/groups_without_signal_rate', 0.0), 'share')} with equal rewards"
    if (calls := values.get("train/group_judge_calls")) is not None:
        equal = f"{equal}, {calls:.1f} judge calls each"
    known = {words: values[f"train/{name}"] for name, words in _REWARDS.items() if f"train/{name}" in values}
    rewards = [f"{words} {round(value, 4) + 0.0:.4f}" for words, value in known.items()]
    faults = [
        SummaryLine(words, number(values[f"train/{name}"], "share"))
        for name, words in _FAULTS.items()
        if values.get(f"train/{name}")
    ]
    suspects = values.get("train/judge_injection_suspects", 0)
    if suspects:
        what = "tokens or markers of the judge's prompt, in texts under judgment"
        faults.append(SummaryLine("suspects", f"{suspects:,}", what))
    costs = [line for line in cost_lines(metrics, "train") if not (env.policy_is_judge and line.label == "judge")]
    dropped = [SummaryLine(f"dropped: {reason}", f"{count:,}", "groups") for reason, count in processed.dropped.items()]
    own_faults = outcome_lines(env.outcomes(), metrics, "train", faults=True)
    return Summary(
        title=f"{env.name}: {processed.groups} groups",
        headline=headline_line(
            metrics, f"train/{headline}", env.headline[1], of=f"{processed.groups:,} groups", counted=processed.groups
        ),
        sections=(
            Section("groups", [SummaryLine("", f"{processed.groups:,}", equal)]),
            Section("rewards", [SummaryLine("", "", ", ".join(rewards))] if rewards else []),
            Section("outcomes", outcome_lines(env.outcomes(), metrics, "train", faults=False)),
            Section("went wrong", [*dropped, *faults, *own_faults], is_alarm=True),
            Section("cost", costs),
            Section("time", [SummaryLine("", duration(processed.seconds), latency_words(metrics, "train"))]),
        ),
        notices=[offline_notice(stand_ins)] if stand_ins else [],
    )
