"""What memory holds of a dataset: ids and places of rows, and no text, however long the rows are."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym.data.answers import answer_text, load_answers
from judgegym.data.pairs import add_swapped, choice_task, read_preferences
from judgegym.data.rows import Row, index_by_uid, load_rows
from judgegym.data.rubric_rows import read_answers, read_gold, read_rubric_rows
from judgegym.data.task_list import TaskList, epoch_order, index_uids, select
from judgegym.eval_environments.arena.environment import ArenaHardTask, make_arena_task
from judgegym.eval_environments.peer.settings import read_queries
from judgegym.judges.aspects.prompt import Aspect
from judgegym.judges.core.judgment import Scale

COUNT, LENGTH, MOST = 400, 10_000, 800
"""Rows, characters of each, and the bytes that memory may hold of one task."""

ASPECTS = [
    Aspect(name="correct", definition="Is it correct?"),
    Aspect(name="short", definition="Is it short?"),
]


def row(number: int) -> dict[str, Any]:
    return {
        "uid": f"question-{number:08d}",
        "prompt": "x" * LENGTH,
        "rubric": "Is it good?",
        "answer": "an answer",
        "verdicts": {"correct": 1, "short": 0},
        "chosen": "yes",
        "rejected": "no",
    }


def arena(rows: Sequence[Row]) -> TaskList[ArenaHardTask]:
    baselines = index_by_uid(rows)
    return TaskList.from_rows(
        index_by_uid(rows), lambda uid, row: make_arena_task(uid, row, baselines[uid])
    )


def pairs(rows: Sequence[Row]) -> Any:
    found = read_preferences(rows).rows
    return add_swapped(
        found.map(lambda row: choice_task(row, num_choices=None, seed=0, shuffle="permutation"))
    )


READERS: dict[str, Callable[[Sequence[Row]], Any]] = {
    "answers": lambda rows: read_answers(rows, ASPECTS),
    "gold verdicts": lambda rows: read_gold(rows, ASPECTS),
    "rubrics": lambda rows: read_rubric_rows(rows, Scale(1, 5)),
    "queries": lambda rows: read_queries(rows, "Is it good?"),
    "pairs": pairs,
    "prompts and baselines": arena,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "json"])
@pytest.mark.parametrize("reader", READERS)
def test_memory_holds_less_than_a_kilobyte_of_a_task(
    tmp_path: Path, reader: str, kind: str
) -> None:
    path = tmp_path / f"rows.{kind}"
    rows = [row(number) for number in range(COUNT)]
    path.write_text(
        json.dumps(rows) if kind == "json" else "".join(json.dumps(each) + "\n" for each in rows)
    )
    del rows
    tracemalloc.start()
    try:
        tasks = READERS[reader](load_rows(str(path), split="train"))
        kept = (
            tasks,
            index_uids(tasks),
            select(tasks, limit=COUNT // 2, seed=0),
            epoch_order(tasks, seed=0, epoch=0),
            load_answers(path, tasks) if reader == "answers" else answer_text,
        )
        for task in tasks:  # reading them all leaves nothing behind
            assert task.question
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < MOST * len(tasks), f"{held / len(tasks):.0f} bytes a task"
    del kept
