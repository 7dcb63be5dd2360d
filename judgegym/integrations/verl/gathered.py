"""One place where the samples of a prompt meet, however many reward workers verl has.

verl gives each sample to a reward worker that it draws at random (`AgentLoopWorker._compute_score`), so that the
samples of a prompt are spread over `reward.num_workers` processes. Guarantees: with several workers, one Ray actor
gathers and judges for all of them; limits of the judge count for the training as a whole. An actor that dies is started
again, and asked again.

Source: Ray 2.60, named actors; verl 0.9.1, `RewardLoopManager`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Protocol

from judgegym.integrations.scores.gathering import SampleBatcher
from judgegym.integrations.scores.requests import CompletionRow
from judgegym.integrations.scores.results import TrainerReward
from judgegym.integrations.verl.settings import ManagerSettings

_MOST_WAITING = 100_000
"""How many samples may wait in the actor; each of verl's reward workers takes 1,000 at a time."""


class Groups(Protocol):
    """Scores samples one by one."""

    async def score(self, group: str, row: CompletionRow, *, size: int, recurs: bool) -> TrainerReward:
        """What a sample is worth."""


class Actor:
    """The groups of a training, in a process of their own."""

    def __init__(self, settings: ManagerSettings, size: int) -> None:
        """Gather groups of `size`."""
        self._gathering = settings.gathering(size)

    async def score(self, group: str, row: CompletionRow, size: int, recurs: bool) -> TrainerReward:
        """See `Groups`."""
        return await self._gathering.score(group, row, size=size, recurs=recurs)


class InActor:
    """Groups in the actor that all reward workers share."""

    def __init__(self, settings: ManagerSettings, size: int) -> None:
        """Find the actor of these settings, or start it."""
        import ray  # late: verl brings it along

        digest = hashlib.sha256(repr((dataclasses.asdict(settings), size)).encode()).hexdigest()[:16]
        options = {
            "name": f"judgegym-{digest}",
            "get_if_exists": True,
            "num_cpus": 0,
            "max_concurrency": _MOST_WAITING,
            "max_restarts": -1,
            "max_task_retries": -1,
        }
        self._actor: Any = ray.remote(Actor).options(**options).remote(settings, size)

    async def score(self, group: str, row: CompletionRow, *, size: int, recurs: bool) -> TrainerReward:
        """See `Groups`."""
        worth: TrainerReward = await self._actor.score.remote(group, row, size, recurs)
        return worth


def groups_of(settings: ManagerSettings, size: int, *, workers: int) -> Groups:
    """Where samples meet: in this process, if it is the only one.

    Raises:
        SettingsError: a setting is wrong.
    """
    here: SampleBatcher = settings.gathering(size)
    return InActor(settings, size) if workers > 1 and _has_ray() else here


def _has_ray() -> bool:
    """Whether this process belongs to a training of verl's, and not to a script."""
    import ray  # late: verl brings it along

    return bool(ray.is_initialized())
