"""What the methods of an environment return is checked where the commands call them."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy
import pytest

from judgegym.data.task_list import TaskList
from judgegym.engine.settings import EnvConfig
from judgegym.environments.base import ContractError, JudgedEnv
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.naming import MetricNames
from tests.conformance.subjects import ConstitutionEnv

RIGHT: dict[str, Any] = {
    "tasks": TaskList([], lambda index: None),  # type: ignore[arg-type,return-value]
    "conversations": [[{"role": "user", "content": "Q?"}]],
    "reward": 1,
    "judge": Judgment(1.0, Status.OK),
    "judge_again": Judgment(None, Status.UNPARSABLE),
}
WRONG: list[tuple[str, Any, str]] = [
    ("tasks", None, "tasks returned nothing; expected a list of tasks, or a TaskList"),
    ("tasks", iter([1]), "tasks returned a value of type list_iterator; expected a list of tasks"),
    ("tasks", ["one"], "tasks returned tasks without uid and question and category: the first one is a value of type"),
    ("conversations", "Q?", "conversations returned a value of type str; expected a list of conversations"),
    ("conversations", [], "conversations returned no conversation"),
    ("conversations", ["Q?"], "conversations returned a value of type str as a conversation"),
    ("conversations", RIGHT["conversations"][0], "conversations returned a value of type dict as a conversation"),
    ("conversations", [["Q?"]], "conversations returned a value of type str as a message"),
    ("conversations", [[{"content": "Q?"}]], "conversations returned a value of type dict as a message"),
    ("reward", None, "reward returned nothing; expected a finite number"),
    ("reward", "1.0", "reward returned a value of type str"),
    ("reward", math.nan, "reward returned nan"),
    ("reward", -math.inf, "reward returned -inf"),
    ("reward", 10**400, "reward returned an integer beyond the range of floats"),
    ("reward", numpy.float32("nan"), "reward returned a value of type float32"),
    ("judge", 0.5, "judge returned a value of type float; expected a Judgment"),
    ("judge_again", None, "judge_again returned nothing; expected a Judgment"),
]


def returned(name: str, value: Any, *, base: type[Any] = ConstitutionEnv) -> Any:
    """What a call of a method returns that returns this value."""

    def method(self: Any, *args: Any) -> Any:
        return value

    async def awaited(self: Any, *args: Any) -> Any:
        return value

    own = object.__new__(type("OwnEnv", (base,), {name: awaited if name.startswith("judge") else method}))
    return called(own, name)


def called(own: Any, name: str) -> Any:
    """What the commands get of a method."""
    if name == "tasks":
        own.metric_names = MetricNames()
        return own.load_tasks("train")
    if name == "conversations":
        return own.checked_conversations(None)
    if name == "reward":
        return own.rewards([None])[0]
    return asyncio.run(own.checked_judge(None, [], RIGHT["judge_again"] if name == "judge_again" else None))


@pytest.mark.parametrize("name", RIGHT)
def test_what_the_contract_says_is_returned_as_it_is(name: str) -> None:
    assert returned(name, RIGHT[name]) is RIGHT[name]


@pytest.mark.parametrize("reward", [numpy.float32(0.5), numpy.float64(0.5), numpy.int64(1), True])
def test_a_reward_may_be_a_number_of_numpy(reward: Any) -> None:
    assert returned("reward", reward) is reward


def test_a_method_without_self_is_checked_too() -> None:
    class Own(ConstitutionEnv):
        @staticmethod
        def reward(judgment: Any) -> float:  # type: ignore[override]
            return judgment  # type: ignore[no-any-return]

        @classmethod
        def conversations(cls, task: Any) -> Any:
            return task

    class Heir(Own):
        pass

    own: Any = object.__new__(Heir)
    assert own.rewards([0.5]) == [0.5]
    assert own.checked_conversations(RIGHT["conversations"]) is RIGHT["conversations"]
    with pytest.raises(ContractError, match=r"Own\.reward returned nothing"):
        own.rewards([None])
    with pytest.raises(ContractError, match=r"Own\.conversations returned no conversation"):
        own.checked_conversations([])


@pytest.mark.parametrize(("name", "value", "said"), WRONG)
def test_anything_else_names_class_method_and_what_was_expected(name: str, value: Any, said: str) -> None:
    with pytest.raises(ContractError) as refused:
        returned(name, value)
    assert str(refused.value).startswith(f"OwnEnv.{said}")


def test_judge_that_awaits_nothing_may_be_no_coroutine() -> None:
    own = type("OwnEnv", (ConstitutionEnv,), {"judge": lambda self, task, completions: RIGHT["judge"]})
    assert called(object.__new__(own), "judge") is RIGHT["judge"]


def test_class_that_lacks_a_method_is_still_abstract() -> None:
    class Unfinished(JudgedEnv[EnvConfig, Any, Any]):
        def tasks(self, split: object) -> list[Any]:  # type: ignore[override]
            return []

    assert Unfinished.__abstractmethods__ == {"conversations", "judge", "record_metrics"}
