"""Score with Ray (`judgegym score --ray`): start the cluster and its actors, and hand out tasks.

The run stays in the process of the command. It hands out tasks one by one, and writes each result
and its calls when they arrive, so that a killed actor or command loses only the tasks in progress.
Ray Data would judge a whole block of rows again; with blocks of one row it hands out 45 rows a
second on two cores, this pool 1,400.

Guarantees: each actor has an equal share of the endpoint's limits as long as the pool lasts, even
if other actors are missing. Tasks of a dead actor go to the others at once; it gets new tasks when
Ray has restarted it, which happens after its process, and so its requests, have ended. A cluster
that was started on this machine ends with the run, and with the process if that is killed; on a
cluster at an address, the actors end. No API key leaves the process: each actor reads its own
environment.

Source: ray 2.60 (`actor.py`, `exceptions.py`, `_private/worker.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from judgegym.datasets.cluster.actors import ActorResult, JudgeActor
from judgegym.datasets.cluster.settings import LOCAL, check_no_key, divide_limits
from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.engine.runs.ledger import DiskRowLedger
from judgegym.judges.config.extras import require
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.llm.at_once import cancel_all
from judgegym.llm.errors import SettingsError, UserError
from judgegym.llm.ledger import (
    current_component,
    current_row,
)
from judgegym.llm.types import ChatSettings

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 10.0
"""How long an address may take to accept a connection."""
_MORE_CALLS = 8
"""Calls of an actor in addition to its tasks: `ready`, once or twice."""


@dataclass(slots=True, eq=False)
class _ActorLife:
    """An actor from start to death; each task that it can take is a slot in the pool's queue."""

    actor: Any
    over: asyncio.Event = field(default_factory=asyncio.Event)


class ActorPool:
    """Judges tasks in the actors of a cluster; `ResponseJudge` calls it like a judge."""

    def __init__(self, settings: DatasetJudgeSettings, actors: int, identity: str) -> None:
        """Prepare; Ray need not be connected yet.

        Raises:
            SettingsError: a limit is lower than the number of actors.
        """
        self._share = divide_limits(settings, actors, "--ray_actors")
        self._identity, self._count, self._present = identity, actors, 0
        requests = self._share.judge_max_concurrency
        self._tasks = requests + max(
            2, requests // 4
        )  # few tasks wait in an actor, because they are lost with it
        self._slots: asyncio.Queue[_ActorLife | UserError] = asyncio.Queue()
        """Free slots of actors; or an error, which every waiting task raises."""
        self._actors: list[Any] = []
        self._keepers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the actors; each gets tasks as soon as it is ready."""
        import ray  # late: the extra `ray`

        make = ray.remote(JudgeActor).options(
            max_restarts=-1,  # a preempted actor is restarted, however often
            max_task_retries=0,  # its rows go to the other actors
            max_concurrency=self._tasks + _MORE_CALLS,
            scheduling_strategy="SPREAD",
        )
        self._actors = [make.remote(self._share, self._identity) for _ in range(self._count)]
        self._keepers = [
            asyncio.ensure_future(self._offer_slots(*numbered_actor))
            for numbered_actor in enumerate(self._actors, start=1)
        ]

    async def __call__(self, task: JudgeTask) -> list[ResponseJudgment]:
        """Judge a task's responses, and record the calls in the row's ledger, if there is one.

        Raises:
            UserError: an actor cannot open the judge, or no actor can be started.
        """
        from ray.exceptions import RayActorError, RayTaskError  # late: the extra `ray`

        row = current_row()
        recorded = row if isinstance(row, DiskRowLedger) else None
        held = {} if recorded is None else recorded.recorded_answers()
        while True:
            life = await self._next_actor()
            try:
                judged: ActorResult = await life.actor.score.remote(task, held, current_component())
            except RayActorError:
                life.over.set()
                continue
            except RayTaskError as error:
                raise _cause(error) from None
            finally:
                self._slots.put_nowait(life)
            results, calls = judged
            if recorded is not None:
                await calls.record(recorded)
            return results

    @property
    def waiting(self) -> str | None:
        """A sentence that says how many actors are missing; `None` if all are ready."""
        away = self._count - self._present
        if away:
            return f"{away} of {self._count} Ray actors have not started yet, or are lost"
        return None

    async def close(self) -> None:
        """End the actors."""
        import ray  # late: the extra `ray`

        await cancel_all(self._keepers)
        for actor in self._actors:
            ray.kill(actor, no_restart=True)

    async def _next_actor(self) -> _ActorLife:
        """Wait for an actor that can take a task."""
        while True:
            slot = await self._slots.get()
            if isinstance(slot, UserError):
                self._slots.put_nowait(slot)
                raise slot
            if not slot.over.is_set():
                return slot

    async def _offer_slots(self, number: int, actor: Any) -> None:
        """Add an actor's slots to the queue whenever it is ready."""
        from ray.exceptions import RayActorError, RayTaskError  # late: the extra `ray`

        try:
            while True:
                await actor.ready.options(max_task_retries=-1).remote()
                logger.info("Ray actor %d of %d is there", number, self._count)
                self._present += 1
                life = _ActorLife(actor)
                for _ in range(self._tasks):
                    self._slots.put_nowait(life)
                await life.over.wait()
                self._present -= 1
                logger.warning(
                    "Ray actor %d of %d is lost; its rows go to the others", number, self._count
                )
        except RayTaskError as error:
            self._slots.put_nowait(_cause(error))
        except RayActorError as error:
            self._slots.put_nowait(
                SettingsError(f"--ray: an actor cannot be started: {_last_line(error)}")
            )


def _cause(error: Any) -> UserError:
    """Return the error that an actor has raised, as an error for the user."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UserError):
        return cause
    return SettingsError(f"--ray: an actor failed: {_last_line(error)}")


def _last_line(error: object) -> str:
    return str(error).strip().rpartition("\n")[2].strip()


def check_on_ray(
    address: str, actors: int, settings: DatasetJudgeSettings, *, is_offline: bool, has_budget: bool
) -> None:
    """Check that a run can be judged on a cluster.

    Args:
        address: the cluster's address; `local` starts one on this machine.
        actors: the number of actors.
        settings: the judge's settings.
        is_offline: the judge is a stand-in.
        has_budget: the run has a budget.

    Raises:
        SettingsError: the settings do not allow it.
        MissingExtraError: Ray is not installed.
    """
    require("ray")
    check_no_key(settings, "--judge_api_key")
    divide_limits(settings, actors, "--ray_actors")
    if has_budget:
        raise SettingsError(
            "--budget_calls, --budget_usd: a budget is kept by the one process that asks the "
            "judge; leave out --ray"
        )
    if is_offline and address != LOCAL:
        raise SettingsError("--offline: its stand-in is on this machine; expected --ray local")


@asynccontextmanager
async def open_pool(
    address: str, actors: int, settings: DatasetJudgeSettings, chat_settings: ChatSettings
) -> AsyncIterator[ActorPool]:
    """Open a pool of actors on a cluster, for the duration of the block.

    Args:
        address: as for `check_on_ray`.
        actors: the number of actors.
        settings: settings that include the judge's.
        chat_settings: the judge's endpoint, which may be a stand-in.

    Raises:
        SettingsError: there is no cluster at the address, or a limit is lower than the number of
            actors.
    """
    pool = ActorPool(select_judge_settings(settings, chat_settings), actors, chat_settings.identity)
    await _check_reachable(address)
    startup = asyncio.ensure_future(asyncio.to_thread(_connect, address, actors))
    try:
        await asyncio.shield(startup)
        pool.start()
        yield pool
    finally:
        await asyncio.wait([startup])  # even a cancelled run ends the cluster that it was starting
        if startup.exception() is None:
            import ray  # late: the extra `ray`

            await pool.close()
            await asyncio.to_thread(ray.shutdown)


def select_judge_settings(
    settings: DatasetJudgeSettings, chat_settings: ChatSettings
) -> DatasetJudgeSettings:
    """Return the judge's settings alone, for the endpoint that is called."""
    everything = {name: getattr(settings, name) for name in type(settings).model_fields}
    judge_type = DatasetJudgeSettings.select_class(everything)
    values = {name: everything[name] for name in judge_type.model_fields}
    fields_set = settings.model_fields_set & values.keys()
    if chat_settings.identity:  # a stand-in's URL and name are not those of the settings
        values["judge_base_url"] = ",".join(
            endpoint.base_url for endpoint in chat_settings.endpoints
        )
        values["judge_model_name"] = chat_settings.endpoints[0].model
        fields_set |= {"judge_base_url", "judge_model_name"}
    if settings.judge_cache is not None:
        values["judge_cache"] = settings.judge_cache.expanduser().absolute()
    return judge_type.model_construct(_fields_set=set(fields_set), **values)


async def _check_reachable(address: str) -> None:
    """Check that an address with a port accepts connections: Ray itself would try for minutes.

    Raises:
        SettingsError: it does not.
    """
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"--ray {address}: {error}") from error
    if parts.hostname is None or port is None:
        return
    try:
        _, writer = await asyncio.wait_for(
            asyncio.open_connection(parts.hostname, port), _CONNECT_TIMEOUT_S
        )
    except (OSError, asyncio.TimeoutError) as error:
        raise SettingsError(
            f"--ray {address}: there is no Ray cluster ({error or 'no answer'})"
        ) from error
    writer.close()


def _connect(address: str, actors: int) -> None:
    """Start a cluster, or connect to one; in a thread, so that Ray installs no signal handlers.

    Raises:
        SettingsError: there is no cluster.
    """
    import ray  # late: the extra `ray`

    options: Mapping[str, Any] = {}
    if address == LOCAL:
        os.environ.setdefault(
            "RAY_USAGE_STATS_ENABLED", "0"
        )  # a run's own cluster sends no usage statistics
        options = {"num_cpus": max(actors, os.cpu_count() or 1), "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        first, _, _ = str(error).strip().partition("\n")
        raise SettingsError(f"--ray {address}: {first}") from error
