"""What Arena-Hard's evaluations and its training have in common: the rows, and what a model is asked about them."""

from __future__ import annotations

import logging
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Generic

from judgegym.data.rows import Split
from judgegym.engine.completions import Conversation
from judgegym.engine.settings import SAMPLES
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.eval_environments.arena.rows import ArenaHardTask, load_tasks
from judgegym.eval_environments.arena.settings import ArenaHardConfig
from judgegym.judges.core.group import GroupCase
from judgegym.llm.wire import Message

logger = logging.getLogger(__name__)


class ArenaEnv(JudgedEnv[ArenaHardConfig, ArenaHardTask, DetailT], ABC, Generic[DetailT]):
    """Prompts with a baseline's answer to each."""

    name = "arena_hard"
    headline = ("overall_winrate", "win rate")
    offline_samples = {
        "train_prompt_dataset": str(SAMPLES / "arena_hard.jsonl"),
        "train_baseline_dataset": str(SAMPLES / "arena_hard_baseline.jsonl"),
    }

    prompts_without_baseline = 0

    def tasks(self, split: Split) -> Sequence[ArenaHardTask]:
        """Load the prompts that have a baseline; warn of the others in one line."""
        rows = load_tasks(self.config, split)
        if rows.warning is not None:
            self.warn_once(logger, rows.warning)
        self.prompts_without_baseline = rows.without_baseline
        return rows.tasks

    def conversations(self, task: ArenaHardTask) -> list[Conversation]:
        """Ask the prompt, after the system prompt."""
        return [[*self.system_messages, Message(role="user", content=task.question)]]

    def group_case(self, task: ArenaHardTask) -> GroupCase:
        """Compare answers to the prompt, with the baseline's as one more."""
        return GroupCase(task.question, anchor=task.baseline)

    def texts(self, task: ArenaHardTask) -> Mapping[str, str]:
        """Return the baseline's answer."""
        return {"baseline": task.baseline}
