"""The rows of Arena-Hard: a prompt, and the baseline's answer to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judgegym.data.answers import answer_text
from judgegym.data.prompts import CONVERSATIONS, warn_of_unread_columns
from judgegym.data.rows import Row, Split, by_uid, load_rows
from judgegym.data.task_list import TaskList
from judgegym.eval_environments.arena.settings import ArenaHardConfig
from judgegym.llm.errors import DataError

_QUESTION = ("prompt", "question")


@dataclass(frozen=True, slots=True)
class ArenaHardTask:
    """A prompt and the baseline's answer to it."""

    uid: str
    question: str
    baseline: str
    category: str | None
    cluster: str | None = None


def arena_task(uid: str, prompt: Row, baseline: Row) -> ArenaHardTask:
    """Make the task of a prompt's row and the row of the baseline's answer."""
    return ArenaHardTask(
        uid=uid,
        question=prompt.text(*_QUESTION),
        baseline=answer_text(baseline),
        category=prompt.optional_text("category"),
        cluster=prompt.optional_text("cluster"),
    )


@dataclass(frozen=True, slots=True)
class ArenaRows:
    """The prompts that have a baseline.

    Attributes:
        tasks: a task for each of them.
        without_baseline: how many prompts have none.
        warning: what is to be said of these; `None` if there are none.
    """

    tasks: Sequence[ArenaHardTask]
    without_baseline: int = 0
    warning: str | None = None


def load_tasks(config: ArenaHardConfig, split: Split) -> ArenaRows:
    """Load the prompts that have a baseline.

    Raises:
        DataError: the prompts or the baseline's answers cannot be loaded, or no prompt has a baseline.
    """
    prompts, baselines, hub_split = config.train_prompt_dataset, config.train_baseline_dataset, config.train_split
    if split == "eval":
        prompts, hub_split = config.eval_prompt_dataset or prompts, config.eval_split
        baselines = config.eval_baseline_dataset or baselines
    loaded = load_rows(prompts, split=hub_split)
    warn_of_unread_columns(loaded, (_QUESTION,), CONVERSATIONS)
    rows = by_uid(loaded)
    answers = by_uid(load_rows(baselines, split=hub_split))

    def build(uid: str, row: Row) -> list[ArenaHardTask]:
        return [arena_task(uid, row, answers[uid])] if uid in answers else []

    tasks = TaskList.of_several(rows, build)
    if not tasks:
        raise DataError(f"{baselines}: no answer to any of the {len(rows)} prompts of {prompts}")
    if len(tasks) == len(rows):
        return ArenaRows(tasks)
    missing = next(uid for uid in rows if uid not in answers)
    without = len(rows) - len(tasks)
    return ArenaRows(tasks, without, f"{without} of {len(rows)} prompts have no baseline, such as {missing!r}")
