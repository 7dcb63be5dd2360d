"""The actors of `judgegym score --ray`, and which unit goes to which of them.

The run stays in the process of the command: it hands out units one by one and writes each result when it arrives, so
that an actor that is killed, or the command itself, loses nothing but what was in flight. (Ray Data would hand out
blocks of rows, return a block's results at its end, and judge the whole block again.)

Guarantees: an actor has an equal share of the endpoint's limits for as long as the pool lasts, whether the others are
there or not. Units of an actor that has died go to the others at once; it gets new ones when Ray has started it again,
which Ray does when its process is dead, and with it its requests.

Source: ray 2.60 (`actor.py`, `exceptions.py`).

The actor of `judgegym score --ray`: a judge with one client, which judges many units at the same time.

Guarantee: the client is opened once, and with the actor's share of the endpoint's limits; the API key is that of the
environment variable in the actor's own process.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from judgegym.api.session import open_client
from judgegym.datasets.cluster.ledger import CollectedCall, CollectedRow, Held, record_calls
from judgegym.datasets.cluster.settings import share_of
from judgegym.datasets.rows.unit import DatasetJudgeSettings
from judgegym.engine.runs.ledger import LedgerOfRow
from judgegym.judges.scorers.items import Item, ResponseScore
from judgegym.judges.scorers.of_settings import scorer_of
from judgegym.judges.scorers.scorer import Scorer, results_of, score_item
from judgegym.llm.errors import SettingsError, UserError
from judgegym.llm.ledger import component, current_component, current_row, recorded_in


@dataclass(frozen=True, slots=True)
class ActorResult:
    """What comes back of a unit: a result for each response, and the calls that were made."""

    results: list[ResponseScore]
    calls: list[CollectedCall]


class JudgeActor:
    """Judges units in a process of its own."""

    def __init__(self, settings: DatasetJudgeSettings, identity: str) -> None:
        """Open nothing yet.

        Args:
            settings: with the actor's share of the limits.
            identity: of the endpoint in the cache's key, in place of its URL.
        """
        self._settings, self._identity = settings, identity
        self._stack = AsyncExitStack()
        self._scorer: Scorer | None = None
        self._opening = asyncio.Lock()

    async def ready(self) -> None:
        """Open the client.

        Raises:
            SettingsError: it cannot be opened here, such as for want of a key.
        """
        await self._opened()

    async def score(self, item: Item, held: Held, within: str) -> ActorResult:
        """Judge the responses of a unit.

        Args:
            item: the unit.
            held: what an earlier run was answered.
            within: what stands before the components of its calls.

        Raises:
            UserError: what no further call can mend.
        """
        scorer, row = await self._opened(), CollectedRow(held)
        with recorded_in(row), component(within.removesuffix("/")) if within else nullcontext():
            return ActorResult(await results_of(partial(score_item, scorer), item, "a unit"), row.calls)

    async def _opened(self) -> Scorer:
        async with self._opening:
            if self._scorer is None:
                client = await open_client(self._stack, self._settings, identity=self._identity)
                if was_restarted():
                    await client.use_up_rates()
                self._scorer = scorer_of(self._settings, client)
            return self._scorer


def was_restarted() -> bool:
    """Whether this process is an actor that Ray has started again, so that this minute's requests may be sent already.

    That is what Ray says of actors; any other process is none.
    """
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    context = ray.get_runtime_context()
    return context.get_actor_id() is not None and bool(context.was_current_actor_reconstructed)


logger = logging.getLogger(__name__)

_MORE_CALLS = 8
"""Calls of an actor beside its units: `ready`, once or twice."""


@dataclass(slots=True, eq=False)
class _Actor:
    """An actor as the pool sees it.

    Attributes:
        handle: Ray's.
        number: from 1.
        life: counts how often it was lost; places of an earlier life are void.
        is_there: it can be given units.
    """

    handle: Any
    number: int
    life: int = 0
    is_there: bool = False


class ActorPool:
    """Judges items in the actors of a cluster; `judgegym.datasets.score.loop` calls it as it calls a judge."""

    def __init__(self, settings: DatasetJudgeSettings, actors: int, identity: str) -> None:
        """Prepare; Ray is connected to a cluster.

        Raises:
            SettingsError: a limit is lower than the number of actors.
        """
        self._share = share_of(settings, actors, "--ray_actors")
        self._identity, self._count = identity, actors
        requests = self._share.judge_max_concurrency
        self._units = requests + max(2, requests // 4)  # few wait in an actor, because they are lost with it
        self._actors: list[_Actor] = []
        self._free: asyncio.Queue[tuple[_Actor, int] | None] = asyncio.Queue()
        """A place for each unit that an actor may have, with the actor's life; `None` wakes those who wait in vain."""
        self._joining: set[asyncio.Task[None]] = set()
        self._error: UserError | None = None

    def start(self) -> None:
        """Ask Ray for the actors; each gets units as soon as it is there."""
        import ray  # late: the extra `ray`

        make = ray.remote(JudgeActor).options(
            max_restarts=-1,  # whoever is preempted comes back, however often
            max_task_retries=0,  # its units go to the others meanwhile
            max_concurrency=self._units + _MORE_CALLS,
            scheduling_strategy="SPREAD",
        )
        for number in range(1, self._count + 1):
            actor = _Actor(make.remote(self._share, self._identity), number)
            self._actors.append(actor)
            self._join(actor)

    async def __call__(self, item: Item) -> list[ResponseScore]:
        """The results of an item's responses; the calls are recorded in the ledger of the row, if there is one.

        Raises:
            UserError: an actor cannot open the judge, or none can be started.
        """
        from ray.exceptions import RayActorError, RayTaskError  # late: the extra `ray`

        row = current_row()
        recorded = row if isinstance(row, LedgerOfRow) else None
        held = recorded.held() if recorded is not None and recorded.places else {}
        while True:
            actor, life = await self._place()
            try:
                judged: ActorResult = await actor.handle.score.remote(item, held, current_component())
            except RayActorError:
                self._lost(actor, life)
                continue
            except RayTaskError as error:
                raise _cause(error) from None
            finally:
                if life == actor.life:
                    self._free.put_nowait((actor, life))
            if recorded is not None:
                await record_calls(recorded, judged.calls)
            return judged.results

    @property
    def waiting(self) -> str | None:
        """How many actors are not there, in one sentence; `None` if all are."""
        away = sum(not actor.is_there for actor in self._actors)
        return f"{away} of {self._count} Ray actors are not there yet, or not any more" if away else None

    async def close(self) -> None:
        """End the actors."""
        import ray  # late: the extra `ray`

        for task in self._joining:
            task.cancel()
        await asyncio.gather(*self._joining, return_exceptions=True)
        for actor in self._actors:
            ray.kill(actor.handle, no_restart=True)

    async def _place(self) -> tuple[_Actor, int]:
        """Wait for an actor that can take a unit."""
        while True:
            place = await self._free.get()
            if place is None:
                self._free.put_nowait(None)
                assert self._error is not None
                raise self._error
            actor, life = place
            if life == actor.life:
                return place

    def _lost(self, actor: _Actor, life: int) -> None:
        """Note that an actor has died, and wait for it to come back."""
        if life != actor.life:
            return
        actor.life += 1
        actor.is_there = False
        logger.warning("Ray actor %d of %d is lost; its units go to the others", actor.number, self._count)
        self._join(actor)

    def _join(self, actor: _Actor) -> None:
        task = asyncio.ensure_future(self._joined(actor))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _joined(self, actor: _Actor) -> None:
        """Give an actor its places once it is there."""
        from ray.exceptions import RayActorError, RayTaskError  # late: the extra `ray`

        try:
            await actor.handle.ready.options(max_task_retries=-1).remote()
        except RayTaskError as error:
            self._fail(_cause(error))
        except RayActorError as error:
            self._fail(SettingsError(f"--ray: an actor cannot be started: {_last_line(error)}"))
        else:
            actor.is_there = True
            logger.info("Ray actor %d of %d is there", actor.number, self._count)
            for _ in range(self._units):
                self._free.put_nowait((actor, actor.life))

    def _fail(self, error: UserError) -> None:
        self._error = self._error or error
        self._free.put_nowait(None)


def _cause(error: Any) -> UserError:
    """What an actor has raised, as an error for the user."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, UserError) else SettingsError(f"--ray: an actor failed: {_last_line(error)}")


def _last_line(error: object) -> str:
    return str(error).strip().rpartition("\n")[2].strip()
