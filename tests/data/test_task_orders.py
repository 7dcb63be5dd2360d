"""Choices and orders of tasks depend on the seed and the ids alone."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from judgegym.data.task_list import epoch_order, select


@dataclass(frozen=True)
class Numbered:
    uid: str
    category: str | None = None
    question: str = "?"


TASKS = [Numbered(f"row-{number}") for number in range(50)]


@given(seed=st.integers(), limit=st.integers(1, 60), shuffled=st.randoms())
def test_the_chosen_rows_depend_on_seed_and_ids_alone(seed: int, limit: int, shuffled: random.Random) -> None:
    chosen = select(TASKS, limit=limit, seed=seed)
    assert len(chosen) == min(limit, 50)
    assert chosen == [task for task in TASKS if task in chosen], "in their own order"
    others = list(TASKS)
    shuffled.shuffle(others)
    assert set(select(others, limit=limit, seed=seed)) == set(chosen)


def test_without_a_limit_all_rows_are_chosen() -> None:
    assert select(TASKS, limit=None, seed=0) == TASKS
    assert select([], limit=3, seed=0) == []


def test_each_row_is_chosen_about_as_often() -> None:
    counts = dict.fromkeys(TASKS, 0)
    for seed in range(400):
        for task in select(TASKS, limit=10, seed=seed):
            counts[task] += 1
    assert min(counts.values()) > 45, "80 are expected of each, with a standard deviation of 8"
    assert max(counts.values()) < 120


@given(seed=st.integers(), epoch=st.integers(0, 100), shuffled=st.randoms())
def test_an_epochs_order_depends_on_seed_epoch_and_ids_alone(seed: int, epoch: int, shuffled: random.Random) -> None:
    order = epoch_order(TASKS, seed=seed, epoch=epoch)
    assert sorted(order, key=TASKS.index) == TASKS, "each row once"
    others = list(TASKS)
    shuffled.shuffle(others)
    assert epoch_order(others, seed=seed, epoch=epoch) == order
    assert epoch_order(TASKS, seed=seed, epoch=epoch + 1) != order
    assert epoch_order(TASKS, seed=seed + 1, epoch=epoch) != order
