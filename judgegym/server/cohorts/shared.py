"""Cohorts of several processes: each is kept by one of them, its owner, and the others bring it their responses.

Guarantees: equal keys have one owner, whichever process is asked; the caller's deadline goes along; a caller that
leaves is gone at the owner, too; what the owner refuses is refused here. An owner that has not started or has died is
waited for until the deadline, unless this process stops: its successor takes the responses that wait, and the cohort
closes without those whose callers were connected to the dead one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from judgegym.judges.scorers.items import Item, ResponseScore, failure
from judgegym.server.cohorts.contract import Cohorts
from judgegym.server.cohorts.key import cohort_key
from judgegym.server.cohorts.messages import Member

_PAUSES_S = (0.05, 0.1, 0.2, 0.4)
"""How long to wait for an owner; the last one again and again."""
_MOST_LOST = 3
"""A response whose owner has died this often while it was there is given up: it may be the reason."""
_LATE = "the process that keeps the cohort did not answer within the server's deadline"
_STOPPING = "the process that kept the cohort has ended, and the server stops"
_LOST = "the process that kept the cohort has died several times"


class OwnerAwayError(Exception):
    """The owner cannot be reached, or has died before it answered."""

    def __init__(self, *, taken: bool) -> None:
        """Say whether the owner may have had the response when it died."""
        super().__init__("the process that keeps the cohort is away")
        self.taken = taken


class Owners(Protocol):
    """The processes that keep cohorts, by number."""

    async def ask(self, owner: int, member: Member) -> ResponseScore:
        """The result of a member, from the process that keeps its cohort.

        Raises:
            OwnerAwayError: the owner cannot be reached, or has died before it answered.
            OverloadError: too many judgments are pending there.
        """


def owner_of(key: str, workers: int) -> int:
    """The number of the process that keeps the cohort of a key, from 0.

    Args:
        key: a digest in hexadecimal digits (`cohort_key`).
        workers: how many processes keep cohorts.
    """
    return int(key[:16], 16) % workers


class SharedCohorts:
    """Joins responses to cohorts that other processes may keep."""

    def __init__(
        self,
        owners: Owners,
        count: int,
        *,
        deadline_s: float,
        own: tuple[int, Cohorts] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare.

        Args:
            owners: all processes that keep cohorts.
            count: their number.
            deadline_s: seconds within which a caller must have its result.
            own: the number of this process, and the cohorts that it keeps.
            is_stopping: whether this process stops, and waits for no owner.
        """
        self._owners, self._count, self._deadline_s = owners, count, deadline_s
        self._own = own
        self._is_stopping = is_stopping

    async def join(self, mount: str, item: Item, spent_s: float) -> ResponseScore:
        """The result of a response among those of its cohort, before the caller's deadline.

        Raises:
            OverloadError: too many judgments are pending at the owner.
        """
        owner = owner_of(cohort_key(mount, item), self._count)
        if self._own is not None and self._own[0] == owner:
            return await self._own[1].join(mount, item, spent_s)
        began = time.monotonic() - spent_s
        remaining = self._deadline_s - spent_s
        try:
            return await asyncio.wait_for(self._asked(owner, mount, item, began), max(0.0, remaining))
        except asyncio.TimeoutError:
            return failure(_LATE)

    async def _asked(self, owner: int, mount: str, item: Item, began: float) -> ResponseScore:
        """The owner's result, once there is an owner."""
        lost = waited = 0
        while True:
            try:
                return await self._owners.ask(owner, Member(mount, item, time.monotonic() - began))
            except OwnerAwayError as away:
                lost += away.taken
            if self._is_stopping():
                return failure(_STOPPING)
            if lost >= _MOST_LOST:
                return failure(_LOST)
            await asyncio.sleep(_PAUSES_S[min(waited, len(_PAUSES_S) - 1)])
            waited += 1
