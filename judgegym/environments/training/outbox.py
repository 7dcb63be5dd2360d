"""The groups that wait to be posted: they go together, and hold nobody up.

Guarantees: a group leaves the outbox only when its outcome is known: the API has it, or refuses it. Groups that are
ready while a post is on its way go in the next one, within the limits of a list; if the API refuses a list, each of its
groups is posted alone, so that only what is wrong is dropped. How many groups may wait is decided before they begin
(`slots.available_slots`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from judgegym.environments.training.delivery import Delivery

MOST_GROUPS = 64
"""In one post: so many are posted again, and counted, if nobody can tell whether they arrived."""
MOST_BYTES = 16 * 1024 * 1024
"""In one post, unless its first group is larger."""


@dataclass(frozen=True, slots=True)
class _QueuedGroup:
    """A group as JSON; its outcome is why it is refused, or `None`."""

    group: bytes
    outcome: asyncio.Future[str | None]


class Outbox:
    """Posts what is put into it, while `run` runs."""

    def __init__(self, delivery: Delivery) -> None:
        """Begin empty."""
        self._delivery = delivery
        self._waiting: deque[_QueuedGroup] = deque()
        self._on_its_way: list[_QueuedGroup] = []
        self._is_ready = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Groups whose outcome is not known, those that are on their way among them."""
        return len(self._waiting) + len(self._on_its_way)

    async def deliver(self, group: bytes) -> str | None:
        """Post a group, as JSON; return why the API refuses it, or `None`, however long that takes."""
        waiting = _QueuedGroup(group, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._is_ready.set()
        return await waiting.outcome

    async def run(self) -> None:
        """Post groups as they come, until `close`."""
        while await self._is_ready.wait() and not self._is_closed:
            self._on_its_way = self._next_post()
            self._is_idle.clear()
            try:
                await self._post(self._on_its_way)
            finally:
                self._on_its_way = []
                self._is_idle.set()

    async def close(self, patience_s: float) -> None:
        """Begin no further post; wait, for so long at most, until the outcome of the one on its way is known.

        Its groups are done when this returns: nobody can tell later whether they arrived.
        """
        self._is_closed = True
        self._is_ready.set()
        if self._delivery.is_posting:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._is_idle.wait(), patience_s)

    def _next_post(self) -> list[_QueuedGroup]:
        """Take the groups of the next post from those that wait."""
        post = [self._waiting.popleft()]
        size = len(post[0].group)
        while self._waiting and len(post) < MOST_GROUPS:
            size += len(self._waiting[0].group)
            if size > MOST_BYTES:
                break
            post.append(self._waiting.popleft())
        if not self._waiting and not self._is_closed:
            self._is_ready.clear()
        return post

    async def _post(self, post: list[_QueuedGroup]) -> None:
        refusal = await self._delivery.deliver([waiting.group for waiting in post])
        for waiting in post:
            is_alone = refusal is None or len(post) == 1
            outcome = refusal if is_alone else await self._delivery.deliver([waiting.group])
            if not waiting.outcome.done():  # whoever waited for it was cancelled
                waiting.outcome.set_result(outcome)
