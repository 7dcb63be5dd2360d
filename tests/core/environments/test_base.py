"""The contract: what a class must have to be an environment, and what it need not answer.

What the methods of an environment return is checked where the commands call them.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from dataclasses import dataclass, replace
from typing import Any, Generic, cast

import numpy
import pytest

from judgegym.data.rows import TaskT
from judgegym.data.task_list import TaskList
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.settings import ConfigT, EnvConfig
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.contract import (
    ContractError,
    call_judge,
    compute_rewards,
    load_tasks,
    make_conversations,
)
from judgegym.environments.evaluate.metrics import expect_documented
from judgegym.environments.spec import EnvSpec
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.naming import MetricNames
from tests.conformance.subjects import ConstitutionEnv
from tests.core.environments.words import Said, Word, WordsEnv, opened, speaking

SPEC = EnvSpec(name="mine", headline=("right", "right"))


def test_types_are_read_through_generic_and_plain_subclasses() -> None:
    class OtherConfig(EnvConfig):
        pass

    class Half(JudgedEnv[ConfigT, Word, DetailT], Generic[DetailT, ConfigT]):
        """Abstract: its parameters stand in another order."""

    class Whole(Half[Said, OtherConfig]):
        spec = SPEC
        tasks = conversations = judge = record_metrics = WordsEnv.tasks  # type: ignore[assignment]  # any function will do

    class Plain(Whole):
        pass

    for env_type in (Whole, Plain):
        assert (env_type.config_type, env_type.detail_type) == (OtherConfig, Said)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, r"the environment Mine: .*`spec` is missing: spec = EnvSpec\(name="),
        ({"spec": "mine"}, "the environment Mine: .*`spec` is missing"),
        ({"spec": replace(SPEC, judge="rubrik")}, r"'rubrik', did you mean rubric\?"),
        ({"spec": replace(SPEC, judge="rubric")}, "must inherit RubricJudgeSettings"),
    ],
)
def test_spec_that_cannot_be_used_is_said_when_the_class_is_made(
    spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        _make(JudgedEnv[EnvConfig, Word, Said], {**spec, **_answers()})


@pytest.mark.parametrize(
    "headline", ["reward", ("reward",), ("reward", None), ["reward", "reward"]]
)
def test_headline_without_a_label_is_refused(headline: Any) -> None:
    with pytest.raises(TypeError, match=r"EnvSpec: .*label, headline="):
        EnvSpec(name="mine", headline=headline)


async def test_spec_depends_on_the_settings_where_the_environment_says_so() -> None:
    class Renamed(WordsEnv):
        @classmethod
        def spec_for(cls, config: EnvConfig) -> EnvSpec:
            return replace(cls.spec, headline=("right", f"right of {config.seed}"))

    async with opened(speaking, "--env.seed=3", env_type=Renamed) as (env, _):
        assert (env.spec.headline, Renamed.spec.headline) == (
            ("right", "right of 3"),
            ("right", "right"),
        )


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (JudgedEnv, r"type parameters .*class MyEnv\(JudgedEnv\["),
        (
            JudgedEnv[int, Word, Said],
            "first type parameter .*EnvConfig, found <class 'int'>",
        ),  # type: ignore[type-var]
        (JudgedEnv["EnvConfig", Word, Said], "first type parameter .*EnvConfig, .*'EnvConfig'"),
        (JudgedEnv[EnvConfig, TaskT, DetailT], "third type parameter .*dataclass"),
        (JudgedEnv[EnvConfig, Word, dict[str, int]], "third type parameter .*dataclass"),
    ],
)
def test_type_parameters_that_cannot_be_used_are_said_when_the_class_is_made(
    base: Any, words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        _make(base, {"spec": SPEC, **_answers()})


def test_environment_has_ten_members() -> None:
    methods = {
        name
        for name, value in vars(JudgedEnv).items()
        if inspect.isfunction(value) and name[0] != "_"
    }
    nine = {
        "tasks",
        "conversations",
        "judge",
        "reward",
        "record_metrics",
        "summarise",
        "texts",
        "follow_up",
        "group_case",
    }
    assert methods - {"warn_once"} == nine and "spec" in JudgedEnv.__annotations__


async def test_the_reward_is_the_score_unless_it_is_overridden() -> None:
    async with opened(speaking) as (env, _):
        assert env.reward(Judgment(0.25, Status.OK)) == 0.25
        assert compute_rewards(env, [Judgment(0.25, Status.OK), Judgment(-1.0, Status.OK)]) == [
            0.25,
            -1.0,
        ]


def _answers() -> dict[str, Any]:
    return dict.fromkeys(JudgedEnv.__abstractmethods__, WordsEnv.tasks)


def _make(base: Any, attributes: dict[str, Any]) -> type[Any]:
    """A class as `class Mine(base)` makes it."""
    import types

    return types.new_class(
        "Mine", (base,), exec_body=lambda namespace: namespace.update(attributes)
    )


RIGHT: dict[str, Any] = {
    "tasks": TaskList([], lambda index: None),  # type: ignore[arg-type,return-value]
    "conversations": [[{"role": "user", "content": "Q?"}]],
    "reward": 1,
    "judge": Judgment(1.0, Status.OK),
    "judge_again": Judgment(None, Status.UNPARSABLE),
}
WRONG: list[tuple[str, Any, str, str]] = [
    ("tasks", None, "nothing; ", "list of tasks"),
    ("tasks", iter([1]), "type list_iterator; ", "list of tasks"),
    ("tasks", ["one"], "tasks without uid and question and category: ", "type str"),
    ("conversations", "Q?", "type str; ", "list of conversations"),
    ("conversations", [], "no conversation; ", "list of conversations"),
    ("conversations", ["Q?"], "type str as a conversation; ", "list of conversations"),
    (
        "conversations",
        RIGHT["conversations"][0],
        "type dict as a conversation; ",
        "list of conversations",
    ),
    ("conversations", [["Q?"]], "type str as a message; ", "list of messages"),
    ("conversations", [[{"content": "Q?"}]], "type dict as a message; ", "list of messages"),
    ("reward", None, "nothing; ", "finite number"),
    ("reward", "1.0", "type str; ", "finite number"),
    ("reward", math.nan, "nan; ", "finite number"),
    ("reward", -math.inf, "-inf; ", "finite number"),
    ("reward", 10**400, "range of floats; ", "finite number"),
    ("reward", numpy.float32("nan"), "type float32; ", "finite number"),
    ("judge", 0.5, "type float; ", "a Judgment"),
    ("judge_again", None, "nothing; ", "a Judgment"),
]
"""The method, what it returns, and what is said of it and of what was expected."""


def returned(name: str, value: Any, *, base: type[Any] = ConstitutionEnv) -> Any:
    """What a call of a method returns that returns this value."""

    def method(self: Any, *args: Any) -> Any:
        return value

    async def awaited(self: Any, *args: Any) -> Any:
        return value

    own = object.__new__(
        type("OwnEnv", (base,), {name: awaited if name.startswith("judge") else method})
    )
    return called(own, name)


def called(own: Any, name: str) -> Any:
    """What the commands get of a method."""
    if name == "tasks":
        own.metric_names = MetricNames()
        return load_tasks(own, "train")
    if name == "conversations":
        return make_conversations(own, cast(Any, None))
    if name == "reward":
        return compute_rewards(own, [None])[0]
    return asyncio.run(
        call_judge(
            own, cast(Any, None), [], RIGHT["judge_again"] if name == "judge_again" else None
        )
    )


@pytest.mark.parametrize("name", RIGHT)
def test_what_the_contract_says_is_returned_as_it_is(name: str) -> None:
    assert returned(name, RIGHT[name]) is RIGHT[name]


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
    assert compute_rewards(own, cast(Any, [0.5])) == [0.5]
    assert make_conversations(own, RIGHT["conversations"]) is RIGHT["conversations"]
    with pytest.raises(ContractError, match=r"Own\.reward returned nothing"):
        compute_rewards(own, cast(Any, [None]))
    with pytest.raises(ContractError, match=r"Own\.conversations returned no conversation"):
        make_conversations(own, cast(Any, []))


@pytest.mark.parametrize(("name", "value", "found", "expected"), WRONG)
def test_anything_else_names_class_method_and_what_was_expected(
    name: str, value: Any, found: str, expected: str
) -> None:
    with pytest.raises(ContractError) as refused:
        returned(name, value)
    said = str(refused.value)
    assert said.startswith(f"OwnEnv.{name} returned ")
    assert found in said and expected in said


def test_judge_that_awaits_nothing_may_be_no_coroutine() -> None:
    own = type(
        "OwnEnv", (ConstitutionEnv,), {"judge": lambda self, task, completions: RIGHT["judge"]}
    )
    assert called(object.__new__(own), "judge") is RIGHT["judge"]


@dataclass(frozen=True)
class Prize:
    """A row with what a metric of it is named for."""

    uid: str
    category: str | None
    cluster: str | None = None
    question: str = "Q?"


def test_documented_metric_stands_for_one_for_each_value_of_an_attribute_of_the_rows() -> None:
    metrics = MetricAggregator("eval")
    rows = [Prize("1", "b", "x"), Prize("2", None), Prize("3", "a b", "x"), Prize("4", "b", "y")]
    documented = (
        ("no score", "won_{category}", "lost_{category}"),
        ("never met", "met_{cluster}"),
        ("none", "calls"),
    )
    expect_documented(metrics, documented, rows)
    names = ("won_b", "lost_b", "won_a_b", "lost_a_b"), ("met_x", "met_y"), ("calls",)
    reasons = zip(("no score", "never met", "none"), names, strict=True)
    assert metrics.result().left_out == {
        f"eval/{name}": reason for reason, group in reasons for name in group
    }
