"""Make the tables of environments: optional methods, and the columns of `ratings.csv`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping

from judgegym.environments.base import JudgedEnv
from judgegym.environments.contract import JudgesAgain, RewardsGroups
from judgegym.environments.evaluate.metrics import (
    DocumentsMetrics,
    HasGold,
    HasOrders,
    RecordsFailures,
)
from judgegym.environments.evaluate.row import HasAnswers
from judgegym.environments.rollouts.judging import LevelsScores
from judgegym.environments.training.pipeline import DropsGroups
from judgegym.eval_environments.arena.report import RATINGS_COLUMNS
from judgegym_trainers import single_turn

_METHODS: tuple[Callable[..., object], ...] = (
    JudgedEnv.texts,
    JudgedEnv.follow_up,
    single_turn.HasFollowUps.has_follow_ups,
    HasAnswers.dataset_answer,
    HasOrders.orders,
    HasGold.gold,
    JudgedEnv.summarise,
    RecordsFailures.record_failure,
    DocumentsMetrics.expect_metrics,
    JudgesAgain.judge_again,
    DropsGroups.drop_reason,
    LevelsScores.level,
    RewardsGroups.group_rewards,
)


def optional_methods() -> Iterator[tuple[str, ...]]:
    """Yield the methods with what they do."""
    yield from (("method", "what it does"), ("---", "---"))
    for method in _METHODS:
        arguments = [name for name in inspect.signature(method).parameters if name != "self"]
        text = re.split(r"\n\n(?:Args|Raises):", inspect.getdoc(method) or "")[0]
        yield (f"`{method.__name__}({', '.join(arguments)})`", " ".join(text.split()))


def ratings_columns() -> Iterator[tuple[str, ...]]:
    """Yield the columns with what they hold."""
    yield from (("column of ratings.csv", "meaning"), ("---", "---"))
    yield from ((f"`{name}`", meaning) for name, meaning in RATINGS_COLUMNS.items())


ENVIRONMENT_TABLES: Mapping[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "optional_methods": optional_methods,
    "ratings_columns": ratings_columns,
}
