"""Deliver groups to the rollout API, each exactly once as far as the API lets one know.

Guarantees: a group is posted only while the API knows our registration, and so a trainer; it is posted again until the
API has it, however long the API is down. If the answer to a post is lost, the API's own counters decide whether the
group arrived; if they cannot, it is posted again and counted (`maybe_double`), because a lost group is a paid one.

Groups are posted one after the other, so that a counter that grew by one can only mean the group in question.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from environments.training.connection import TrainerConnection
from environments.training.rollout_api import ApiRefusal, ApiStatus, ApiUnavailable, insist
from judges.llm import wire
from judges.llm.wire import JSON

logger = logging.getLogger(__name__)

Arrival = Literal["arrived", "missing", "unknown"]


@dataclass(frozen=True, slots=True)
class _Post:
    """When and as whom a group was posted: the API's epoch, our number there, and its status before the post."""

    epoch: int
    env_id: int
    before: ApiStatus


class Delivery:
    """Posts groups over a connection.

    Attributes:
        maybe_double: groups that were posted again although the first post may have arrived.
        undecided: groups whose answer was lost, and that are neither found nor posted again yet.
    """

    def __init__(self, connection: TrainerConnection) -> None:
        """Post nothing yet."""
        self.maybe_double = 0
        self.undecided = 0
        self._connection = connection
        self._one_at_a_time = asyncio.Lock()
        self._last: Mapping[str, JSON] | None = None

    async def deliver(self, group: Mapping[str, JSON]) -> str | None:
        """Post a group, once the API is up; return why the API refuses it, or `None`."""
        connection = self._connection
        async with self._one_at_a_time:
            while True:
                await connection.joined.wait()
                epoch, env_id = connection.epoch, connection.registration.env_id
                try:
                    before = await insist(partial(connection.api.status, env_id))
                    arrived = await self._arrives(group, _Post(epoch, env_id, before))
                except ApiUnavailable as error:
                    logger.info("a group waits for the rollout API: %s", error)
                    connection.lost()
                except ApiRefusal as error:
                    return f"the rollout API refuses it: {error}"
                else:
                    if arrived:
                        connection.sent_since += 1
                        self._last = group
                        return None

    async def _arrives(self, group: Mapping[str, JSON], post: _Post) -> bool:
        """Post a group; return whether the API has it.

        Raises:
            ApiUnavailable: the API did not get it.
            ApiRefusal: the API does not accept it.
        """
        try:
            await self._connection.api.send(group, post.env_id)
        except ApiUnavailable as error:
            if not error.may_have_acted:
                raise
            self.undecided += 1
            arrival = await self._find_out(group, post)
            self.undecided -= 1
            logger.info("a group's answer was lost (%s): it is %s", error, arrival)
            if arrival == "unknown" or (arrival == "missing" and error.timed_out):
                self.maybe_double += 1
            return arrival == "arrived"
        return True

    async def _find_out(self, group: Mapping[str, JSON], post: _Post) -> Arrival:
        """Ask the API whether it has a group, as soon as it is up."""
        connection = self._connection
        while True:
            await connection.joined.wait()
            if connection.epoch != post.epoch:
                return "missing"  # what the API had in its queue is gone
            try:
                after = await insist(partial(connection.api.status, post.env_id))
                arrival = by_counters(
                    post.before, after, group_size=size(group), batch_size=connection.trainer.batch_size
                )
                if arrival != "unknown":
                    return arrival
                return self._by_content(group, post.env_id, await insist(connection.api.latest_group))
            except (ApiUnavailable, ApiRefusal):
                connection.lost()

    def _by_content(self, group: Mapping[str, JSON], env_id: int, latest: Mapping[str, JSON]) -> Arrival:
        """Look for the group at the end of the queue; the same texts may have been sent before, which tells nothing."""
        if self._last is not None and _same(self._last, group):
            return "unknown"
        return "arrived" if latest.get("env_id") == env_id and _same(latest, group) else "unknown"


def by_counters(before: ApiStatus, after: ApiStatus, *, group_size: int, batch_size: int) -> Arrival:
    """Return whether a group was queued between two statuses of its environment, which queued no other.

    Args:
        before: the status before the post.
        after: the status after it.
        group_size: sequences in a group.
        batch_size: sequences that the trainer takes in a step.
    """
    taken = 0
    if after.step != before.step:
        if not (before.is_alone and after.is_alone):
            return "unknown"  # nobody says of whose groups a batch was made
        taken = (after.step - before.step) * batch_size // group_size
    match after.own_queue - (before.own_queue - taken):
        case 0:
            return "missing"
        case 1:
            return "arrived"
        case _:
            return "unknown"


def size(group: Mapping[str, JSON]) -> int:
    """Return the number of sequences in a group."""
    scores = group["scores"]
    assert isinstance(scores, list)
    return len(scores)


def _same(one: Mapping[str, JSON], other: Mapping[str, JSON]) -> bool:
    """Return whether two groups have the same tokens and scores; one of them may have come over the wire."""
    return wire.dumps([one.get("tokens"), one.get("scores")]) == wire.dumps([other.get("tokens"), other.get("scores")])
