"""Tasks are built when they are asked for, each once before the first call, and stand for a plain list of them.

Choices and orders of tasks depend on the seed and the ids alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.data.rows import Row, index_by_uid
from judgegym.data.task_list import TaskList, epoch_order, index_uids, list_uids, pick_tasks, select
from judgegym.llm.errors import DataError


@dataclass(frozen=True)
class Named:
    uid: str
    question: str = "?"
    category: str | None = None


ROWS = [
    Row("data.jsonl", number, {"uid": f"u{number}", "text": f"text {number}"})
    for number in range(1, 6)
]


class Builder:
    """Builds a task of a row, and counts."""

    def __init__(self) -> None:
        self.built: list[str] = []

    def __call__(self, uid: str, row: Row) -> Named:
        self.built.append(uid)
        return Named(uid, row.text("text"))


def made() -> tuple[TaskList[Named], list[str]]:
    """All tasks, and the uids of those that were built since."""
    builder = Builder()
    tasks = TaskList.from_rows(index_by_uid(ROWS), builder)
    builder.built.clear()
    return tasks, builder.built


def test_each_task_is_built_once_before_the_list_is_there_and_anew_when_it_is_asked_for() -> None:
    builder = Builder()
    tasks = TaskList.from_rows(index_by_uid(ROWS), builder)
    assert builder.built == ["u1", "u2", "u3", "u4", "u5"]
    assert tasks[1] == tasks[1] == Named("u2", "text 2")
    assert tasks[1] is not tasks[1]
    assert builder.built[5:] == ["u2"] * 4


def test_row_that_cannot_be_used_is_an_error_before_the_list_is_there() -> None:
    with pytest.raises(DataError, match=r"data\.jsonl, row 6: expected text in text"):
        TaskList.from_rows(index_by_uid([*ROWS, Row("data.jsonl", 6, {"uid": "u6"})]), Builder())


def test_list_reads_as_a_plain_list_of_its_tasks_does() -> None:
    tasks, _ = made()
    plain = [Named(f"u{number}", f"text {number}") for number in range(1, 6)]
    assert list(tasks) == plain
    assert len(tasks) == 5
    assert tasks[-1] == plain[-1]
    assert list(tasks[1:4:2]) == plain[1:4:2]
    assert list(reversed(tasks)) == plain[::-1]
    assert plain[2] in tasks
    with pytest.raises(IndexError):
        tasks[5]


def test_row_with_several_tasks_or_none() -> None:
    rows = {"a": ROWS[0], "b": ROWS[1], "c": ROWS[2]}
    counts = {"a": 2, "b": 0, "c": 1}
    tasks = TaskList.expand_rows(
        rows, lambda uid, row: [Named(f"{uid}:{each}") for each in range(counts[uid])]
    )
    assert [task.uid for task in tasks] == list(tasks.uids) == ["a:0", "a:1", "c:0"]


def plain_and_lazy() -> list[Sequence[Named]]:
    tasks, _ = made()
    return [list(tasks), tasks]


@pytest.mark.parametrize("tasks", plain_and_lazy(), ids=["a plain list", "a task list"])
def test_uids_positions_choices_and_orders_are_those_of_a_plain_list(
    tasks: Sequence[Named],
) -> None:
    assert list(list_uids(tasks)) == ["u1", "u2", "u3", "u4", "u5"]
    assert index_uids(tasks) == {"u1": 0, "u2": 1, "u3": 2, "u4": 3, "u5": 4}
    assert list(list_uids(pick_tasks(tasks, [3, 0]))) == ["u4", "u1"]
    assert [task.uid for task in pick_tasks(tasks, [3, 0])] == ["u4", "u1"]
    chosen, order = select(tasks, limit=3, seed=2), epoch_order(tasks, seed=2, epoch=1)
    assert [task.uid for task in chosen] == list(list_uids(chosen)) == CHOSEN
    assert [task.uid for task in order] == list(list_uids(order)) == ORDER


CHOSEN = ["u1", "u4", "u5"]
ORDER = ["u1", "u4", "u2", "u5", "u3"]


def test_uids_positions_choices_and_orders_build_no_task() -> None:
    tasks, built = made()
    list_uids(tasks)
    index_uids(tasks)
    epoch_order(select(tasks, limit=3, seed=0), seed=0, epoch=0)
    assert pick_tasks(tasks, [1])[:1].map(lambda task: Named(task.uid)).uids == ["u2"]  # type: ignore[union-attr]
    assert built == []


def test_converted_and_filtered_lists_keep_uids_and_order() -> None:
    tasks, _ = made()
    louder = tasks.map(lambda task: Named(task.uid, task.question.upper()))
    assert louder[0] == Named("u1", "TEXT 1")
    wanted = louder.where(lambda task: task.question != "TEXT 2")
    assert [task.uid for task in wanted] == list(wanted.uids) == ["u1", "u3", "u4", "u5"]


@dataclass(frozen=True)
class Numbered:
    uid: str
    category: str | None = None
    question: str = "?"


TASKS = [Numbered(f"row-{number}") for number in range(50)]


@pytest.mark.slow
@given(seed=st.integers(), limit=st.integers(1, 60), shuffled=st.randoms())
def test_the_chosen_rows_depend_on_seed_and_ids_alone(
    seed: int, limit: int, shuffled: random.Random
) -> None:
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


@pytest.mark.slow
@given(seed=st.integers(), epoch=st.integers(0, 100), shuffled=st.randoms())
def test_an_epochs_order_depends_on_seed_epoch_and_ids_alone(
    seed: int, epoch: int, shuffled: random.Random
) -> None:
    order = epoch_order(TASKS, seed=seed, epoch=epoch)
    assert sorted(order, key=TASKS.index) == TASKS, "each row once"
    others = list(TASKS)
    shuffled.shuffle(others)
    assert epoch_order(others, seed=seed, epoch=epoch) == order
    assert epoch_order(TASKS, seed=seed, epoch=epoch + 1) != order
    assert epoch_order(TASKS, seed=seed + 1, epoch=epoch) != order
