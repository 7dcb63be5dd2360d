"""The actor of `judgegym score --ray`: a judge with one client, which judges many units at the same time.

Guarantee: the client is opened once, and with the actor's share of the endpoint's limits; the API key is that of the
environment variable in the actor's own process.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from functools import partial

from judgegym.api.session import open_client
from judgegym.datasets.cluster.calls import CollectedCall, CollectedRow, Held
from judgegym.datasets.rows.judge import DatasetJudgeSettings
from judgegym.judges.scorers.boundary import results_of
from judgegym.judges.scorers.items import Item, ResponseScore
from judgegym.judges.scorers.of_settings import scorer_of
from judgegym.judges.scorers.scorer import Scorer, score_item
from judgegym.llm.ledger import component, recorded_in


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
