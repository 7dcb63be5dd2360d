"""What the methods of an environment return, checked where they return it.

Guarantee: a method of an environment that returns something else than the contract says ends the command with one line
that names class and method, what came and what was expected, whoever called it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from inspect import isawaitable
from numbers import Real
from typing import Any

from judgegym.judges.core.judgment import Judgment
from judgegym.llm.errors import UserError


class ContractError(UserError):
    """The code of an environment breaks the contract."""


def check_returned(cls: type[Any]) -> None:
    """Let the methods that a class itself defines check what they return."""
    for name, problem in _PROBLEMS.items():
        method = vars(cls).get(name)
        kind = type(method) if isinstance(method, staticmethod | classmethod) else _as_it_is
        function = getattr(method, "__func__", method)
        if callable(function) and not getattr(function, "__isabstractmethod__", False):
            refuse = functools.partial(_refuse, f"{cls.__qualname__}.{name}", problem)
            setattr(cls, name, kind((_awaited if name in _AWAITED else _checked)(function, refuse)))


def _as_it_is(method: Callable[..., Any]) -> Callable[..., Any]:
    return method


def _checked(method: Callable[..., Any], refuse: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(*args: Any, **keywords: Any) -> Any:
        value = method(*args, **keywords)
        refuse(value)
        return value

    return checked


def _awaited(method: Callable[..., Any], refuse: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def checked(*args: Any, **keywords: Any) -> Any:
        awaitable = method(*args, **keywords)
        value = await awaitable if isawaitable(awaitable) else awaitable
        refuse(value)
        return value

    return checked


def _refuse(method: str, problem: Callable[[Any], str | None], value: Any) -> None:
    found = problem(value)
    if found is not None:
        raise ContractError(f"{method} {found}")


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


_AWAITED = ("judge", "judge_again")
_PROBLEMS: Mapping[str, Callable[[Any], str | None]] = {
    "tasks": _of_tasks,
    "conversations": _of_conversations,
    "judge": _of_judgment,
    "judge_again": _of_judgment,
    "reward": _of_reward,
}
