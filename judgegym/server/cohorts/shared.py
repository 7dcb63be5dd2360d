"""Cohorts that another process keeps: each response is sent there, and judged with the others of its group.

Guarantees: the caller's deadline goes along; a caller that disconnects has left the cohort; what the other process
refuses is refused here. If that process has not started or has died, it is waited for until the deadline: its successor
takes the responses that wait, and the cohort closes without those whose callers were connected to the dead one.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol

from judgegym.judges.scorers.items import Item, ResponseScore, failure

_PAUSES_S = (0.05, 0.1, 0.2, 0.4)
"""How long to wait for the process; the last one again and again."""
_MOST_LOST = 3
"""A response during which the process has died this often is given up: it may be the reason."""
_LATE = "the process that keeps the cohort did not answer within the server's deadline"
_LOST = "the process that kept the cohort has died several times"


@dataclass(frozen=True, slots=True)
class Member:
    """A response on its way to the process that keeps its cohort.

    Attributes:
        mount: the judge's name.
        item: the item with the response.
        spent_s: seconds of the caller's deadline that have passed.
    """

    mount: str
    item: Item
    spent_s: float


class OwnerLostError(Exception):
    """The process cannot be reached, or has died before it answered."""

    def __init__(self, *, taken: bool) -> None:
        """Say whether the process may have had the response when it died."""
        super().__init__("the process that keeps the cohort cannot be reached")
        self.taken = taken


class Owner(Protocol):
    """The process that keeps the cohorts."""

    async def ask(self, member: Member) -> ResponseScore:
        """Return the result of a member.

        Raises:
            OwnerLostError: the process cannot be reached, or has died before it answered.
            OverloadError: too many judgments are pending there.
        """


class SharedCohorts:
    """Joins responses to cohorts that another process keeps."""

    def __init__(self, owner: Owner, *, deadline_s: float) -> None:
        """Prepare.

        Args:
            owner: the process that keeps them.
            deadline_s: seconds within which a caller must have its result.
        """
        self._owner, self._deadline_s = owner, deadline_s

    async def join(self, mount: str, item: Item, spent_s: float) -> ResponseScore:
        """Return the result of a response among those of its cohort, before the caller's deadline.

        Raises:
            OverloadError: too many judgments are pending at the owner.
        """
        began = time.monotonic() - spent_s
        remaining = self._deadline_s - spent_s
        try:
            return await asyncio.wait_for(self._asked(mount, item, began), max(0.0, remaining))
        except asyncio.TimeoutError:
            return failure(_LATE)

    async def _asked(self, mount: str, item: Item, began: float) -> ResponseScore:
        """The owner's result, once there is an owner."""
        lost = waited = 0
        while True:
            try:
                return await self._owner.ask(Member(mount, item, time.monotonic() - began))
            except OwnerLostError as error:
                lost += error.taken
            if lost >= _MOST_LOST:
                return failure(_LOST)
            await asyncio.sleep(_PAUSES_S[min(waited, len(_PAUSES_S) - 1)])
            waited += 1
