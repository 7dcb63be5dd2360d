"""Calls of an environment's methods that check what they return, for the commands.

Guarantee: a method that returns something else than the contract says ends the command with one
line that names the class, the method, the returned value and the expected one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from inspect import isawaitable
from itertools import chain
from numbers import Real
from typing import Any, Protocol, cast, runtime_checkable

from judgegym.data.rows import Split, TaskT
from judgegym.data.task_list import list_groups
from judgegym.engine.completions import Clients, Completion, Conversation
from judgegym.engine.metrics import MetricAggregator, record_parts
from judgegym.engine.records import Sample
from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.judges.core.judgment import Judgment, ScoreParts
from judgegym.judges.parts.jury import JurySettings
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.errors import DataError, UserError


class ContractError(UserError):
    """The code of an environment breaks the contract."""


def _contract_error(env: object, name: str, problem: str) -> ContractError:
    """Return the error for a method that broke the contract; it names the class that defines it."""
    owner = next(cls for cls in type(env).__mro__ if name in vars(cls))
    return ContractError(f"{owner.__qualname__}.{name} {problem}")


def _describe(value: object) -> str:
    if value is None:
        return "nothing"
    name = type(value).__name__
    return f"a value of type {name}"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


@runtime_checkable
class HasVariants(Protocol):
    """An environment with a second class, which evaluates the same rows in another way."""

    @classmethod
    def variant(cls, settings: EnvSettings[Any]) -> type[JudgedEnv[Any, Any, Any]]:
        """Return the class that runs these settings."""


def open_environment(
    env_type: type[JudgedEnv[Any, Any, Any]],
    settings: EnvSettings[Any],
    clients: Clients,
    verb: Verb,
) -> JudgedEnv[Any, Any, Any]:
    """Make the environment, or the variant of it that runs these settings.

    Raises:
        SettingsError: its judges cannot be opened.
    """
    env_class = env_type.variant(settings) if isinstance(env_type, HasVariants) else env_type
    return env_class(settings, clients, verb=verb)


def load_tasks(env: JudgedEnv[Any, TaskT, Any], split: Split) -> Sequence[TaskT]:
    """Load `tasks(split)`, and collect their categories and clusters for the names of metrics.

    Raises:
        DataError: the rows cannot be loaded.
        ContractError: `tasks` returned no list of tasks.
    """
    tasks = env.tasks(split)
    if not _is_list(tasks):
        description = _describe(tasks)
        problem = f"returned {description}; expected a list of tasks, or a TaskList"
        raise _contract_error(env, "tasks", problem)
    if tasks:
        first = tasks[0]
        missing = [name for name in ("uid", "question", "category") if not hasattr(first, name)]
        if missing:
            names, description = " and ".join(missing), _describe(first)
            problem = f"returned tasks without {names}: the first one is {description}"
            raise _contract_error(env, "tasks", problem)
    env.metric_names.add(list_groups(tasks))
    return tasks


def make_conversations(
    env: JudgedEnv[Any, TaskT, Any], task: TaskT, *, trains: bool = False
) -> list[Conversation]:
    """Return `conversations(task)`; in training they must be text.

    Raises:
        ContractError: `conversations` returned no list of conversations.
        DataError: a conversation has images, and `trains` is set.
    """
    conversations: Any = env.conversations(task)
    problem = _find_conversation_fault(conversations)
    if problem is not None:
        expected = (
            'expected a list of conversations, each a list of messages: [[Message(role="user", '
            "content=…)]]"
        )
        raise _contract_error(env, "conversations", f"returned {problem}; {expected}")
    if trains and any(message.get("images") for message in chain.from_iterable(conversations)):
        raise DataError(
            f"{env.spec.name}: the row {task.uid!r} has images, and trainers are given texts"
        )
    return cast("list[Conversation]", conversations)


def _find_conversation_fault(conversations: Any) -> str | None:
    """Return what is wrong with a list of conversations; `None` if nothing is."""
    if not _is_list(conversations):
        return _describe(conversations)
    if not conversations:
        return "no conversation"
    for conversation in conversations:
        if not _is_list(conversation) or not conversation:
            description = _describe(conversation)
            return f"{description} as a conversation"
        for message in conversation:
            if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
                description = _describe(message)
                return f"{description} as a message"
    return None


def has_follow_up(env: JudgedEnv[Any, Any, Any]) -> bool:
    """Return whether the environment's conversations may have several turns."""
    return type(env).follow_up is not JudgedEnv.follow_up


@runtime_checkable
class JudgesAgain(Protocol):
    """An environment that in training repeats only the missing part of a judgment."""

    async def judge_again(
        self, task: Any, completions: Sequence[Completion], earlier: Judgment[Any]
    ) -> Judgment[Any]:
        """Return a judgment with less missing; `earlier` if nothing is missing."""


async def call_judge(
    env: JudgedEnv[Any, TaskT, DetailT],
    task: TaskT,
    completions: Sequence[Completion],
    earlier: Judgment[DetailT] | None = None,
) -> Judgment[DetailT]:
    """Judge, or complete an earlier judgment: by `judge_again`, or by `judge` if the judge failed.

    The methods may be plain functions or coroutines.

    Raises:
        ContractError: the method returned no judgment.
    """
    name, judgment = "judge", cast(object, earlier)
    if earlier is not None and isinstance(env, JudgesAgain):
        name, judgment = "judge_again", env.judge_again(task, completions, earlier)
    elif earlier is None or earlier.status.is_failure:
        judgment = env.judge(task, completions)
    if isawaitable(judgment):
        judgment = await judgment
    if not isinstance(judgment, Judgment):
        description = _describe(judgment)
        raise _contract_error(env, name, f"returned {description}; expected a Judgment")
    return judgment


@runtime_checkable
class RewardsGroups(Protocol):
    """An environment whose rewards depend on the other judgments of the group."""

    def group_rewards(self, judgments: Sequence[Judgment[Any]]) -> Sequence[float | None]:
        """Return the rewards of the judgments that have a score.

        `None` for one that cannot be compared.
        """


def compute_rewards(
    env: JudgedEnv[Any, Any, DetailT], judgments: Sequence[Judgment[DetailT]]
) -> Sequence[float | None]:
    """Return the rewards of the judgments of a group that have a score.

    Raises:
        ContractError: `reward` returned no finite number.
    """
    if isinstance(env, RewardsGroups):
        return env.group_rewards(judgments)
    rewards = [env.reward(judgment) for judgment in judgments]
    for reward in rewards:
        problem = _find_reward_fault(reward)
        if problem is not None:
            raise _contract_error(env, "reward", f"returned {problem}; expected a finite number")
    return rewards


def _find_reward_fault(reward: object) -> str | None:
    """Return a description of a reward that is no finite number; `None` if it is one."""
    try:
        if isinstance(reward, Real) and math.isfinite(reward):  # also numpy's
            return None
    except OverflowError:
        return "an integer beyond the range of floats"
    if isinstance(reward, float):
        return repr(reward)
    return _describe(reward)


def compute_unit_reward(env: JudgedEnv[Any, Any, DetailT], judgment: Judgment[DetailT]) -> float:
    """Return the reward of a judgment with a score, scaled to 0 to 1 like a gold judge's."""
    low, high = env.spec.reward_range
    return min(1.0, max(0.0, (env.reward(judgment) - low) / (high - low)))


def record_sample(
    env: JudgedEnv[Any, TaskT, DetailT],
    metrics: MetricAggregator,
    task: TaskT,
    sample: Sample[DetailT],
) -> None:
    """Record one row or rollout by `record_metrics`, and the scores of its judge's parts."""
    env.record_metrics(metrics, task, sample)
    config, judgment = env.config, sample.judgment
    if (
        isinstance(config, JurySettings | AnyJudgeSettings)
        and judgment is not None
        and judgment.score is not None
    ):
        jury = compute_unit_reward(env, judgment) if config.is_jury else None
        numbers = judgment.members
        if isinstance(judgment.detail, ScoreParts):
            numbers = judgment.detail.parts
        record_parts(metrics, config.part_names, numbers, jury)
