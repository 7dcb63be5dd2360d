"""Delivery of groups to the rollout API, each exactly once as far as the API allows to tell.

Guarantees: groups are posted only while the API knows our registration, and so a trainer. They are
posted again until the API has them, however long it is down. If the response to a post is lost,
the API's own counters decide whether its groups arrived. If they cannot, the groups are posted
again and counted (`maybe_double`), because a lost group is a paid one.

The API takes the groups of a post all or not at all: it checks the whole list, and queues it
without a pause. There is one post at a time, so a counter that grew by the size of a list can only
mean that list. Groups that are ready while a post is in flight go in the next one, within the
limits of a list; if the API refuses a list, each of its groups is posted alone, so that only the
wrong ones are dropped. How many groups may wait is decided before they begin
(`count_available_slots`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from judgegym.engine.settings import EnvConfig, EnvSettings
from judgegym.environments.training.connection import TrainerConnection
from judgegym.environments.training.rollout_api import (
    ApiRefusal,
    ApiStatus,
    ApiUnavailable,
    TrainerLimits,
    call_with_retries,
)
from judgegym.llm import wire
from judgegym.llm.urls import split_urls
from judgegym.llm.wire import JSON
from judgegym.monitoring.pause import Pause

logger = logging.getLogger(__name__)

_GROUPS_PER_SERVER = 8  # in progress at once, unless max_num_workers says how many
_EVALUATION_SHARE = 0.5  # of the workers, with eval_handling=LIMIT_TRAIN

Arrival = Literal["arrived", "missing", "unknown"]
MAX_GROUPS = 64
"""Maximum number of groups in a post, which are posted again and counted if their arrival is
unknown."""
MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of a post, unless its first group is larger."""


class Outbox:
    """Queue of groups that `run` posts together; callers do not wait for each other.

    Attributes:
        maybe_double: groups that were posted again although the first post may have arrived.
        undecided: groups whose response was lost, and that are neither found nor posted again yet.
        is_posting: whether a post is in flight, or its response was lost and its groups are
            searched for.
    """

    def __init__(self, connection: TrainerConnection, pause: Pause | None = None) -> None:
        """Begin empty; post nothing while a pause lasts."""
        self.maybe_double = 0
        self.undecided = 0
        self.is_posting = False
        self._connection, self._pause = connection, pause
        self._last: bytes | None = None
        self._waiting: deque[tuple[tuple[bytes, ...], asyncio.Future[str | None]]] = deque()
        self._in_flight = 0
        self._is_ready = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Number of groups whose outcome is not known, in flight or not.

        The turns of a group count as one.
        """
        return len(self._waiting) + self._in_flight

    async def deliver(self, *groups: bytes) -> str | None:
        """Post a group as JSON, or those of its turns, in one post; return why the API refuses it.

        Return `None` once the API has it, however long that takes.
        """
        outcome: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((groups, outcome))
        self._is_ready.set()
        return await outcome

    async def run(self) -> None:
        """Post groups as they come, until `close`."""
        while await self._is_ready.wait() and not self._is_closed:
            groups = self._next_post()
            self._in_flight = len(groups)
            self._is_idle.clear()
            try:
                all_posts: list[bytes] = []
                for posts, _ in groups:
                    all_posts += posts
                refusal = await self.post(all_posts)
                for posts, outcome in groups:
                    reason = refusal
                    if refusal is not None and len(groups) > 1:
                        reason = await self.post(posts)
                    if not outcome.done():  # whoever waited for it was cancelled
                        outcome.set_result(reason)
            finally:
                self._in_flight = 0
                self._is_idle.set()

    async def close(self, patience_s: float) -> None:
        """Begin no further post; wait, at most `patience_s`, for the outcome of the one in flight.

        Its groups are done when this returns: nobody can tell later whether they arrived.
        """
        self._is_closed = True
        self._is_ready.set()
        if self.is_posting:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._is_idle.wait(), patience_s)

    def _next_post(self) -> list[tuple[tuple[bytes, ...], asyncio.Future[str | None]]]:
        """Take the groups of the next post from the queue."""
        post = [self._waiting.popleft()]
        count, size = len(post[0][0]), sum(map(len, post[0][0]))
        while self._waiting:
            posts, _ = self._waiting[0]
            count, size = count + len(posts), size + sum(map(len, posts))
            if count > MAX_GROUPS or size > MAX_BYTES:
                break
            post.append(self._waiting.popleft())
        if not self._waiting and not self._is_closed:
            self._is_ready.clear()
        return post

    async def post(self, groups: Sequence[bytes]) -> str | None:
        """Post groups together, once the API is up; return why the API refuses them, or `None`.

        Args:
            groups: at least one group, all of one size, as JSON. Await a call before the next one.
        """
        connection = self._connection
        while True:
            if self._pause is not None:
                await self._pause.wait_until_open()
            await connection.joined.wait()
            try:
                arrived = await self._post_once(groups)
            except ApiUnavailable as error:
                logger.info("%d groups wait for the rollout API: %s", len(groups), error)
                connection.joined.clear()
            except ApiRefusal as error:
                return f"the rollout API refuses it: {error}"
            else:
                if arrived:
                    connection.sent_since += len(groups)
                    self._last = groups[-1]
                    return None

    def log_uncertain_groups(self) -> None:
        """Log how many groups may be double, and how many may not have arrived."""
        if self.maybe_double:
            logger.warning(
                "groups that the trainer may have twice, their answers were lost: %d",
                self.maybe_double,
            )
        if self.undecided:
            logger.warning("groups that may not have reached the trainer: %d", self.undecided)

    async def _post_once(self, groups: Sequence[bytes]) -> bool:
        """Post groups; return whether the API has them.

        Raises:
            ApiUnavailable: the API did not get them.
            ApiRefusal: the API does not accept them.
        """
        connection, api = self._connection, self._connection.api
        epoch, env_id = connection.membership.epoch, connection.registration.env_id
        before = await call_with_retries(partial(api.status, env_id))
        self.is_posting = True
        try:
            await api.send(groups, env_id)
        except ApiUnavailable as error:
            if not error.may_have_acted:
                raise
            self.undecided += len(groups)
            arrival = await self._find_arrival(groups, epoch, env_id, before)
            self.undecided -= len(groups)
            logger.info(
                "the answer to a post of %d groups was lost (%s): it is %s",
                len(groups),
                error,
                arrival,
            )
            if arrival == "unknown" or (arrival == "missing" and error.timed_out):
                self.maybe_double += len(groups)
            return arrival == "arrived"
        finally:
            self.is_posting = False
        return True

    async def _find_arrival(
        self, groups: Sequence[bytes], epoch: int, env_id: int, before: ApiStatus
    ) -> Arrival:
        """Ask the API whether it has the groups of a post, as soon as it is up.

        Args:
            groups: the groups that were posted.
            epoch: the API's epoch at the post.
            env_id: our number at the API.
            before: the API's status before the post.
        """
        connection = self._connection
        while True:
            await connection.joined.wait()
            if connection.membership.epoch != epoch:
                return "missing"  # what the API had in its queue is gone
            try:
                after = await call_with_retries(partial(connection.api.status, env_id))
                sizes = {
                    "group_size": connection.config.group_size,
                    "batch_size": connection.trainer.batch_size,
                }
                arrival = compare_counters(before, after, posted=len(groups), **sizes)
                if arrival != "unknown":
                    return arrival
                return self._find_last_group(
                    groups[-1], env_id, await call_with_retries(connection.api.latest_group)
                )
            except (ApiUnavailable, ApiRefusal):
                connection.joined.clear()

    def _find_last_group(self, last: bytes, env_id: int, latest: Mapping[str, JSON]) -> Arrival:
        """Look for the last group of a post at the end of the queue.

        The post before may have ended with the same texts; then the end of the queue tells nothing.
        """
        content = _content(wire.loads(last))
        if self._last is not None and _content(wire.loads(self._last)) == content:
            return "unknown"
        if latest.get("env_id") == env_id and _content(latest) == content:
            return "arrived"
        return "unknown"


def compare_counters(
    before: ApiStatus, after: ApiStatus, *, posted: int, group_size: int, batch_size: int
) -> Arrival:
    """Return whether the groups of a post were queued between two statuses of their environment.

    The environment made no other post in between.

    Args:
        before: the status before the post.
        after: the status after it.
        posted: groups in the post.
        group_size: sequences in a group.
        batch_size: sequences that the trainer takes in a step.
    """
    taken_groups = 0
    if after.step != before.step:
        if not (before.is_alone and after.is_alone):
            return "unknown"  # nobody says of whose groups a batch was made
        taken_groups = (after.step - before.step) * batch_size // group_size
    queue_growth = after.own_queue - (before.own_queue - taken_groups)
    if queue_growth == 0:
        return "missing"
    if queue_growth == posted:
        return "arrived"
    return "unknown"


def _content(group: JSON) -> bytes:
    """Return tokens and scores, which are equal if two groups are the same."""
    assert isinstance(group, Mapping)
    return wire.dumps([group.get("tokens"), group.get("scores")])


def count_worker_slots(settings: EnvSettings[Any]) -> int:
    """Return how many groups may be in progress at once."""
    config, openai = settings.env, settings.openai
    if config.max_num_workers != -1:
        return int(config.max_num_workers)
    return _GROUPS_PER_SERVER * (len(openai.replicas) or len(split_urls(openai.base_url)))


def count_available_slots(
    config: EnvConfig,
    trainer: TrainerLimits,
    status: ApiStatus,
    *,
    workers: int,
    in_flight: int,
    unsent: int,
    sent_since: int,
    evaluating: bool,
    total_steps: int,
    posts: float = 1.0,
) -> int:
    """Return how many groups to begin, within the limits of workers, off-policy batches and steps.

    Args:
        config: `max_batches_offpolicy` (≤ 0: no limit), `min_batch_allocation`, `group_size`,
            `eval_handling`.
        trainer: the batch size, in sequences.
        status: step and queues, in groups of our size.
        workers: maximum number of groups in flight.
        in_flight: groups that are in flight: sampled or judged.
        unsent: groups that are finished and wait to be posted; at most as many as workers.
        sent_since: groups sent since the status.
        evaluating: whether an evaluation is running.
        total_steps: the step at which the run ends.
        posts: mean number of the API's groups per group of ours: above 1 where each turn is a
            group.

    Returns:
        A number ≥ 0.

    Source:
        atroposlib 0.4.0, `BaseEnv.add_train_workers`, without its cancelling of groups in
        progress.
    """
    slots: int = (
        min(_count_workers(config, workers, evaluating=evaluating), 2 * workers - unsent)
        - in_flight
    )
    ours_to_come = sent_since + math.ceil((unsent + in_flight) * posts)
    queued = status.queue + ours_to_come
    if config.max_batches_offpolicy > 0:
        reserved = config.min_batch_allocation or 0.0
        batches = config.max_batches_offpolicy * trainer.batch_size
        room = int(batches * (status.unallocated + reserved)) // config.group_size - queued
        if reserved:
            own_queued = status.own_queue + ours_to_come
            room = max(room, math.ceil(batches * reserved / config.group_size) - own_queued)
        # Even the turns of a single group may be more than there is room for.
        slots = min(slots, math.ceil(room / posts))
    # One batch more than the run needs: what is queued may be others', or not fit together.
    needed: int = (total_steps - status.step + 1) * trainer.batch_size // config.group_size - queued
    # Without our share no batch is made, however much of others' is queued.
    if config.min_batch_allocation:
        own_share = math.ceil(trainer.batch_size * config.min_batch_allocation / config.group_size)
        needed = max(needed, own_share - status.own_queue - ours_to_come)
    return max(0, min(slots, math.ceil(needed / posts)))


def _count_workers(config: EnvConfig, workers: int, *, evaluating: bool) -> int:
    handling = config.eval_handling
    if not evaluating or handling == "NONE":
        return workers
    if handling == "STOP_TRAIN":
        return 0
    return int(workers * _EVALUATION_SHARE)
