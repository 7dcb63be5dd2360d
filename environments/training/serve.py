"""`serve`: judged groups into a trainer, over the rollout API, until the trainer has had its steps.

Guarantees: no group is posted before a trainer is there; a group that was paid for is sent, however long the API is
away; groups under way are never cancelled to make room, they are waited for; a worker's place is filled the moment it
is free; an evaluation runs beside the rollouts, with a limit of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from environments.base import JudgedEnv
from environments.failure_guard import FailureGuard, why_unsampled, why_unscored
from environments.metrics import Metrics
from environments.rollouts.groups import DropReason, GroupScores, JudgedGroup, longest, scored_group
from environments.rollouts.sources import NoTokens
from environments.training.checkpoints import Checkpoints
from environments.training.connection import TrainerConnection
from environments.training.group_file import GroupFile
from environments.training.log import TrainingLog
from environments.training.metrics import TrainingMetrics
from environments.training.rollout_api import ApiRefused, ApiUnavailable
from environments.training.sampler import EpochSampler
from environments.training.slots import available_slots
from judges.llm.errors import EndpointError, JudgeGymError
from judges.llm.wire import JSON

logger = logging.getLogger(__name__)

_GOODBYE_S = 2.0
_AFTER_FAILURE_S = 1.0
_TRIES_FOR_EACH_ROW = 3
_LONGEST_WITHOUT_LOG_S = 60.0

Evaluate = Callable[[int], Awaitable[Metrics]]


class ServeRun:
    """One run of `serve`."""

    def __init__(self, env: JudgedEnv[Any, Any, Any], membership: TrainerConnection, evaluate: Evaluate) -> None:
        """Serve `env` through `membership`; `evaluate` is called with the step, every `steps_per_eval`."""
        self.env = env
        env.in_training = True
        self.membership = membership
        self.metrics = TrainingMetrics(config={"thinking_mode": float(env.config.thinking_mode)})
        self._evaluate = evaluate
        self._config = env.config
        self._order: EpochSampler[Any] = EpochSampler(env.tasks("train"), env.config.seed)
        self._log = TrainingLog(env.config, env.retokenizer)
        path = env.config.data_path_to_save_groups
        self._file = GroupFile(Path(path)) if path is not None else None
        self._workers: set[asyncio.Task[None]] = set()
        self._evaluation: asyncio.Task[None] | None = None
        self._crashed: BaseException | None = None
        self._sent_this_step = 0
        self._step = 0
        self._groups = 0
        self._tries: Counter[str] = Counter()
        self._prospects = FailureGuard()
        self._due_evaluation: int | None = None
        self._logged_at = time.monotonic()
        self._total_steps = env.config.total_steps

    async def run(self) -> None:
        """Serve until the trainer has had `total_steps` (−1: as many as it says).

        Raises:
            SettingsError: the group size does not fit the trainer's batch.
            NothingSucceeds: an endpoint refused the first ten groups, as it would the next.
        """
        membership = self.membership
        await membership.join()
        registration = membership.registration
        self._step = membership.status.step
        if self._total_steps == -1:
            self._total_steps = registration.num_steps
        checkpoints = Checkpoints(registration, self._config.wandb_name or self.env.name)
        watcher = asyncio.create_task(membership.watch())
        watcher.add_done_callback(self._ended)
        try:
            self._restore(checkpoints)
            await self._log.open(registration.name, await self._wandb_place(), self.env.settings.public())
            while membership.status.step < self._total_steps:
                self._fill()
                await membership.changed.wait()
                membership.changed.clear()
                if self._crashed is not None:
                    raise self._crashed
                await self._note_step(checkpoints)
            if self._sent_this_step:
                await self._flush()
            for worker in self._workers:
                worker.cancel()  # nobody will train on them
            if self._evaluation is not None:
                await self._evaluation  # the last step's: training is over, and it is what was trained for
        finally:
            await self._stop(watcher, checkpoints)

    def _restore(self, checkpoints: Checkpoints) -> None:
        state = checkpoints.load(self._step) if self._step > 0 else None
        if state is None:
            return
        try:
            self._order.load_state_dict(state)
        except ValueError as error:
            logger.warning("the checkpoint is not used: %s", error)

    async def _wandb_place(self) -> tuple[str, str]:
        try:
            return await self.membership.api.wandb_place()
        except (ApiUnavailable, ApiRefused):
            return "", ""

    def _fill(self) -> None:
        """Begin as many groups as there is room for."""
        membership = self.membership
        if not membership.joined.is_set():
            return
        self.env.share_policy(membership.status.weight)
        free = available_slots(
            self._config,
            membership.trainer,
            membership.status,
            workers=self.env.workers,
            in_flight=len(self._workers),
            sent_since=membership.sent_since,
            evaluating=self._evaluation is not None and not self._evaluation.done(),
            total_steps=self._total_steps,
        )
        for _ in range(free):
            worker = asyncio.create_task(self._work(self._order.next()))
            self._workers.add(worker)
            worker.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._crashed = task.exception()
        self.membership.changed.set()

    async def _work(self, task: Any) -> None:
        """One group, from its row to the API."""
        try:
            limit = self._config.worker_timeout
            group = await asyncio.wait_for(self.env.roll_out(task), limit if limit > 0 else None)
        except asyncio.TimeoutError:
            self._drop("timed_out", f"group {task.uid!r} took longer than env.worker_timeout")
        except (EndpointError, NoTokens) as error:
            await self._policy_failed(task, error)
            return
        else:
            await self._hand_over(task, group)
        self._order.ack(task)

    async def _policy_failed(self, task: Any, error: EndpointError | NoTokens) -> None:
        """Hand the row out again if that may help, for a while; a row that is refused would be refused again."""
        self._prospects.sampled(error)
        self._tries[task.uid] += 1
        worth_it = isinstance(error, EndpointError) and error.kind.retryable
        if worth_it and self._tries[task.uid] < _TRIES_FOR_EACH_ROW:
            logger.warning("group %r is tried again: %s", task.uid, why_unsampled(error))
            self._order.requeue(task)
        else:
            self._drop("policy_failed", f"group {task.uid!r} is given up: {why_unsampled(error)}")
            del self._tries[task.uid]
            self._order.ack(task)
        await asyncio.sleep(_AFTER_FAILURE_S)

    async def _hand_over(self, task: Any, group: JudgedGroup[Any]) -> None:
        scores = group.scores
        self.metrics.judged(group, scores, self.env.observer(task, group))
        self._prospects.judged(group)
        if scores is None:
            self._drop("judge_failed", f"group {task.uid!r} is not sent, its judge failed: {why_unscored(group)}")
            await asyncio.sleep(_AFTER_FAILURE_S)
            return
        reason = self._why_not(group, scores)
        if reason is not None:
            self._drop(reason, f"group {task.uid!r} is not sent: {reason}")
            return
        self._log.keep(group, scores)
        data = scored_group(
            group,
            scores,
            temperature=self._config.rollout_temperature,
            include_messages=self._config.include_messages,
        )
        if self._file is not None:
            self._groups += 1
            self._file.write(self._groups, data)
        if await self._send(data):
            self.metrics.sent(len(group.rollouts))

    def _why_not(self, group: JudgedGroup[Any], scores: GroupScores) -> DropReason | None:
        """Why a group is of no use to the trainer, if it is of none."""
        if self._config.ensure_scores_are_not_same and scores.equal:
            return "no_signal"
        if (unwanted := self.env.drop_reason(group)) is not None:
            return unwanted
        longest_wanted = self.membership.trainer.max_token_len
        if longest_wanted > 0 and longest(group) >= longest_wanted:
            return "too_long"
        return None

    def _drop(self, reason: DropReason, what: str) -> None:
        self.metrics.dropped(reason)
        logger.log(logging.DEBUG if reason == "no_signal" else logging.WARNING, "%s", what)

    async def _send(self, group: Mapping[str, JSON]) -> bool:
        """Send a group, as soon as the API takes it."""
        membership = self.membership
        while True:
            await membership.joined.wait()
            try:
                await membership.api.send(group, membership.registration.env_id)
            except ApiUnavailable as error:
                logger.info("a group waits for the rollout API: %s", error)
                membership.lost()
            except ApiRefused as error:
                self._drop("refused", f"the rollout API refuses a group: {error}")
                return False
            else:
                membership.sent_since += 1
                self._sent_this_step += 1
                return True

    async def _note_step(self, checkpoints: Checkpoints) -> None:
        """Log, evaluate and save where the step has come to it."""
        before, now = self._step, self.membership.status.step
        if time.monotonic() - self._logged_at > _LONGEST_WITHOUT_LOG_S:
            await self._flush()  # a run that sends nothing must say why
        if now == before:
            return
        self._step = now
        if _crossed(before, now, self._config.steps_per_eval):
            self._begin_evaluation(now)
        interval = self.membership.registration.checkpoint_interval
        if _crossed(before, now, interval):
            checkpoints.save(now // interval * interval, self._order.state_dict())
        if self._sent_this_step >= self._config.min_items_sent_before_logging:
            await self._flush()

    async def _flush(self) -> None:
        self._sent_this_step = 0
        self._logged_at = time.monotonic()
        metrics = self.metrics.flush(max_token_len=self.membership.trainer.max_token_len)
        await self._log.log(self._step, metrics)

    def _begin_evaluation(self, step: int) -> None:
        if self._evaluation is not None and not self._evaluation.done():
            self._due_evaluation = step
            return
        self._evaluation = asyncio.create_task(self._evaluate_step(step))
        self._evaluation.add_done_callback(self._ended)

    async def _evaluate_step(self, step: int) -> None:
        """Evaluate, and then the latest step whose turn came meanwhile."""
        await self._evaluate_once(step)
        while self._due_evaluation is not None:
            due, self._due_evaluation = self._due_evaluation, None
            await self._evaluate_once(due)

    async def _evaluate_once(self, step: int) -> None:
        try:
            metrics = await self._evaluate(step)
            # Under the step that training has come to meanwhile: Weights & Biases drops what is logged under one past.
            values = {**metrics.values, "eval/step": step}
            await self._log.log(max(step, self._step), Metrics(values, metrics.left_out))
        except JudgeGymError as error:
            logger.error("the evaluation of step %d failed: %s", step, error)

    async def _stop(self, watcher: asyncio.Task[None], checkpoints: Checkpoints) -> None:
        """Stop everything under way, keep the order, say goodbye."""
        state = self._order.state_dict()
        running = [watcher, *self._workers, *([self._evaluation] if self._evaluation is not None else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        checkpoints.save(self._step, state)
        if self._file is not None:
            self._file.close()
        with suppress(JudgeGymError, asyncio.TimeoutError):
            await asyncio.wait_for(self.membership.api.leave(self.membership.registration.env_id), _GOODBYE_S)
        await self._log.close()


def _crossed(before: int, now: int, interval: int) -> bool:
    """Whether a multiple of `interval` lies in (before, now]; never for an interval ≤ 0."""
    return interval > 0 and now // interval > before // interval
