"""Deliver groups to the rollout API, each exactly once as far as the API lets one know.

Guarantees: groups are posted only while the API knows our registration, and so a trainer; they are posted again until
the API has them, however long the API is down. If the answer to a post is lost, the API's own counters decide whether
its groups arrived; if they cannot, they are posted again and counted (`maybe_double`), because a lost group is a paid
one.

The API takes the groups of one post all or not at all: it checks the whole list, and queues it without a pause. There
is one post at a time, so that a counter that grew by the size of a list can only mean that list.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from judgegym.environments.training.connection import TrainerConnection
from judgegym.environments.training.rollout_api import ApiRefusal, ApiStatus, ApiUnavailable, insist
from judgegym.llm import wire
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

Arrival = Literal["arrived", "missing", "unknown"]


@dataclass(frozen=True, slots=True)
class _Post:
    """When and as whom groups were posted: the API's epoch, our number there, and its status before the post."""

    epoch: int
    env_id: int
    before: ApiStatus


class Delivery:
    """Posts groups over a connection; `outbox.Outbox` calls it with the groups that are ready together.

    Attributes:
        maybe_double: groups that were posted again although the first post may have arrived.
        undecided: groups whose answer was lost, and that are neither found nor posted again yet.
        is_posting: a post is on its way, or its answer was lost and its groups are looked for.
    """

    def __init__(self, connection: TrainerConnection) -> None:
        """Post nothing yet."""
        self.maybe_double = 0
        self.undecided = 0
        self.is_posting = False
        self._connection = connection
        self._last: bytes | None = None

    async def deliver(self, groups: Sequence[bytes]) -> str | None:
        """Post groups together, once the API is up; return why the API refuses them, or `None`.

        Args:
            groups: as JSON, of one size, at least one. Await a call before the next one.
        """
        connection = self._connection
        while True:
            await connection.joined.wait()
            epoch, env_id = connection.epoch, connection.registration.env_id
            try:
                before = await insist(partial(connection.api.status, env_id))
                arrived = await self._arrive(groups, _Post(epoch, env_id, before))
            except ApiUnavailable as error:
                logger.info("%d groups wait for the rollout API: %s", len(groups), error)
                connection.lost()
            except ApiRefusal as error:
                return f"the rollout API refuses it: {error}"
            else:
                if arrived:
                    connection.sent_since += len(groups)
                    self._last = groups[-1]
                    return None

    def say_what_is_not_known(self) -> None:
        """Log how many groups may be double, and how many may not have arrived."""
        if self.maybe_double:
            logger.warning("groups that the trainer may have twice, their answers were lost: %d", self.maybe_double)
        if self.undecided:
            logger.warning("groups that may not have reached the trainer: %d", self.undecided)

    async def _arrive(self, groups: Sequence[bytes], post: _Post) -> bool:
        """Post groups; return whether the API has them.

        Raises:
            ApiUnavailable: the API did not get them.
            ApiRefusal: the API does not accept them.
        """
        self.is_posting = True
        try:
            await self._connection.api.send(groups, post.env_id)
        except ApiUnavailable as error:
            if not error.may_have_acted:
                raise
            self.undecided += len(groups)
            arrival = await self._find_out(groups, post)
            self.undecided -= len(groups)
            logger.info("the answer to a post of %d groups was lost (%s): it is %s", len(groups), error, arrival)
            if arrival == "unknown" or (arrival == "missing" and error.timed_out):
                self.maybe_double += len(groups)
            return arrival == "arrived"
        finally:
            self.is_posting = False
        return True

    async def _find_out(self, groups: Sequence[bytes], post: _Post) -> Arrival:
        """Ask the API whether it has the groups of a post, as soon as it is up."""
        connection = self._connection
        while True:
            await connection.joined.wait()
            if connection.epoch != post.epoch:
                return "missing"  # what the API had in its queue is gone
            try:
                after = await insist(partial(connection.api.status, post.env_id))
                arrival = by_counters(
                    post.before,
                    after,
                    posted=len(groups),
                    group_size=connection.group_size,
                    batch_size=connection.trainer.batch_size,
                )
                if arrival != "unknown":
                    return arrival
                return self._by_content(groups[-1], post.env_id, await insist(connection.api.latest_group))
            except (ApiUnavailable, ApiRefusal):
                connection.lost()

    def _by_content(self, last: bytes, env_id: int, latest: Mapping[str, JSON]) -> Arrival:
        """Look for the last group of a post at the end of the queue.

        The post before may have ended with the same texts, which tells nothing.
        """
        content = _content(wire.loads(last))
        if self._last is not None and _content(wire.loads(self._last)) == content:
            return "unknown"
        return "arrived" if latest.get("env_id") == env_id and _content(latest) == content else "unknown"


def by_counters(before: ApiStatus, after: ApiStatus, *, posted: int, group_size: int, batch_size: int) -> Arrival:
    """Return whether the groups of a post were queued between two statuses of their environment, which made no other.

    Args:
        before: the status before the post.
        after: the status after it.
        posted: groups in the post.
        group_size: sequences in a group.
        batch_size: sequences that the trainer takes in a step.
    """
    taken = 0
    if after.step != before.step:
        if not (before.is_alone and after.is_alone):
            return "unknown"  # nobody says of whose groups a batch was made
        taken = (after.step - before.step) * batch_size // group_size
    grown = after.own_queue - (before.own_queue - taken)
    if grown == 0:
        return "missing"
    return "arrived" if grown == posted else "unknown"


def _content(group: JSON) -> bytes:
    """Return what two groups have in common if they are the same one: tokens and scores."""
    assert isinstance(group, Mapping)
    return wire.dumps([group.get("tokens"), group.get("scores")])
