"""`serve`: send judged groups to a trainer over the rollout API, until it has made all its steps.

Guarantees: no group is sent before a trainer has registered; a finished group is sent, however long
the API is down; groups in progress are never cancelled to make room; a free slot is filled at once,
and a group that waits to be posted takes none (`outbox`); an evaluation runs beside the rollouts,
with its own limit. A run directory has the ledger of calls, from which a stopped run is resumed:
groups that were in progress continue with the responses that they had, if the trainer is still at
the step at which they began. Only groups whose post was in flight when the process was killed may
be sent twice: there is one post at a time, and a run that is told to stop waits for its response.

Evaluations run one at a time. A step that becomes due during an evaluation is evaluated after it,
unless a later step has become due since. An evaluation that fails does not end the training.

Checkpoints of an environment are where Atropos has them:
`<checkpoint_dir>/env_checkpoints/<name>/step-<n>.json`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from judgegym.engine.metrics import Metrics
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.ledger import DiskRowLedger
from judgegym.engine.runs.recorded_calls import pack
from judgegym.environments.base import JudgedEnv
from judgegym.environments.contract import load_tasks
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.sources import open_source
from judgegym.environments.training.connection import TrainerConnection
from judgegym.environments.training.delivery import (
    Outbox,
    count_available_slots,
    count_worker_slots,
)
from judgegym.environments.training.group_file import open_files
from judgegym.environments.training.group_ledger import GroupLedger
from judgegym.environments.training.metrics import TrainingLog, TrainingMetrics
from judgegym.environments.training.monitoring import make_monitor_group, open_run_monitor
from judgegym.environments.training.pipeline import GroupPipeline
from judgegym.environments.training.rollout_api import ApiRefusal, ApiUnavailable, Registration
from judgegym.environments.training.sampler import EpochSampler, RowWeights
from judgegym.environments.training.signal_meter import SignalMeter, check_signal_settings
from judgegym.llm import wire
from judgegym.llm.at_once import cancel_all
from judgegym.llm.errors import BudgetError, EndpointOutage, JudgeGymError
from judgegym.llm.ledger import RowLedger
from judgegym.llm.wire import JSON
from judgegym.monitoring.alarms import Alarm, AlarmStop, parse_pause
from judgegym.monitoring.live_file import LIVE, MONITOR, LiveFile, iter_live_lines
from judgegym.monitoring.pause import Pause, PauseState
from judgegym.reports.run_page.page import write_report_after
from judgegym.reports.training.page import write_training_report


class Checkpoints:
    """Files with the state that a restarted environment resumes from.

    Attributes:
        folder: the folder of this registration's checkpoints; `None` if nothing is saved.
    """

    def __init__(self, registration: Registration, desired_name: str) -> None:
        """Use the directory of the trainer's registration; without one, save nothing.

        Args:
            registration: the API's registration; its name is `desired_name` and a number, which is
                new for each registration.
            desired_name: the name that was requested.
        """
        directory = registration.checkpoint_dir
        self._all: Path | None = None
        self.folder: Path | None = None
        if directory:
            self._all = Path(directory) / "env_checkpoints"
            self.folder = self._all / registration.name
        self._name = desired_name
        self._unsaved: tuple[int, Mapping[str, JSON]] | None = None
        self._is_refused = False

    def save(self, step: int, state: Mapping[str, JSON]) -> None:
        """Save the state of a step.

        If the disk refuses it, training continues, and `retry` writes it.
        """
        self._unsaved = (step, state)
        self.retry()

    def retry(self) -> None:
        """Write the latest state if it is not written yet; warn once if the disk refuses it."""
        if self.folder is None or self._unsaved is None:
            return
        step, state = self._unsaved
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomic(self.folder / f"step-{step}.json", wire.dumps_readable(state))
        except OSError as error:
            if not self._is_refused:
                logger.warning(
                    "no checkpoint in %s (it is tried again): %s", self.folder, error.strerror
                )
            self._is_refused = True
        else:
            self._unsaved, self._is_refused = None, False

    def load(self, step: int) -> Mapping[str, JSON] | None:
        """Return the state of the latest readable checkpoint at or before `step`, or `None`.

        If this registration has none, use an earlier one's: the API gives a restarted environment a
        new number.
        """
        for _, _, path in sorted(self._list_checkpoints(step), reverse=True):
            try:
                state = wire.loads(path.read_bytes())
            except (OSError, ValueError) as error:
                logger.warning("%s cannot be read: %s", path, error)
                continue
            if isinstance(state, Mapping):
                return state
        return None

    def _list_checkpoints(self, latest: int) -> list[tuple[int, float, Path]]:
        """Return step, time and path of this registration's checkpoints, or of earlier ones."""
        if self._all is None or self.folder is None or not self._all.is_dir():
            return []
        checkpoints = list(_find_checkpoints(self.folder, latest))
        if checkpoints:
            return checkpoints
        name = re.escape(self._name)
        numbered = re.compile(rf"{name}_[0-9]+")
        for folder in self._all.iterdir():
            if numbered.fullmatch(folder.name):
                checkpoints += _find_checkpoints(folder, latest)
        return checkpoints


def _find_checkpoints(folder: Path, latest: int) -> Iterator[tuple[int, float, Path]]:
    """Yield step, time and path of the checkpoints in a folder, up to the step `latest`."""
    for path in folder.glob("step-*.json"):
        step = path.stem.removeprefix("step-")
        if step.isdigit() and int(step) <= latest:
            yield int(step), path.stat().st_mtime, path


Evaluate = Callable[[int], Awaitable[Metrics]]
"""Evaluates the policy of a step."""

logger = logging.getLogger(__name__)

_GOODBYE_S = 5.0
_AFTER_FAILURE_S = 1.0
_LONGEST_WITHOUT_LOG_S = 60.0
MIN_GROUPS_LOGGED = 2  # a step with fewer groups is not logged by itself


class ServeRun:
    """A run of `serve`."""

    def __init__(
        self, env: JudgedEnv[Any, Any, Any], connection: TrainerConnection, evaluate: Evaluate
    ) -> None:
        """Load the rows, and open the source of rollouts, the run directory and the file of groups.

        Args:
            env: the environment.
            connection: the connection to the rollout API.
            evaluate: called with the step every `steps_per_eval` steps.

        The settings name the run's paths (`group_file.resolve_paths`).

        Raises:
            DataError: the rows cannot be loaded.
            SettingsError: `signal_groups` cannot be measured, the policy's API key is missing, the
                tokenizer cannot be loaded, or the file cannot be created.
            RunDirectoryError: the run cannot be resumed, another process uses it, or its directory
                is not empty.
        """
        check_signal_settings(env.config)
        self.env, self._config, self.connection = env, env.config, connection
        self.metrics = TrainingMetrics(env)
        retokenizer = Retokenizer(env.settings.tokenizer)
        self._source = open_source(env.settings, env.clients, retokenizer)
        self._pipeline = GroupPipeline(env, self._source, self.metrics)
        self._sampler: EpochSampler[Any] = EpochSampler(
            load_tasks(env, "train"), self._config.seed, RowWeights.from_config(self._config)
        )
        headlines = dict.fromkeys((env.spec.training_metric, env.spec.headline[0]))
        self._log = TrainingLog(self._config, retokenizer, headlines=tuple(headlines))
        self._keeps_calls = env.settings.keeps_rollout_calls
        open_ledger = partial(GroupLedger, keep=self._keeps_calls)
        self._run, self._file, self._ledger = open_files(env.settings, "serve", open_ledger)
        self._disk = self._run.disk
        env.clients.begin_after(self._ledger.earlier)
        self._ledger.budget = env.clients.budget
        self.monitor = open_run_monitor(env, self._run, self._on_alarm)
        self._meter = SignalMeter(env, self.monitor.note, on_usage=self.metrics.record_signal)
        self._meter.restore(iter_live_lines(self._run.path / MONITOR))
        for line in iter_live_lines(self._run.path / MONITOR):
            if isinstance(row := line.get("row"), Mapping):
                self._sampler.restore_flat(str(row["uid"]), int(str(row["equal"])))
        self._pipeline.on_group = self._watch
        self._live = LiveFile(
            self._run.path / LIVE, {"": self.monitor.page_groups}, self._status, write_atomic
        )
        self._pause = Pause(self._run.path, parse_pause(self._config.on_alarm), self._on_pause)
        self._outbox = Outbox(connection, self._pause)
        self._workers: set[asyncio.Task[None]] = set()
        self._evaluate = evaluate
        self._evaluating: asyncio.Task[None] | None = None
        self._due_step: int | None = None
        """Step that is evaluated next."""
        self._error: BaseException | None = None
        self._written = self._sent_this_step = self._sent = self._step = self._handed = (
            self._posts
        ) = 0
        self._checkpoints: Checkpoints | None = None
        self._logged_at = time.monotonic()
        self._total_steps = self._config.total_steps

    async def run(self) -> None:
        """Serve until the trainer has made `total_steps` (−1: the number from its registration).

        Raises:
            SettingsError: the group size does not fit the trainer's batch.
            NothingSucceeds: an endpoint refused the first ten groups, so it would refuse the next.
            EndpointOutage: an endpoint is unreachable; groups in progress that do not need it are
                sent.
            BudgetError: no further request may be sent; groups that are complete are sent, and no
                other.
            DiskFull: the files of the run could not be written to for too long.
        """
        try:
            with self._run.log.log_end():
                await self._serve()
                # Nothing is left to resume.
                await asyncio.to_thread(pack, self._run.path, keep=self._keeps_calls)
                if self._config.write_report:
                    await write_report_after(self._run.path, self._disk, write_training_report)
        finally:
            self._ledger.close()
            self._run.close()

    async def _serve(self) -> None:
        connection = self.connection
        connection.prepare = self._open_log
        try:
            await connection.join()
        except BaseException:
            # The API may have a registration of this run: disconnect it.
            await self._leave()
            raise
        registration = connection.registration
        self._step = connection.status.step
        if self._total_steps == -1:
            self._total_steps = registration.num_steps
        checkpoints = Checkpoints(registration, self._config.wandb_name or self.env.spec.name)
        self._checkpoints = checkpoints
        helpers = [
            asyncio.create_task(coroutine)
            for coroutine in (connection.watch(), self._outbox.run(), self._live.run())
        ]
        for helper in helpers:
            helper.add_done_callback(self._on_task_done)
        self._pause.listen()
        try:
            self._restore(checkpoints)
            self._log.rename(registration.name)
            while connection.status.step < self._total_steps:
                self._fill_slots()
                await connection.changed.wait()
                connection.changed.clear()
                if self._error is not None:
                    await self._end_groups(self._error)
                    raise self._error
                await self._note_step(checkpoints)
            if self._sent_this_step:
                await self._flush()
            await self._outbox.close(_GOODBYE_S)
            for worker in self._workers:
                worker.cancel()  # the trainer takes no more groups
            if self._evaluating is not None:
                await self._evaluating  # that of the last step
            await self._disk.ready()  # groups that a full disk refused are still in memory
        finally:
            await self._stop(helpers, checkpoints)

    async def _open_log(self) -> None:
        """Open the log, in the trainer's group and project at Weights & Biases.

        Raises:
            SettingsError: the log cannot be opened.
        """
        place = ("", "")
        if self._config.use_wandb:
            with suppress(ApiUnavailable, ApiRefusal):
                place = await self.connection.api.wandb_place()
        await self._log.open(self.env.spec.name, place, self.env.settings.public())

    def progress(self) -> str:
        """Return what was done and where a restart continues, for the message after a signal."""
        if self._checkpoints is None:
            return "no trainer had asked for groups yet; nothing was sent"
        parts = [f"at step {self._step}, {self._sent} groups were sent"]
        if self._file is not None:
            parts.append(f"those groups are in {self._file.path}")
        if self._checkpoints.folder is not None:
            parts.append(f"the position in the data is also in {self._checkpoints.folder}")
        return "; ".join(parts)

    def _watch(self, task: Any, group: JudgedGroup, calls: RowLedger | None) -> None:
        """Pass a judged group to the monitor, and tell the sampler whether its row has a signal."""
        number = self.monitor.groups + 1
        self.monitor.add(
            make_monitor_group(self.env, task, group, number=number, step=self._step, calls=calls)
        )
        self._meter.offer(task, group, calls, number=number, step=self._step)
        if group.scores is None and not group.is_flat:
            return  # its judge failed
        equal = self._sampler.record(task.uid, is_flat=group.is_flat)
        if equal is not None:
            self.monitor.note("row", {"uid": task.uid, "equal": equal})

    def _status(self) -> dict[str, JSON]:
        """Return the status of the run, for `live.jsonl`."""
        return {
            "step": self._step,
            "total_steps": self._total_steps,
            "sent": self._sent,
            "dropped": dict(self.metrics.total_dropped),
            "in_progress": len(self._workers) - self._outbox.waiting,
            "unsent": self._outbox.waiting,
            "waits_for": self._disk.waiting
            or self._source.waiting
            or self.env.clients.delay_reason,
        }

    def _on_alarm(self, alarm: Alarm) -> None:
        """Act on an alarm as the settings say; it is in the log and on disk already."""
        self._log.send_alarm(alarm)
        if self._config.on_alarm.startswith("pause"):
            self._pause.begin()
        elif self._config.on_alarm == "exit":
            self._error = self._error or AlarmStop(
                f"an alarm ended the run (env.on_alarm=exit): {alarm.text}"
            )
            self.connection.changed.set()

    def _on_pause(self, state: PauseState, by: str) -> None:
        self.monitor.note("pause", {"state": state, "by": by, "step": self._step})
        self.connection.changed.set()  # free slots are filled again

    def _restore(self, checkpoints: Checkpoints) -> None:
        state = self._ledger.resume(self._step)
        if state is not None:
            state = {"seed": self._config.seed, **state}
        elif self._step > 0:
            state = checkpoints.load(self._step)
        if state is None:
            return
        try:
            self._sampler.load_state_dict(state)
        except ValueError as error:
            logger.warning("the checkpoint is not used: %s", error)

    def _fill_slots(self) -> None:
        """Begin a group for each free slot."""
        connection = self.connection
        if not connection.joined.is_set() or self._pause.is_paused:
            return
        self._source.rescale(connection.status.weight)
        free = count_available_slots(
            self._config,
            connection.trainer,
            connection.status,
            workers=count_worker_slots(self.env.settings),
            in_flight=len(self._workers) - self._outbox.waiting,
            unsent=self._outbox.waiting,
            sent_since=connection.sent_since,
            evaluating=self._evaluating is not None and not self._evaluating.done(),
            total_steps=self._total_steps,
            posts=self._posts / self._handed if self._handed else 1.0,
        )
        for _ in range(free):
            task = self._sampler.next()
            epoch, position = self._sampler.position
            calls = self._ledger.begin(
                task.uid, step=connection.status.step, epoch=epoch, position=position
            )
            worker = asyncio.create_task(self._make_group(task, calls))
            self._workers.add(worker)
            worker.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._error = self._error or task.exception()
        self.connection.changed.set()

    async def _end_groups(self, error: BaseException) -> None:
        """Wait for the groups in progress after an outage or a spent budget: they are paid for."""
        while (
            isinstance(error, EndpointOutage | BudgetError)
            and len(self._workers) > self._outbox.waiting
        ):
            self.connection.changed.clear()
            await self.connection.changed.wait()

    async def _make_group(self, task: Any, calls: DiskRowLedger) -> None:
        """Make the group of a row, and tell the sampler and the ledger that it is done."""
        await self._disk.ready()
        self._pipeline.max_token_len = self.connection.trainer.max_token_len
        hand_over = partial(self._hand_over, is_new=not calls.places)
        outcome = await self._pipeline.run(task, hand_over, calls)
        self._sampler.ack(task)
        self._ledger.done(calls.key[1])
        if outcome == "failed":
            # Keep the slot: the endpoint would refuse the next group, too.
            await asyncio.sleep(_AFTER_FAILURE_S)
            # A group begun while an endpoint is away would be paid for and dropped.
            # Poll: the clients have no event for the end of a wait.
            while self._error is None and self._is_endpoint_away:  # noqa: ASYNC110
                await asyncio.sleep(_AFTER_FAILURE_S)

    @property
    def _is_endpoint_away(self) -> bool:
        """Whether requests to the policy or the judge wait for their endpoint."""
        return bool(self._source.waiting or self.env.clients.waiting)

    async def _hand_over(self, group: JudgedGroup, *, is_new: bool) -> str | None:
        """Take a group from the pipeline to the table of rollouts, the file of groups, and the API.

        A resumed group (not `is_new`) may be in the file, if the earlier process ended before the
        API had it.
        """
        self._log.keep_group(group)
        packed = [await post.pack(self._config) for post in group.posts(self._config)]
        self._handed, self._posts = self._handed + 1, self._posts + len(packed)
        if self._file is not None:
            for post in packed:
                self._written += 1
                self._file.write(self._written, post, is_new=is_new)
        # When the change is seen, the group waits in the outbox, and its slot is free.
        self.connection.changed.set()
        refusal = await self._outbox.deliver(*packed)
        self._sent_this_step += refusal is None
        self._sent += refusal is None
        return refusal

    async def _note_step(self, checkpoints: Checkpoints) -> None:
        """Log, evaluate and save a checkpoint, if the step requires it."""
        before, now = self._step, self.connection.status.step
        if time.monotonic() - self._logged_at > _LONGEST_WITHOUT_LOG_S:
            await self._flush()  # so that a run that sends nothing shows why
        checkpoints.retry()
        self._disk.retry()
        if now == before:
            return
        self.monitor.end_step()
        self._step = now
        self._ledger.note_step(now)
        if _crosses_multiple(before, now, self._config.steps_per_eval):
            self._due_step = now
            if self._evaluating is None or self._evaluating.done():
                self._evaluating = asyncio.create_task(self._evaluate_due())
                self._evaluating.add_done_callback(self._on_task_done)
        interval = self.connection.registration.checkpoint_interval
        if _crosses_multiple(before, now, interval):
            checkpoints.save(now // interval * interval, self._sampler.state_dict())
        if self._sent_this_step >= MIN_GROUPS_LOGGED:
            await self._flush()

    async def _flush(self) -> None:
        self._sent_this_step = 0
        self._logged_at = time.monotonic()
        self.metrics.groups_maybe_double = self._outbox.maybe_double
        if self._config.row_weights != "equal":
            self.metrics.flat_rows = (self._sampler.flat_rows, self._sampler.skipped)
        self.metrics.signal = self._meter.values
        metrics = self.metrics.flush(max_token_len=self.connection.trainer.max_token_len)
        monitor_values = {f"monitor/{name}": value for name, value in self.monitor.values.items()}
        monitor_values["monitor/alarms"] = len(self.monitor.alarms)
        await self._log.log(
            self._step, replace(metrics, values={**monitor_values, **metrics.values})
        )

    async def _evaluate_due(self) -> None:
        """Evaluate the step that is due, then the latest step that has become due meanwhile."""
        while self._due_step is not None:
            step, self._due_step = self._due_step, None
            try:
                result = await self._evaluate(step)
                metrics = Metrics(
                    {**result.values, "eval/step": step}, result.left_out, result.unknown
                )
                # Log under the current step: Weights & Biases drops what is logged under a past
                # one.
                await self._log.log(max(step, self._step), metrics)
            except JudgeGymError as error:
                logger.error("the evaluation of step %d failed: %s", step, error)

    async def _stop(self, helpers: list[asyncio.Task[None]], checkpoints: Checkpoints) -> None:
        """Wait for the post in flight, cancel all tasks, save the sampler, and unregister."""
        self._pause.close()
        await self._outbox.close(_GOODBYE_S)
        tasks = [*helpers, *self._workers]
        if self._evaluating is not None:
            tasks.append(self._evaluating)
        await cancel_all(tasks)
        await self._meter.close(_GOODBYE_S)
        await self.monitor.close(_GOODBYE_S)
        await self._live.write(is_over=True)
        checkpoints.save(self._step, self._sampler.state_dict())
        if self._file is not None:
            self._file.close()
        self._disk.close()  # try once more to write what a full disk has refused
        await self._leave()
        await self._log.close()
        self._outbox.log_uncertain_groups()

    async def _leave(self) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.connection.membership.leave(), _GOODBYE_S)


def _crosses_multiple(before: int, now: int, interval: int) -> bool:
    """Return whether a multiple of `interval` lies in (before, now]; never for an interval ≤ 0."""
    return interval > 0 and now // interval > before // interval
