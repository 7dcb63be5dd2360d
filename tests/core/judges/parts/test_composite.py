"""A reward of several parts: each combination, gates, penalties, parts that fail, and whom each part asks."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.seeding import use_group
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.composite import CompositeJudge
from judgegym.judges.parts.part import PartsDetail
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.settings import AnyJudgeSettings
from tests.core.judges.parts.juries import NO_VERDICT, REFUSED, Connect, by_model
from tests.scripted import Reply, ScriptedEndpoint

Parts = Mapping[str, Mapping[str, Any]]


TASK = JudgeTask("Why?", ("Because.",))
VERDICT = "[FEEDBACK] So. [SCORE] 3"


def part(name: str, **options: Any) -> dict[str, Any]:
    """A part that a model of its own judges, on a scale from 0 to 10."""
    return {"judge": "rubric", "judge_model_name": name, "scale_min": 0, "scale_max": 10, **options}


async def judged(
    connect: Connect, endpoint: ScriptedEndpoint, parts: Parts, **given: Any
) -> Judgment[PartsDetail]:
    return await opened(connect, endpoint, parts, **given).judge_task(TASK)


def opened(
    connect: Connect, endpoint: ScriptedEndpoint, parts: Parts, **settings: Any
) -> CompositeJudge:
    given = {"judge": "composite", "reward": parts, "judge_base_url": endpoint.base_url, **settings}
    judge = open_judge(AnyJudgeSettings.model_validate(given), connect(endpoint, max_retries=0))
    assert isinstance(judge, CompositeJudge)
    return judge


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        ("weighted_sum", (0.3 * 0.8 + 2 * 0.5) / 2.3),
        ("product", 0.8 * 0.5),
        ("min", 0.5),
        ("first_that_says", 0.8),
    ],
)
async def test_terms_are_combined(connect: Connect, combine: str, expected: float) -> None:
    weights = ({"weight": 0.3}, {"weight": 2}) if combine == "weighted_sum" else ({}, {})
    parts = {
        "a": part("a", **weights[0]),
        "b": part("b", **weights[1]),
        "seen": part("c", weight=0),
    }
    async with ScriptedEndpoint(by_model({"a": 8, "b": 5, "c": 1})) as endpoint:
        judgment = await judged(connect, endpoint, parts, combine=combine)
    assert judgment.score == pytest.approx(expected, abs=1e-12)
    assert {call["model"] for call in endpoint.bodies} == (
        {"a"} if combine == "first_that_says" else {"a", "b", "c"}
    )


async def test_contributions_add_up_to_the_reward(connect: Connect) -> None:
    parts = {"a": part("a", weight=3), "b": part("b"), "length": part("c", penalty=0.5)}
    async with ScriptedEndpoint(by_model({"a": 8, "b": 5, "c": 2})) as endpoint:
        judge = opened(connect, endpoint, parts)
        judgment = await judge.judge_task(TASK)
    assert judgment.score == pytest.approx((3 * 0.8 + 0.5) / 4 - 0.5 * 0.8)
    contributions = judgment.contributions
    assert [*contributions] == ["a", "b", "length"]
    assert math.fsum(contributions.values()) == pytest.approx(judgment.score)
    assert judgment.components == {
        "a": 0.8,
        "a.raw": 8,
        "b": 0.5,
        "b.raw": 5,
        "length": 0.2,
        "length.raw": 2,
    }
    assert judgment.label == "a=0.8 b=0.5 length=0.2"
    assert {call.name.partition("/")[0] for call in judgment.calls} == {*parts}


@pytest.mark.parametrize(("rating", "score", "asked"), [(4, -1.0, {"g"}), (5, 0.9, {"g", "a"})])
async def test_gate_saves_the_other_calls(
    connect: Connect, rating: int, score: float, asked: set[str]
) -> None:
    parts = {"a": part("a"), "format": part("g", gate=0.5, otherwise=-1)}
    async with ScriptedEndpoint(by_model({"a": 9, "g": rating})) as endpoint:
        judgment = await judged(connect, endpoint, parts)
    assert (judgment.score, {body["model"] for body in endpoint.bodies}) == (score, asked)
    assert judgment.detail is not None
    assert judgment.detail.settled_by == (None if rating == 5 else "format")
    assert [each.status for each in judgment.detail.parts] == [
        "ok" if rating == 5 else "not_asked",
        "ok",
    ]


async def test_judge_is_asked_for_what_the_rule_cannot_settle(connect: Connect) -> None:
    tasks = [
        JudgeTask("2+2?", (str(number),), reference="4" if number % 3 else None)
        for number in range(9)
    ]
    async with ScriptedEndpoint(VERDICT) as endpoint:
        judge = opened(
            connect,
            endpoint,
            {"maths": {"judge": "rule", "rule": "exact"}, "style": {"judge": "rubric"}},
            combine="first_that_says",
        )
        found = [await judge.judge_task(task) for task in tasks]
    assert [judgment.score for judgment in found] == [0.5, 0, 0, 0.5, 1, 0, 0.5, 0, 0]
    assert len(endpoint.requests) == 3
    settled = [judgment.detail.settled_by for judgment in found if judgment.detail is not None]
    assert Counter(settled) == {"maths": 6, "style": 3}
    assert not any(judgment.detail.left_out for judgment in found if judgment.detail is not None)


async def test_rule_may_leave_mismatches_to_the_judge(connect: Connect) -> None:
    parts = {
        "maths": {"judge": "rule", "rule": "exact", "rule_mismatch": "cannot_say"},
        "style": {"judge": "rubric"},
    }
    async with ScriptedEndpoint(VERDICT) as endpoint:
        judge = opened(connect, endpoint, parts, combine="first_that_says")
        found = [
            await judge.judge_task(JudgeTask("2+2?", (text,), reference="4"))
            for text in ("4", "four")
        ]
    assert [judgment.score for judgment in found] == [1, 0.5]
    assert "cannot say: found 'four', expected '4'" in found[1].explanation


FAULTS = {"failed": REFUSED, "without a verdict": NO_VERDICT}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("on_failure", ["fail", "leave_out"])
@pytest.mark.parametrize("failing", ["term", "gate", "penalty"])
async def test_failed_part_is_never_a_number(
    connect: Connect, failing: str, on_failure: str, fault: str
) -> None:
    options: dict[str, dict[str, Any]] = {
        "a": {"weight": 3},
        "term": {},
        "gate": {"gate": 0.1},
        "penalty": {"penalty": 0.4},
    }
    options[failing]["on_failure"] = on_failure
    parts = {name: part(name, **given) for name, given in options.items()}
    ratings: dict[str, int | Reply] = {"a": 9, "term": 5, "gate": 3, "penalty": 5}
    async with ScriptedEndpoint(by_model({**ratings, failing: FAULTS[fault]})) as endpoint:
        judgment = await judged(connect, endpoint, parts)
    assert judgment.detail is not None
    if on_failure == "fail":
        assert judgment.status is (Status.JUDGE_FAILED if fault == "failed" else Status.UNPARSABLE)
        assert judgment.explanation.startswith(f"{failing}: ")
        assert judgment.detail.left_out == ()
    else:
        without = {"term": 0.9 - 0.2, "gate": 0.8 - 0.2, "penalty": 0.8}
        assert judgment.score == pytest.approx(without[failing])
        assert judgment.detail.left_out == (failing,)
        assert re.search(f"{failing}, .*no score: ", judgment.explanation)


async def test_reward_whose_terms_are_all_left_out_fails(connect: Connect) -> None:
    parts = {"a": part("a", on_failure="leave_out"), "length": part("b", penalty=1)}
    async with ScriptedEndpoint(by_model({"a": REFUSED, "b": 10})) as endpoint:
        judgment = await judged(connect, endpoint, parts)
    assert (judgment.score, judgment.status) == (None, Status.JUDGE_FAILED)


@pytest.mark.parametrize(("first", "score"), [("shut", 0.25), ("broken", None)])
async def test_first_gate_settles_the_reward(
    connect: Connect, first: str, score: float | None
) -> None:
    gates = {"shut": part("shut", gate=0.5, otherwise=0.25), "broken": part("broken", gate=0.5)}
    parts = {first: gates.pop(first), **gates, "a": part("a")}
    async with ScriptedEndpoint(by_model({"shut": 4, "broken": REFUSED, "a": 9})) as endpoint:
        judgment = await judged(connect, endpoint, parts)
    assert judgment.score == score


async def test_parts_at_one_endpoint_share_its_limit(connect: Connect) -> None:
    async with ScriptedEndpoint("fine") as endpoint:
        judge = opened(
            connect,
            endpoint,
            {"a": {"judge": "rubric"}, "b": {"judge": "peer", "judge_temperature": 0.9}},
        )
        first, second = (part.judge.client for part in judge.parts)
        assert first is not second
        assert first.limit is second.limit
        assert first.meter is second.meter
        second.formats.note_earlier("http://other/v1")
        assert [notice for notice in judge.client.notices if "http://other/v1" in notice]


async def test_one_judge_in_turn_judges_all_completions_of_a_group(connect: Connect) -> None:
    parts = {"a": part("a"), "b": part("b"), "measured": part("c", weight=0)}
    async with ScriptedEndpoint(by_model({"a": 5, "b": 1, "c": 3})) as endpoint:
        judge = opened(connect, endpoint, parts, combine="alternate")
        chosen: dict[tuple[str, int], set[str | None]] = {}
        for group in range(8):
            for row, response in product(("one", "two"), ("x", "y")):
                with use_group(group):
                    judgment = await judge.judge_task(JudgeTask(row, (response,), rubric="Good?"))
                assert judgment.detail is not None
                assert judgment.score == {"a": 0.5, "b": 0.1}[str(judgment.detail.settled_by)]
                chosen.setdefault((row, group), set()).add(judgment.detail.settled_by)
        assert sum(call["model"] == "c" for call in endpoint.bodies) == 32, (
            "what has no weight is measured"
        )
    assert all(len(each) == 1 for each in chosen.values()), "the members of a group have one judge"
    assert {name for each in chosen.values() for name in each} == {"a", "b"}
    for row in ("one", "two"):
        assert len({name for group in range(8) for name in chosen[row, group]}) == 2, (
            "a row has both"
        )
