"""Compute how many groups to begin now."""

from __future__ import annotations

import math
from typing import Any

from judgegym.engine.settings import EnvConfig, EnvSettings
from judgegym.environments.training.rollout_api import ApiStatus, TrainerLimits
from judgegym.llm.urls import split_urls


def worker_slots(settings: EnvSettings[Any]) -> int:
    """Return how many groups may be in progress at once."""
    config, openai = settings.env, settings.openai
    if config.max_num_workers != -1:
        return int(config.max_num_workers)
    return int(config.max_num_workers_per_node) * (len(openai.replicas) or len(split_urls(openai.base_url)))


def available_slots(
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
) -> int:
    """Return how many groups to begin: limited by the workers, the off-policy limit and the rest of the run.

    Args:
        config: `max_batches_offpolicy` (≤ 0: no limit), `min_batch_allocation`, `group_size`, `eval_handling`.
        trainer: the batch size, in sequences.
        status: step and queues, in groups of our size.
        workers: groups that may be in flight at once.
        in_flight: groups that are in flight: sampled or judged.
        unsent: groups that are finished and wait to be posted; as many as there are workers may.
        sent_since: groups sent since the status.
        evaluating: whether an evaluation is running.
        total_steps: the step at which the run ends.

    Returns:
        A number ≥ 0.

    Source:
        atroposlib 0.4.0, `BaseEnv.add_train_workers`, without its cancelling of groups that are under way.
    """
    places: int = min(_workers(config, workers, evaluating=evaluating), 2 * workers - unsent) - in_flight
    ours_to_come = sent_since + unsent + in_flight
    queued = status.queue + ours_to_come
    if config.max_batches_offpolicy > 0:
        reserved = config.min_batch_allocation or 0.0
        batches = config.max_batches_offpolicy * trainer.batch_size
        room = int(batches * (status.unallocated + reserved)) // config.group_size - queued
        if reserved:
            own = status.own_queue + ours_to_come
            room = max(room, math.ceil(batches * reserved / config.group_size) - own)
        places = min(places, room)
    # One batch more than the run needs: what is queued may be others', or not fit together.
    needed: int = (total_steps - status.step + 1) * trainer.batch_size // config.group_size - queued
    if config.min_batch_allocation:  # without our share no batch is made, however much of others' is queued
        own_share = math.ceil(trainer.batch_size * config.min_batch_allocation / config.group_size)
        needed = max(needed, own_share - status.own_queue - ours_to_come)
    return max(0, min(places, needed))


def _workers(config: EnvConfig, workers: int, *, evaluating: bool) -> int:
    handling = config.eval_handling
    if not evaluating or handling == "NONE":
        return workers
    share: float = 0.0 if handling == "STOP_TRAIN" else config.eval_limit_ratio
    return int(workers * share)
