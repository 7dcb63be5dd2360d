"""`process`: write the groups that `serve` would send to a JSONL file and an HTML page, without a trainer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments.base import JudgedEnv
from environments.data.rows import select
from environments.metrics import Metrics
from environments.rollouts.groups import GroupPipeline, ScoredGroup
from environments.rollouts.retokenize import Retokenizer
from environments.rollouts.sources import open_source
from environments.runs.disk import Disk
from environments.training.group_file import GroupFile
from environments.training.metrics import TrainingMetrics
from environments.training.page import write_page
from environments.training.sampler import EpochSampler
from environments.training.slots import worker_slots
from judges.llm.errors import SettingsError

logger = logging.getLogger(__name__)

_ROWS_FOR_EACH_GROUP = 3


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of `process`.

    Attributes:
        path: the file of groups.
        page: the HTML page.
        groups: how many groups were written.
        dropped: how many groups were dropped, by reason.
        metrics: the metrics of all groups.
    """

    path: Path
    page: Path
    groups: int
    dropped: Mapping[str, int]
    metrics: Metrics


class ProcessRun:
    """One run of `process`."""

    def __init__(self, env: JudgedEnv[Any, Any, Any]) -> None:
        """Load the rows that `--limit` chooses, and create the file.

        Raises:
            DataError: the rows cannot be loaded.
            SettingsError: `total_steps` is below 1, an API key is missing, or the file cannot be created.
        """
        config, settings = env.config, env.settings
        if config.total_steps < 1:
            raise SettingsError(f"--env.total_steps: process needs the number of groups, got {config.total_steps}")
        source = open_source(settings, env.clients.session, Retokenizer(config.tokenizer_name))
        self._wanted = config.total_steps
        self._workers = worker_slots(settings)
        self._metrics = TrainingMetrics(config={"thinking_mode": float(config.thinking_mode)})
        self._pipeline = GroupPipeline(env, source, self._metrics)
        if "max_token_length" in config.model_fields_set:  # there is no trainer that sets a limit
            self._pipeline.max_token_len = config.max_token_length
        tasks = select(env.tasks("train"), limit=settings.limit, seed=config.seed)
        self._rows = len(tasks)
        self._sampler: EpochSampler[Any] = EpochSampler(tasks, config.seed)
        self._disk = Disk(config.disk_full_deadline)
        self._file = GroupFile(Path(config.data_path_to_save_groups or f"data/{env.name}.jsonl"), self._disk)

    async def run(self) -> ProcessResult:
        """Write `total_steps` groups, as many at once as there are workers.

        Raises:
            NothingSucceeds: an endpoint refused the first ten groups, so it would refuse the next.
            DiskFull: the file could not be written to for too long.
        """
        logger.info("writing %d groups (env.total_steps) of %d rows to %s", self._wanted, self._rows, self._file.path)
        numbers = iter(range(self._wanted))
        written = 0

        async def worker() -> None:
            nonlocal written
            for number in numbers:
                is_written = await self._write(number)  # awaited apart: `+=` reads its left side first
                written += is_written
                logger.info("%d of %d groups", written, self._wanted)

        workers = [asyncio.create_task(worker()) for _ in range(min(self._workers, self._wanted))]
        try:
            await asyncio.gather(*workers)
            await self._file.finish()
        finally:
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._file.close()
            self._disk.close()
        page = await self._disk.retried(self._file.path, lambda: write_page(self._file.path))
        metrics = self._metrics.flush(max_token_len=-1)
        return ProcessResult(self._file.path, page, written, self._metrics.total_dropped, metrics)

    async def _write(self, number: int) -> bool:
        """Write the group with a number: that of the next row, or of one of the two after it if it is dropped."""

        async def to_file(group: ScoredGroup) -> None:
            self._file.write(number, group.data)

        for _ in range(_ROWS_FOR_EACH_GROUP):
            await self._disk.ready()
            task = self._sampler.next()
            outcome = await self._pipeline.run(task, to_file)
            self._sampler.ack(task)
            if outcome == "sent":
                return True
        return False
