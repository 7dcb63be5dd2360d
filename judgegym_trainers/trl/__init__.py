"""Judges and environments for TRL's trainers (GRPO, RLOO, …).

    from judgegym_trainers.trl import judge_reward
    trainer = GRPOTrainer(..., reward_funcs=judge_reward("http://127.0.0.1:8400"))

    from judgegym_trainers.trl import judge_environment
    arena = judge_environment("arena_hard", {"judge_model_name": "gpt-6-luna"})
    trainer = GRPOTrainer(..., reward_funcs=arena.reward, train_dataset=arena.dataset())
    both = combined_reward([arena.reward, short])
    trainer = GRPOTrainer(..., reward_funcs=both, train_dataset=arena.dataset())
    trainer = GRPOTrainer(..., environment_factory=arena, train_dataset=arena.dataset())

Guarantees: the score of a failed judge is `None`, which TRL leaves out of its group's mean and
deviation; with other reward functions, where TRL would count it as 0, the first batch is an error.
All completions of a batch are judged concurrently; a group is judged once, as a whole, on any
number of processes. Everything that a reward function opens is closed when the training ends; a
judge that is down ends the training. All functions pickle, which the asynchronous trainer needs.

Source: TRL 1.16.0 (November 2026), `GRPOTrainer`, `AsyncGRPOTrainer`: reward functions,
`environment_factory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from judgegym_trainers.trl.functions import (
    COLUMNS,
    RewardFunction,
    close,
    combined_reward,
    judge_reward,
)

if TYPE_CHECKING:
    from judgegym_trainers.trl.environment import JudgeEnvironment, judge_environment

__all__ = [
    "COLUMNS",
    "JudgeEnvironment",
    "RewardFunction",
    "close",
    "combined_reward",
    "judge_environment",
    "judge_reward",
]


def __getattr__(name: str) -> Any:
    """Import the names that need the environments' packages, which a reward server does not."""
    if name in ("JudgeEnvironment", "judge_environment"):
        from judgegym_trainers.trl import environment

        return getattr(environment, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
