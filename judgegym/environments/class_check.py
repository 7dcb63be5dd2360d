"""Read the types of an environment from its type parameters, and check its class attributes, when the class is made."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, get_args, get_origin

from judgegym.engine.settings import EnvConfig
from judgegym.engine.settings.group_judge import GroupJudgeSettings


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
