"""`process`: the groups that `serve` would send, to a JSONL file and an HTML page, without a trainer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments.base import JudgedEnv
from environments.failure_guard import FailureGuard, why_unsampled, why_unscored
from environments.metrics import Metrics
from environments.rollouts.groups import GroupScores, JudgedGroup, scored_group
from environments.rollouts.sources import NoTokens
from environments.training.group_file import GroupFile
from environments.training.metrics import TrainingMetrics
from environments.training.page import write_page
from environments.training.sampler import EpochSampler
from judges.llm.errors import EndpointError, SettingsError
from judges.llm.wire import JSON

logger = logging.getLogger(__name__)

_ROWS_FOR_EACH_GROUP = 3


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a run of `process` ended: the file, its page, how many groups are in it, and their metrics."""

    path: Path
    page: Path
    groups: int
    metrics: Metrics


class _Processing:
    """One run of `process`."""

    def __init__(self, env: JudgedEnv[Any, Any, Any]) -> None:
        config = env.config
        self.env = env
        self.order: EpochSampler[Any] = EpochSampler(env.tasks("train"), config.seed)
        self.metrics = TrainingMetrics(config={"thinking_mode": float(config.thinking_mode)})
        self.prospects = FailureGuard()
        self.file = GroupFile(Path(config.data_path_to_save_groups or f"data/{env.name}.jsonl"))

    async def write_group(self, number: int) -> bool:
        """Write the group of that number: of the next row, or of another one where that cannot be scored."""
        for _ in range(_ROWS_FOR_EACH_GROUP):
            task = self.order.next()
            try:
                group = await self.env.roll_out(task)
            except (EndpointError, NoTokens) as error:
                logger.warning("group %r is given up: %s", task.uid, why_unsampled(error))
                self.prospects.sampled(error)
                continue
            scores = group.scores
            self.metrics.judged(group, scores, self.env.observer(task, group))
            self.prospects.judged(group)
            if scores is None:
                logger.warning("group %r has no scores: %s", task.uid, why_unscored(group))
            elif scores.equal and self.env.config.ensure_scores_are_not_same:
                logger.info("group %r is left out: all its scores are the same", task.uid)
            else:
                self.file.write(number, self._data(group, scores))
                self.metrics.sent(len(group.rollouts))
                return True
        return False

    def _data(self, group: JudgedGroup[Any], scores: GroupScores) -> Mapping[str, JSON]:
        config = self.env.config
        return scored_group(
            group, scores, temperature=config.rollout_temperature, include_messages=config.include_messages
        )


async def process(env: JudgedEnv[Any, Any, Any]) -> ProcessResult:
    """Write `total_steps` groups, all at once as far as the workers go.

    Raises:
        SettingsError: no number of groups, or the file cannot be created.
        NothingSucceeds: an endpoint refused the first ten groups, as it would the next.
    """
    if env.config.total_steps < 1:
        raise SettingsError(f"--env.total_steps: process needs the number of groups, got {env.config.total_steps}")
    processing = _Processing(env)
    numbers = iter(range(env.config.total_steps))
    written = 0

    async def worker() -> None:
        nonlocal written
        for number in numbers:
            is_written = await processing.write_group(number)  # awaited apart: `+=` reads its left side first
            written += is_written
            logger.info("%d of %d groups", written, env.config.total_steps)

    workers = [asyncio.create_task(worker()) for _ in range(min(env.workers, env.config.total_steps))]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        processing.file.close()
    page = await asyncio.to_thread(write_page, processing.file.path)
    return ProcessResult(processing.file.path, page, written, processing.metrics.flush(max_token_len=-1))
