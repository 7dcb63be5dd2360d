"""The cluster of `judgegym score --ray`: one of this machine, which begins and ends with the run, or one at an address.

Guarantees: a cluster of this machine ends with the block, however that ends, and with the process if that is killed;
on a cluster at an address, the actors end. No API key leaves the process: each actor reads its own environment.

Source: ray 2.60 (`_private/worker.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from judgegym.datasets.cluster.pool import ActorPool
from judgegym.datasets.cluster.settings import LOCAL, check_no_key, share_of
from judgegym.datasets.rows.unit import DatasetJudgeSettings
from judgegym.judges.config.extras import require
from judgegym.llm.errors import SettingsError
from judgegym.llm.types import ChatSettings

_LISTENS_S = 10.0
"""For so long an address may take to accept a connection."""


@dataclass(frozen=True, slots=True)
class OnRay:
    """Where a run is judged.

    Attributes:
        address: of the cluster; `local` for one of this machine that is begun.
        actors: how many judge.
    """

    address: str
    actors: int

    def check(self, settings: DatasetJudgeSettings, *, is_offline: bool, has_budget: bool) -> None:
        """Check that a run can be judged there.

        Args:
            settings: of the judge.
            is_offline: the judge is a stand-in.
            has_budget: the run has a budget.

        Raises:
            SettingsError: it cannot.
            MissingExtraError: Ray is not installed.
        """
        require("ray")
        check_no_key(settings, "--judge_api_key")
        share_of(settings, self.actors, "--ray_actors")
        if has_budget:
            raise SettingsError(
                "--budget_calls, --budget_usd: a budget is kept by the one process that asks the judge; leave out --ray"
            )
        if is_offline and self.address != LOCAL:
            raise SettingsError("--offline: its stand-in is on this machine; expected --ray local")

    @asynccontextmanager
    async def pool(self, settings: DatasetJudgeSettings, asked: ChatSettings) -> AsyncIterator[ActorPool]:
        """A pool of actors on the cluster, for the duration of the block.

        Args:
            settings: of the judge; they may have others beside.
            asked: the judge's endpoint, which may be a stand-in.

        Raises:
            SettingsError: there is no cluster at the address, or a limit is lower than the number of actors.
        """
        pool = ActorPool(judge_alone(settings, asked), self.actors, asked.identity)
        await _check_listens(self.address)
        starting = asyncio.ensure_future(asyncio.to_thread(_connect, self.address, self.actors))
        try:
            await asyncio.shield(starting)
            pool.start()
            yield pool
        finally:
            await asyncio.wait([starting])  # whoever is cancelled ends what was being started
            if starting.exception() is None:
                await pool.close()
                await asyncio.to_thread(_disconnect)


def judge_alone(settings: DatasetJudgeSettings, asked: ChatSettings) -> DatasetJudgeSettings:
    """The judge's settings without those beside them, for the endpoint that is asked."""
    names = DatasetJudgeSettings.model_fields.keys()
    values = {name: getattr(settings, name) for name in names}
    given = settings.model_fields_set & names
    if asked.identity:  # a stand-in's URL and name are not those of the settings
        values["judge_base_url"] = ",".join(endpoint.base_url for endpoint in asked.endpoints)
        values["judge_model_name"] = asked.endpoints[0].model
        given |= {"judge_base_url", "judge_model_name"}
    if settings.judge_cache is not None:
        values["judge_cache"] = settings.judge_cache.expanduser().absolute()
    return DatasetJudgeSettings.model_construct(_fields_set=set(given), **values)


async def _check_listens(address: str) -> None:
    """Check that somebody listens at an address with a port: Ray itself would try for minutes.

    Raises:
        SettingsError: nobody does.
    """
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"--ray {address}: {error}") from error
    if parts.hostname is None or port is None:
        return
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(parts.hostname, port), _LISTENS_S)
    except (OSError, asyncio.TimeoutError) as error:
        raise SettingsError(f"--ray {address}: no cluster of Ray is there ({error or 'no answer'})") from error
    writer.close()


def _connect(address: str, actors: int) -> None:
    """Start a cluster, or connect to one. In a thread: Ray then leaves the signals of the command alone.

    Raises:
        SettingsError: there is no cluster.
    """
    import ray  # late: the extra `ray`

    more: Mapping[str, Any] = {}
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of a run reports to nobody
        more = {"num_cpus": max(actors, os.cpu_count() or 1), "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **more)
    except (ConnectionError, ValueError, RuntimeError) as error:
        first, _, _ = str(error).strip().partition("\n")
        raise SettingsError(f"--ray {address}: {first}") from error


def _disconnect() -> None:
    import ray  # late: the extra `ray`

    ray.shutdown()
