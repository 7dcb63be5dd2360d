"""`process`: write the groups that `serve` would send to a JSONL file, without a trainer.

Guarantees: which rows become groups does not depend on the speed of responses: the first rows, in
the order of the sampler, whose groups are not dropped. A run directory beside the file has the
ledger of calls, from which a stopped run is resumed: its rows run again without repeating calls
that have a response, and the final file is that of a run that was not stopped. Failed calls are
made again; a group that is now usable replaces the last one, which had stood in for it.

The run also makes an HTML page, and a summary: headline, groups, rewards, outcomes, faults, cost
and time.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from judgegym.data.rows import Task
from judgegym.data.task_list import select
from judgegym.engine.loop import run_each
from judgegym.engine.metrics import Metrics
from judgegym.engine.runs.batches import use_batches
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.recorded_calls import pack
from judgegym.engine.terminal import ProgressDisplay, ProgressState, offline_notice
from judgegym.engine.terminal.output import UNKNOWN, format_dollars, format_duration
from judgegym.engine.terminal.summary import (
    Section,
    Summary,
    SummaryLine,
    cost_lines,
    format_latencies,
    format_number,
    headline_line,
    outcome_lines,
)
from judgegym.environments.base import JudgedEnv
from judgegym.environments.contract import load_tasks
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.sources import open_source
from judgegym.environments.training.delivery import count_worker_slots
from judgegym.environments.training.group_file import open_files
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.environments.training.monitoring import make_monitor_group, open_run_monitor
from judgegym.environments.training.pipeline import GroupPipeline
from judgegym.environments.training.sampler import EpochSampler
from judgegym.environments.training.signal_meter import (
    SignalMeter,
    check_signal_settings,
    describe_signal,
)
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError, SettingsError
from judgegym.llm.ledger import RowLedger, record_calls
from judgegym.llm.wire import JSON
from judgegym.monitoring.live_file import LIVE, MONITOR, LiveFile
from judgegym.reports.run_page.page import locate_report, write_report_after

logger = logging.getLogger(__name__)

METRICS = "train_metrics.json"
"""File in the run directory with the metrics of all groups."""

_ROWS_FOR_EACH_GROUP = 3
"""Maximum number of rows to try, on average, for each wanted group."""


def forecast(groups: int, group_size: int, rows: int) -> str:
    """Describe the calls of a run before it begins."""
    completions = groups * group_size
    repeats = ""
    if groups > rows:
        repeats = f", each row about {groups / rows:.0f} times"
    return (
        f"to ask for: {completions:,} completions of the policy ({groups:,} groups of "
        f"{group_size}{repeats}), and a judgment of each, which may take several calls; "
        "--env.total_steps asks for fewer or more groups"
    )


class ProcessRun:
    """A run of `process`.

    Attributes:
        path: the file of groups.
        page: the HTML page; `None` without one.
        groups: number of groups that were written.
        recorded: the metrics of the groups in progress, with the number of dropped groups.
        metrics: the metrics of all groups, once the run has ended.
        metrics_file: the file of these metrics.
        seconds: duration of this command.
    """

    def __init__(self, env: JudgedEnv[Any, Any, Any]) -> None:
        """Load the rows that `--limit` selects, and open the file and its run directory.

        Raises:
            DataError: the rows cannot be loaded.
            SettingsError: `total_steps` is below 1, `signal_groups` cannot be measured, an API key
                is missing, or the file cannot be created.
            RunDirectoryError: the run cannot be resumed, or another process uses it.
        """
        config, settings = env.config, env.settings
        if config.total_steps < 1:
            raise SettingsError(
                f"--env.total_steps: process needs the number of groups, got {config.total_steps}"
            )
        check_signal_settings(config)
        self._env, self._wanted = env, config.total_steps
        self._source = open_source(settings, env.clients, Retokenizer(settings.tokenizer))
        self.recorded = TrainingMetrics(env)
        self._pipeline = GroupPipeline(env, self._source, self.recorded)
        if "max_token_length" in config.model_fields_set:  # there is no trainer that sets a limit
            self._pipeline.max_token_len = config.max_token_length
        tasks = select(load_tasks(env, "train"), limit=settings.limit, seed=config.seed)
        self._rows = len(tasks)
        self._sampler: EpochSampler[Any] = EpochSampler(tasks, config.seed)
        self._begun = self.groups = 0
        self.metrics = Metrics({}, {})
        self.page: Path | None = None
        self.seconds = 0.0
        open_ledger = partial(CallLedger, finished=(), keep_texts=settings.keep_calls)
        self._run, file, self._ledger = open_files(settings, "process", open_ledger)
        assert file is not None  # the settings name it
        self._file, self.path, self.metrics_file = file, file.path, self._run.path / METRICS
        if file.earlier_groups and not self._ledger.is_resumed:
            self._run.close()
            raise RunDirectoryError(
                f"{file.path} cannot be resumed: its groups are complete, and the answers were not "
                "kept (--keep_calls=False)"
            )
        for name in (MONITOR, LIVE):  # all rows of a resumed run are judged again
            (self._run.path / name).unlink(missing_ok=True)
        self.monitor = open_run_monitor(env, self._run, every=config.monitor_every)
        self._meter = SignalMeter(
            env,
            self.monitor.note,
            expected_groups=config.total_steps,
            on_usage=self.recorded.record_signal,
        )
        self._pipeline.on_group = self._watch
        self._live = LiveFile(
            self._run.path / LIVE, {"": self.monitor.page_groups}, self._status, write_atomic
        )

    async def run(self, display: ProgressDisplay) -> None:
        """Write `total_steps` groups, as many at once as there are workers.

        `display` shows the progress.

        Raises:
            NothingSucceeds: an endpoint refused the first ten groups, so it would refuse the next.
            EndpointOutage: an endpoint is unreachable; groups in progress that do not need it are
                written.
            DiskFull: the file could not be written to for too long.
        """
        started, config, file, disk = time.monotonic(), self._env.config, self._file, self._run.disk
        logger.info(
            "writing %d groups (env.total_steps) of %d rows to %s",
            self._wanted,
            self._rows,
            self.path,
        )
        logger.info(
            "%s", forecast(self._wanted - file.earlier_groups, config.group_size, self._rows)
        )
        self._env.clients.begin_after(self._ledger.earlier)
        if self._ledger.is_resumed:
            # The earlier page would not fit the groups that come.
            locate_report(self.path).unlink(missing_ok=True)
            logger.info(
                "resuming: %d groups are written; %s", file.earlier_groups, self._ledger.loss
            )
        at_once = min(
            config.max_rows_in_progress(count_worker_slots(self._env.settings)), self._wanted
        )
        try:
            with self._run.log.log_end():
                with display.follow(self._progress, self._run.log.write, left=self._wanted):
                    live = asyncio.create_task(self._live.run())
                    try:
                        async with use_batches(self._run, self._ledger, config):
                            await run_each(self._take, self._make, disk=disk, in_flight=at_once)
                        await self._meter.close(None)
                        await self.monitor.close(math.inf)
                    finally:
                        await self._meter.close(0.0)
                        live.cancel()
                        await self._live.write(is_over=True)
                await file.finish()
                self.recorded.signal = self._meter.values
                self.metrics = self.recorded.flush(max_token_len=-1)
                for name, reason in self.metrics.left_out.items():
                    self._run.log.write(f"{name} is left out: {reason}")
                refused = self._env.clients.refused_fields
                content = {
                    **self.metrics.to_json(),
                    **({"refused_fields": refused} if refused else {}),
                }
                await disk.write(self.metrics_file, wire.dumps_readable(content))
                keeps_calls = self._env.settings.keep_calls
                # Groups that failed still need the responses.
                if keeps_calls or self.groups == self._wanted:
                    await asyncio.to_thread(pack, self._run.path, keep=keeps_calls)
                self.page = None
                if config.write_report:
                    self.page = await write_report_after(self.path, disk)
        finally:
            file.close()
            self._ledger.close()
            self._run.close()
        self.seconds = time.monotonic() - started

    def _watch(self, task: Task, group: JudgedGroup, calls: RowLedger | None) -> None:
        """Pass a judged group to the monitor; the number of groups serves as the trainer's step."""
        number = self.monitor.groups + 1
        # Recorded, so that a resumed run does not repeat the calls of the gold judge.
        with record_calls(calls):
            self.monitor.add(
                make_monitor_group(self._env, task, group, number=number, step=number, calls=calls)
            )
            self._meter.offer(task, group, calls, number=number, step=number)

    @property
    def signal_texts(self) -> list[str]:
        """The report of the signal meter; empty without one."""
        if self._meter.signal is None:
            return []
        return describe_signal(self._meter.signal)

    def _status(self) -> dict[str, JSON]:
        """Return the status of the run, for `live.jsonl`."""
        return {
            "step": self.monitor.groups,
            "total_steps": self._wanted,
            "sent": self.groups,
            "dropped": dict(self.recorded.total_dropped),
            "waits_for": self._run.disk.waiting
            or self._source.waiting
            or self._env.clients.delay_reason,
        }

    def _take(self) -> tuple[int, Task] | None:
        """Return the next row with its number.

        Return `None` if no further row is needed now, or too many were tried.
        """
        needed = self._wanted + self.recorded.total_dropped.total()
        if self._begun >= min(needed, self._wanted * _ROWS_FOR_EACH_GROUP):
            return None
        self._begun += 1
        return self._begun - 1, self._sampler.next()

    def _progress(self) -> ProgressState:
        metrics, env = self.recorded, self._env
        reasons = (self._run.disk.waiting, self._source.waiting, env.clients.delay_reason)
        waiting = "; ".join(filter(None, reasons)) or None
        has_judge = not env.config.policy_is_judge
        costs = {}
        for role, usage in metrics.usage.items():
            if role == "policy" or has_judge:
                costs[role] = usage.cost
        reward = None
        if metrics.rewards:
            reward = sum(metrics.rewards) / len(metrics.rewards)
        return ProgressState(
            self.groups, "reward", reward, metrics.total_dropped.total(), costs, waiting
        )

    async def _make(self, item: tuple[int, Task]) -> None:
        """Make the group of a row, and write it unless it is dropped."""
        number, task = item
        calls = self._ledger.row(task.uid, number)
        row: dict[str, JSON] = {
            "uid": task.uid,
            "group": number,
            "category": task.category,
            "question": task.question,
        }
        row["texts"] = dict(self._env.texts(task))

        async def write(group: JudgedGroup) -> None:
            for post in group.posts(self._env.config):
                self._file.write(number, await post.pack(self._env.config, row))

        outcome = await self._pipeline.run(task, write, calls)
        await self._meter.finish_group(number)  # while the row is in progress, for batches
        if outcome == "failed":
            calls.mark_failed()
        self.groups += outcome == "sent"


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


def _list_signal_costs(metrics: Metrics) -> list[SummaryLine]:
    """Return a line with the cost of the second judgments, if there were any."""
    name = "train/signal_cost_usd"
    if name not in metrics.values and name not in metrics.unknown:
        return []
    cost = UNKNOWN
    if name in metrics.values:
        cost = format_dollars(metrics.values[name])
    calls = metrics.values["train/signal_calls"]
    return [SummaryLine("signal", cost, f"{calls:,.0f} judge calls of second judgments")]


def make_process_summary(env: JudgedEnv[Any, Any, Any], processed: ProcessRun) -> Summary:
    """Make the summary that the command prints."""
    metrics, stand_ins = processed.metrics, env.settings.stand_ins
    spec = env.spec
    values = metrics.values
    without_signal = values.get("train/groups_without_signal_rate", 0.0)
    without_signal_share = format_number(without_signal, "share")
    equal = f"{without_signal_share} with equal rewards"
    if (calls := values.get("train/group_judge_calls")) is not None:
        equal = f"{equal}, {calls:.1f} judge calls each"
    rewards = []
    for name, words in _REWARDS.items():
        if f"train/{name}" in values:
            value = round(values[f"train/{name}"], 4) + 0.0  # never "-0.0000"
            rewards.append(f"{words} {value:.4f}")
    faults = [
        SummaryLine(words, format_number(values[f"train/{name}"], "share"))
        for name, words in _FAULTS.items()
        if values.get(f"train/{name}")
    ]
    costs = []
    for line in cost_lines(metrics, "train"):
        if line.label == "judge" and env.config.policy_is_judge:
            continue
        remark = line.remark or env.clients.describe_requests(line.label)
        costs.append(replace(line, remark=remark))
    costs += _list_signal_costs(metrics)
    dropped = [
        SummaryLine(f"dropped: {reason}", f"{count:,}", "groups")
        for reason, count in processed.recorded.total_dropped.items()
    ]
    signal = [SummaryLine("", "", text) for text in processed.signal_texts]
    own_faults = outcome_lines(spec.outcomes, metrics, "train", faults=True)
    duration = format_duration(processed.seconds)
    latencies = format_latencies(metrics, "train")
    notices = [*env.clients.notices]
    if stand_ins:
        notices.append(offline_notice(stand_ins))
    return Summary(
        title=f"{spec.name}: {processed.groups} groups",
        headline=headline_line(
            metrics,
            f"train/{spec.training_metric}",
            spec.headline[1],
            basis=f"{processed.groups:,} groups",
            counted=processed.groups,
        ),
        sections=(
            Section("groups", [SummaryLine("", f"{processed.groups:,}", equal)]),
            Section("rewards", [SummaryLine("", "", ", ".join(rewards))] if rewards else []),
            Section("outcomes", outcome_lines(spec.outcomes, metrics, "train", faults=False)),
            Section("signal", signal),
            Section("went wrong", [*dropped, *faults, *own_faults], is_alarm=True),
            Section("cost", costs),
            Section("time", [SummaryLine("", duration, latencies)]),
        ),
        notices=notices,
    )
