"""Read the types of an environment from its type parameters, and check its class attributes, when the class is made.

Guarantee: a method of an environment that returns something else than the contract says ends the command with one line
that names class and method, what came and what was expected.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeVar, get_args, get_origin

from judgegym.engine.settings import EnvConfig
from judgegym.engine.settings.group_judge import GroupJudgeSettings
from judgegym.judges.core.judgment import Judgment
from judgegym.llm.errors import UserError

ValueT = TypeVar("ValueT")


def type_arguments(cls: type[Any], contract: type[Any]) -> tuple[Any, ...]:
    """Return the type arguments that a class and its bases give the contract; a type variable where one is open."""
    arguments: tuple[Any, ...] = contract.__parameters__
    for base in reversed(cls.__mro__):
        for alias in base.__dict__.get("__orig_bases__", ()):
            origin = get_origin(alias)
            if isinstance(origin, type) and issubclass(origin, contract):
                given = dict(zip(getattr(origin, "__parameters__", ()), get_args(alias), strict=False))
                arguments = tuple(given.get(argument, argument) for argument in arguments)
    return arguments


def problem_of(cls: type[Any], config_type: Any, detail_type: Any, *, has_case: bool) -> str | None:
    """Return what is wrong with an environment's class, or `None`; `has_case`: it has a `group_case` of its own."""
    if isinstance(config_type, TypeVar):
        return "the type parameters are missing: class MyEnv(JudgedEnv[MyConfig, MyTask, MyDetail])"
    if not (isinstance(config_type, type) and issubclass(config_type, EnvConfig)):
        return f"its first type parameter must be a subclass of EnvConfig, found {config_type!r}"
    if not (isinstance(detail_type, type) and dataclasses.is_dataclass(detail_type)):
        return f"its third type parameter must be a dataclass (the judgments' detail), found {detail_type!r}"
    if not isinstance(getattr(cls, "name", None), str):
        return 'the class attribute `name` is missing: name = "my_environment"'
    headline = getattr(cls, "headline", None)
    if not (isinstance(headline, tuple) and len(headline) == 2 and all(isinstance(part, str) for part in headline)):
        return 'the class attribute `headline` is missing: headline = ("mean_reward", "reward")'
    if issubclass(config_type, GroupJudgeSettings) and not has_case:
        return "its settings have group_judge, so that it needs the method `group_case`"
    return None


class ContractError(UserError):
    """The code of an environment breaks the contract."""


def returned(env: object, name: str, value: ValueT) -> ValueT:
    """Return what a method of an environment returned, after a check.

    Args:
        env: the environment.
        name: one of `tasks`, `conversations`, `judge`, `judge_again`, `reward`.
        value: what it returned.

    Raises:
        ContractError: it is something else than the contract says.
    """
    problem = _PROBLEMS[name](value)
    if problem is not None:
        owner = next(cls for cls in type(env).__mro__ if name in vars(cls))
        raise ContractError(f"{owner.__qualname__}.{name} {problem}")
    return value


def _of_tasks(tasks: Any) -> str | None:
    if isinstance(tasks, str) or not isinstance(tasks, Sequence):
        return f"returned {_kind(tasks)}; expected a list of tasks, or a TaskList"
    first = tasks[0] if tasks else None
    lacking = [name for name in ("uid", "question", "category") if not hasattr(first, name)]
    if first is not None and lacking:
        return f"returned tasks without {' and '.join(lacking)}: the first one is {_kind(first)}"
    return None


def _of_conversations(conversations: Any) -> str | None:
    expected = 'expected a list of conversations, each a list of messages: [[Message(role="user", content=…)]]'
    if isinstance(conversations, str) or not isinstance(conversations, Sequence):
        return f"returned {_kind(conversations)}; {expected}"
    if not conversations:
        return f"returned no conversation; {expected}"
    for conversation in conversations:
        if isinstance(conversation, str) or not isinstance(conversation, Sequence) or not conversation:
            return f"returned {_kind(conversation)} as a conversation; {expected}"
        for message in conversation:
            if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
                return f"returned {_kind(message)} as a message; {expected}"
    return None


def _of_judgment(judgment: Any) -> str | None:
    return None if isinstance(judgment, Judgment) else f"returned {_kind(judgment)}; expected a Judgment"


def _of_reward(reward: Any) -> str | None:
    if isinstance(reward, Real):  # also those of numpy
        try:
            if math.isfinite(float(reward)):
                return None
        except OverflowError:
            return "returned an integer beyond the range of floats; expected a finite number"
    shown = repr(reward) if isinstance(reward, float) else _kind(reward)
    return f"returned {shown}; expected a finite number"


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


_PROBLEMS: Mapping[str, Callable[[Any], str | None]] = {
    "tasks": _of_tasks,
    "conversations": _of_conversations,
    "judge": _of_judgment,
    "judge_again": _of_judgment,
    "reward": _of_reward,
}
