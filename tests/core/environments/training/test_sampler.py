"""The order of training's rows, and what a checkpoint keeps of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.data.task_list import TaskList
from judgegym.environments.training.sampler import EpochSampler, RowWeights


@dataclass(frozen=True)
class Row:
    uid: str
    category: str | None = None
    question: str = ""


def rows(count: int) -> list[Row]:
    return [Row(f"row-{number}") for number in range(count)]


def epoch(order: EpochSampler[Row], size: int) -> list[str]:
    """The next rows, each done at once."""
    taken = []
    for _ in range(size):
        row = order.next()
        order.ack(row)
        taken.append(row.uid)
    return taken


def test_each_epoch_is_a_permutation_of_its_own_and_a_function_of_the_seed() -> None:
    first, second = EpochSampler(rows(20), 1), EpochSampler(list(reversed(rows(20))), 1)
    epochs = [epoch(first, 20) for _ in range(3)]
    assert all(sorted(each) == sorted(row.uid for row in rows(20)) for each in epochs)
    assert len({tuple(each) for each in epochs}) == 3
    assert [epoch(second, 20) for _ in range(3)] == epochs, "not a function of the dataset's order"
    assert epoch(EpochSampler(rows(20), 2), 20) != epochs[0]


def test_task_is_built_when_it_is_handed_out_also_after_a_checkpoint() -> None:
    built: list[int] = []

    def build(number: int) -> Row:
        built.append(number)
        return rows(20)[number]

    lazy = EpochSampler(TaskList([row.uid for row in rows(20)], build), 1)
    assert not built
    assert epoch(lazy, 25) == epoch(EpochSampler(rows(20), 1), 25), (
        "the order is that of a plain list"
    )
    unfinished = [lazy.next().uid for _ in range(2)]
    assert len(built) == 27
    resumed = EpochSampler(TaskList([row.uid for row in rows(20)], build), 1)
    resumed.load_state_dict(lazy.state_dict())
    assert len(built) == 29, "the rows that were not finished"
    assert epoch(resumed, 5) == unfinished + epoch(lazy, 3)


@given(size=st.integers(1, 9), before=st.integers(0, 30))
def test_a_restored_order_goes_on_as_the_first_would_have(size: int, before: int) -> None:
    order, restored = EpochSampler(rows(size), 3), EpochSampler(rows(size), 3)
    epoch(order, before)
    restored.load_state_dict(order.state_dict())
    assert epoch(restored, 30) == epoch(order, 30)


def test_rows_that_are_no_longer_there_are_left_out() -> None:
    order = EpochSampler(rows(6), 0)
    taken = [order.next().uid for _ in range(3)]
    smaller = EpochSampler([row for row in rows(6) if row.uid != taken[0]], 0)
    smaller.load_state_dict(order.state_dict())
    assert [smaller.next().uid, smaller.next().uid] == taken[1:]


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"epoch": "1", "position": 0, "unfinished": []},
        {"epoch": 0, "position": None, "unfinished": []},
        {"epoch": 0, "position": 0, "unfinished": "row-1"},
    ],
)
def test_what_is_no_state_changes_nothing(state: dict[str, Any]) -> None:
    order, other = EpochSampler(rows(6), 0), EpochSampler(rows(6), 0)
    with pytest.raises(ValueError, match="a row order: "):
        order.load_state_dict(state)
    assert epoch(order, 12) == epoch(other, 12)


def drawn(order: EpochSampler[Row], epochs: int, flat: set[str]) -> list[Counter[str]]:
    """How often each row was handed out in each epoch, if the groups of some rows have no signal."""
    taken: dict[int, Counter[str]] = defaultdict(Counter)
    while order.position[0] < epochs:
        row = order.next()
        taken[order.position[0]][row.uid] += 1
        order.record(row.uid, is_flat=row.uid in flat)
        order.ack(row)
    return [taken[number] for number in range(epochs)]


def test_rows_without_a_signal_are_drawn_in_a_share_of_the_epochs() -> None:
    flat = {f"row-{number}" for number in range(10)}
    order = EpochSampler(rows(20), 3, RowWeights(0.25, 2))
    epochs = drawn(order, 42, flat)
    assert all(set(epoch) == {row.uid for row in rows(20)} for epoch in epochs[:2]), (
        "not before two visits"
    )
    assert all(epoch[row.uid] == 1 for epoch in epochs for row in rows(20) if row.uid not in flat)
    of_flat = sum(epoch[uid] for epoch in epochs[2:] for uid in flat)
    assert abs(of_flat / 400 - 0.25) < 4 * (0.25 * 0.75 / 400) ** 0.5
    assert order.flat_rows == 10 and 0 <= order.skipped - (400 - of_flat) < 20, (
        "those of the epoch that has begun"
    )
    assert drawn(EpochSampler(rows(20), 3, RowWeights(0.25, 2)), 42, flat) == epochs, (
        "a function of the seed"
    )
    assert drawn(EpochSampler(rows(20), 4, RowWeights(0.25, 2)), 42, flat) != epochs


def test_a_row_counts_as_the_others_once_a_group_of_it_has_a_signal() -> None:
    order = EpochSampler(rows(4), 3, RowWeights(0.01, 2))
    assert [order.record("row-0", is_flat=each) for each in (True, True, False, False)] == [
        1,
        2,
        0,
        None,
    ]
    assert order.flat_rows == 0
    assert drawn(order, 5, set())[1:] == [Counter({row.uid: 1 for row in rows(4)})] * 4


def test_rows_that_are_all_flat_are_still_handed_out() -> None:
    order = EpochSampler(rows(3), 3, RowWeights(1e-9, 1))
    for row in rows(3):
        order.record(row.uid, is_flat=True)
    assert epoch(order, 3) and order.skipped == 9, "one after an epoch of skipped ones"


def test_weights_go_on_from_a_checkpoint_and_from_what_was_recorded() -> None:
    flat = {"row-0", "row-1", "row-2"}
    order, loaded, restored = (EpochSampler(rows(6), 3, RowWeights(0.3, 1)) for _ in range(3))
    kept: dict[str, int] = {}
    for row in (order.next() for _ in range(9)):
        if (equal := order.record(row.uid, is_flat=row.uid in flat)) is not None:
            kept[row.uid] = equal
        order.ack(row)
    state: Any = json.loads(json.dumps(order.state_dict()))
    loaded.load_state_dict(state)
    restored.load_state_dict({name: value for name, value in state.items() if name != "equal"})
    for uid, equal in kept.items():
        restored.restore_flat(uid, equal)
    expected = drawn(order, 8, flat)
    assert drawn(loaded, 8, flat) == drawn(restored, 8, flat) == expected
