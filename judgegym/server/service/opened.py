"""The opened service: judges, metrics and tokens of one process, which all bindings answer with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass

from judgegym.judges.config.judge import STAND_IN_IDENTITY
from judgegym.judges.config.sources import LoadedSettings
from judgegym.llm.errors import SettingsError
from judgegym.offline import StandIn
from judgegym.server.cohorts.register import Connect
from judgegym.server.core import Core
from judgegym.server.operation.telemetry import Telemetry, telemetry
from judgegym.server.service.bodies import Access
from judgegym.server.settings.server import JudgeMount, RewardServerSettings


@dataclass(slots=True)
class Service:
    """What answers requests; `draining` refuses new ones."""

    settings: RewardServerSettings
    mounts: Mapping[str, JudgeMount]
    core: Core
    telemetry: Telemetry
    access: Access
    draining: bool = False

    def drain(self) -> None:
        """Refuse new requests, and judge the cohorts that wait for members: none come."""
        self.draining = True
        self.core.stop_gathering()


@asynccontextmanager
async def opened(
    loaded: LoadedSettings[RewardServerSettings], *, connect: Connect = nullcontext
) -> AsyncIterator[Service]:
    """The service for these settings, with the stand-in if they ask for it; open while the context lasts.

    Args:
        loaded: the settings.
        connect: opens the cohorts of all processes, given those of this one; by default this one is alone.

    Raises:
        SettingsError: a judge's settings are wrong.
    """
    settings = loaded.settings
    async with _judges(loaded) as (mounts, identity):
        counted = telemetry(lambda: core.pending)
        core = Core(
            mounts,
            deadline_s=settings.deadline,
            queue_s=settings.queue_deadline,
            max_pending=settings.max_pending,
            on_result=counted.judged,
            on_cohort=counted.cohort,
            judge_identity=identity,
            connect=connect,
        )
        async with core:
            watching = asyncio.create_task(core.watch())
            try:
                yield Service(settings, mounts, core, counted, Access(settings.tokens))
            finally:
                watching.cancel()


@asynccontextmanager
async def _judges(loaded: LoadedSettings[RewardServerSettings]) -> AsyncIterator[tuple[dict[str, JudgeMount], str]]:
    """The judges; with `--offline` all of them call the stand-in, whatever endpoint the settings name."""
    settings, mounts = loaded.settings, loaded.settings.judges()
    if not settings.offline:
        yield mounts, ""
        return
    try:
        stand_in = StandIn(settings.latency_ms, settings.faults, judge_only=True)
    except ValueError as error:
        raise SettingsError(f"--faults or --latency_ms: {error}") from error
    async with stand_in:
        update = {"judge_base_url": stand_in.base_url, "judge_model_name": "offline-judge"}
        yield {name: mount.model_copy(update=update) for name, mount in mounts.items()}, STAND_IN_IDENTITY
