"""How many groups are begun."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.engine.settings import EnvConfig
from judgegym.environments.training.delivery import count_available_slots
from judgegym.environments.training.rollout_api import ApiStatus, TrainerLimits


def places(
    config: EnvConfig | None = None,
    *,
    batch_size: int = 16,
    status: dict[str, Any] | None = None,
    **other: Any,
) -> int:
    """Free places: groups of 4, batches of 16, nothing queued, nothing under way, 100 steps to go, or as given."""
    values: dict[str, Any] = {
        "step": 0,
        "queue": 0,
        "own_queue": 0,
        "weight": 1.0,
        "unallocated": 1.0,
    }
    ours: dict[str, Any] = {"workers": 100, "in_flight": 0, "unsent": 0, "sent_since": 0}
    run: dict[str, Any] = {"evaluating": False, "total_steps": 100}
    return count_available_slots(
        config or EnvConfig(group_size=4, max_batches_offpolicy=3),
        TrainerLimits(batch_size, -1),
        ApiStatus(**{**values, **(status or {})}),
        **{**ours, **run, **other},
    )


def config(**values: Any) -> EnvConfig:
    return EnvConfig(**{"group_size": 4, "max_batches_offpolicy": 3, **values})


def test_as_many_as_the_off_policy_limit_has_room_for() -> None:
    assert places() == 12
    assert places(status={"queue": 5}) == 7
    assert places(status={"queue": 5}, sent_since=2, in_flight=4) == 1
    assert places(status={"queue": 12}) == places(status={"queue": 50}) == 0


def test_a_group_that_is_posted_turn_by_turn_takes_the_room_of_its_turns() -> None:
    assert places(posts=3.0) == 4
    assert places(posts=3.0, in_flight=2, unsent=1) == 1
    assert places(posts=3.0, status={"queue": 11}) == 1, (
        "there would never be room for all of its turns"
    )
    assert places(posts=3.0, status={"queue": 12}) == 0
    assert places(config(max_batches_offpolicy=0), posts=3.0, total_steps=2) == 4


def test_groups_that_wait_to_be_posted_hold_no_worker_and_as_many_as_there_are_workers_may_wait() -> (
    None
):
    no_limit = config(max_batches_offpolicy=0)
    assert places(no_limit, workers=8, in_flight=0, unsent=8) == 8
    assert places(no_limit, workers=8, in_flight=5, unsent=8) == 3
    assert places(no_limit, workers=8, in_flight=5, unsent=10) == 1
    assert places(no_limit, workers=8, in_flight=0, unsent=16) == 0
    assert places(no_limit, workers=8, in_flight=0, unsent=16, evaluating=True) == 0


@pytest.mark.parametrize("limit", [0, -1])
def test_no_off_policy_limit(limit: int) -> None:
    assert places(config(max_batches_offpolicy=limit), status={"queue": 50}) == 100


def test_no_more_than_the_rest_of_the_run_can_use() -> None:
    """One batch more than its steps, since what is queued may be others' or not fit together."""
    assert places(config(max_batches_offpolicy=-1), total_steps=2) == 12
    assert (
        places(config(max_batches_offpolicy=-1), total_steps=2, status={"step": 1, "queue": 3}) == 5
    )
    assert places(config(max_batches_offpolicy=-1), total_steps=2, status={"step": 9}) == 0


@pytest.mark.parametrize(
    ("allocation", "status", "expected"),
    [
        (None, {"unallocated": 0.5}, 6),
        (0.5, {"unallocated": 0.5}, 12),
        (0.5, {"unallocated": 0.0}, 6),
        (0.5, {"unallocated": 0.0, "queue": 50, "own_queue": 1}, 5),
        (None, {"unallocated": 0.0}, 0),
    ],
)
def test_a_reserved_share_of_the_batch(
    allocation: float | None, status: dict[str, Any], expected: int
) -> None:
    """What is reserved for us is ours, however long the others' queue is; what is reserved for others is not."""
    assert places(config(min_batch_allocation=allocation), status=status) == expected


@pytest.mark.parametrize(
    ("handling", "expected"),
    [("STOP_TRAIN", 0), ("LIMIT_TRAIN", 4), ("NONE", 8)],
)
def test_an_evaluation_beside(handling: str, expected: int) -> None:
    settings = config(eval_handling=handling)
    assert places(settings, workers=8, evaluating=True) == expected
    assert places(settings, workers=8, evaluating=False) == 8


@given(
    group=st.sampled_from([1, 2, 4, 8]),
    groups_in_batch=st.integers(1, 16),
    offpolicy=st.integers(-1, 4),
    workers=st.integers(1, 64),
    in_flight=st.integers(0, 70),
    unsent=st.integers(0, 70),
    queue=st.integers(0, 70),
    sent_since=st.integers(0, 10),
    step=st.integers(0, 5),
)
def test_never_too_many_and_never_a_standstill(
    group: int,
    groups_in_batch: int,
    offpolicy: int,
    workers: int,
    in_flight: int,
    unsent: int,
    queue: int,
    sent_since: int,
    step: int,
) -> None:
    found = places(
        config(group_size=group, max_batches_offpolicy=offpolicy),
        batch_size=group * groups_in_batch,
        status={"queue": queue, "step": step},
        workers=workers,
        in_flight=in_flight,
        unsent=unsent,
        sent_since=sent_since,
        total_steps=5,
    )
    ahead = queue + sent_since + unsent + in_flight
    assert found >= 0
    assert in_flight + found <= max(workers, in_flight)
    assert in_flight + unsent + found <= max(2 * workers, in_flight + unsent)
    if offpolicy > 0:
        assert ahead + found <= max(ahead, offpolicy * groups_in_batch)
    if ahead < groups_in_batch and in_flight < workers and in_flight + unsent < 2 * workers:
        assert found > 0, "the trainer waits for a batch that nobody fills"
