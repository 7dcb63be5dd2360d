"""The order of training's rows, and what a checkpoint keeps of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.training.sampler import RowOrder


@dataclass(frozen=True)
class Row:
    uid: str
    category: str | None = None
    question: str = ""


def rows(count: int) -> list[Row]:
    return [Row(f"row-{number}") for number in range(count)]


def epoch(order: RowOrder[Row], size: int) -> list[str]:
    """The next rows, each done at once."""
    taken = []
    for _ in range(size):
        row = order.take()
        order.done(row)
        taken.append(row.uid)
    return taken


def test_each_epoch_is_a_permutation_of_its_own_and_a_function_of_the_seed() -> None:
    first, second = RowOrder(rows(20), 1), RowOrder(list(reversed(rows(20))), 1)
    epochs = [epoch(first, 20) for _ in range(3)]
    assert all(sorted(each) == sorted(row.uid for row in rows(20)) for each in epochs)
    assert len({tuple(each) for each in epochs}) == 3
    assert [epoch(second, 20) for _ in range(3)] == epochs, "not a function of the dataset's order"
    assert epoch(RowOrder(rows(20), 2), 20) != epochs[0]


def test_there_must_be_rows() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        RowOrder([], 0)


def test_what_is_given_back_comes_next() -> None:
    order = RowOrder(rows(5), 0)
    first, second = order.take(), order.take()
    order.give_back(second)
    order.give_back(first)
    assert [order.take(), order.take()] == [second, first]


STEPS = st.lists(st.sampled_from(["take", "take", "done", "give_back"]), max_size=60)


class Book:
    """Follows an order: which rows are under way, and how often each one was finished."""

    def __init__(self, order: RowOrder[Row]) -> None:
        self.order = order
        self.under_way: list[Row] = []
        self.finished: Counter[str] = Counter()

    def step(self, what: str, number: int) -> None:
        if what == "take":
            self.under_way.append(self.order.take())
        elif self.under_way:
            row = self.under_way.pop(number % len(self.under_way))
            if what == "done":
                self.finished[row.uid] += 1
                self.order.done(row)
            else:
                self.order.give_back(row)

    def finish(self) -> None:
        row = self.order.take()
        self.order.done(row)
        self.finished[row.uid] += 1


@given(size=st.integers(1, 9), steps=STEPS, numbers=st.lists(st.integers(0, 100), min_size=60, max_size=60))
def test_a_checkpoint_neither_repeats_nor_loses_a_row(size: int, steps: list[str], numbers: list[int]) -> None:
    """After it, the rows that were taken up are finished, and then each row exactly as often as any other."""
    book = Book(RowOrder(rows(size), 3))
    for what, number in zip(steps, numbers, strict=False):
        book.step(what, number)
    state: Any = json.loads(json.dumps(book.order.state()))
    book.order = RowOrder(rows(size), 3)
    book.order.restore(state)
    assert book.order.state() == state

    epochs = state["epoch"] + 1
    while sum(book.finished.values()) < epochs * size:
        book.finish()
    assert book.finished == Counter({row.uid: epochs for row in rows(size)})


@given(size=st.integers(1, 9), before=st.integers(0, 30))
def test_a_restored_order_goes_on_as_the_first_would_have(size: int, before: int) -> None:
    order, restored = RowOrder(rows(size), 3), RowOrder(rows(size), 3)
    epoch(order, before)
    restored.restore(order.state())
    assert epoch(restored, 30) == epoch(order, 30)


def test_rows_that_are_no_longer_there_are_left_out() -> None:
    order = RowOrder(rows(6), 0)
    taken = [order.take().uid for _ in range(3)]
    smaller = RowOrder([row for row in rows(6) if row.uid != taken[0]], 0)
    smaller.restore(order.state())
    assert [smaller.take().uid, smaller.take().uid] == taken[1:]


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
    order, other = RowOrder(rows(6), 0), RowOrder(rows(6), 0)
    with pytest.raises(ValueError, match="not the state of a row order"):
        order.restore(state)
    assert epoch(order, 12) == epoch(other, 12)
