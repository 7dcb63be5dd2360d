"""Juries: each rule by a second computation, weights, scales, quorum, members that fail, and settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean, median, multimode, pstdev
from typing import Any

import pytest
from pydantic import ValidationError

from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask, judge_responses
from judgegym.judges.parts.jury import JuryRule, JuryScales, compute_jury_score
from judgegym.judges.parts.part import PartsDetail
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.client import ChatClient
from tests.core.judges.parts.juries import (
    NO_VERDICT,
    REFUSED,
    Connect,
    Ratings,
    by_model,
    opened,
    settings_of,
)
from tests.scripted import Json, Meeting, Reply, ScriptedEndpoint, completion

TASK = JudgeTask("Why?", ("Because.",))
RULES: tuple[JuryRule, ...] = ("mean", "median", "trimmed_mean", "majority", "unanimous")


def naive(rule: JuryRule, scores: Sequence[float]) -> float | None:
    """The rule over equal members; one of weight 3 is three."""
    if rule == "median":
        return median(scores)
    if rule == "majority":
        return fmean(multimode(scores))
    if rule == "trimmed_mean" and len(scores) > 2:
        cut = max(1, int(len(scores) * 0.2))
        return fmean(sorted(scores)[cut : len(scores) - cut])
    if (
        rule == "unanimous"
        and len({"yes" if score > 0.5 else "no" if score < 0.5 else "tie" for score in scores}) > 1
    ):
        return None
    return fmean(scores)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_that_of_a_second_computation(rule: JuryRule) -> None:
    random, most = Random(rule), 1 if rule == "trimmed_mean" else 3
    for _ in range(200):
        scores = {
            f"m{number}": random.randint(0, 10) / 10 for number in range(random.randint(1, 12))
        }
        weights = {name: random.randint(0, most) for name in scores}
        if not any(weights.values()):
            assert compute_jury_score(scores, rule, weights) is None
            continue
        equal = [score for name, score in scores.items() for _ in range(weights[name])]
        assert compute_jury_score(scores, rule, weights) == pytest.approx(
            naive(rule, equal), abs=1e-12
        )
        assert compute_jury_score(scores, rule, {}) == pytest.approx(
            naive(rule, [*scores.values()]), abs=1e-12
        )
        twice = {name: 2.0 * weight for name, weight in weights.items()}
        assert compute_jury_score(scores, rule, twice) == pytest.approx(
            naive(rule, equal), abs=1e-12
        )


async def judged(
    connect: Connect, ratings: Ratings, **given: Any
) -> tuple[Judgment[PartsDetail], Any, list[Json]]:
    async with ScriptedEndpoint(by_model(ratings)) as endpoint:
        jury = opened(connect, endpoint, "jury", [*ratings], **given)
        judgment = await jury.judge_task(TASK)
    return judgment, jury, endpoint.bodies


@pytest.mark.parametrize(
    ("given", "score"),
    [
        ({}, 0.5),
        ({"jury_rule": "median"}, 0.6),
        ({"jury_rule": "majority", "jury_weights": "a=1,b=2,c=1"}, 0.6),
        ({"jury_weights": {"a": 3, "b": 1}}, (3 * 0.8 + 0.6) / 4),
        ({"jury_rule": "unanimous", "jury_weights": "a=1,b=1"}, 0.7),
    ],
)
async def test_members_make_one_score(
    connect: Connect, given: dict[str, Any], score: float
) -> None:
    judgment, _jury, asked = await judged(connect, {"a": 8, "b": 6, "c": 1}, **given)
    assert judgment.score == pytest.approx(score)
    assert judgment.label == "a=0.8 b=0.6 c=0.1"
    assert judgment.components == {"a": 0.8, "a.raw": 8, "b": 0.6, "b.raw": 6, "c": 0.1, "c.raw": 1}
    assert sorted(body["model"] for body in asked) == ["a", "b", "c"], (
        "one without a weight is asked, and does not count"
    )
    added = judgment.contributions
    assert (
        (sum(added.values()) == pytest.approx(score))
        if given.get("jury_rule", "mean") == "mean"
        else added == {}
    )


async def test_members_are_asked_at_once(connect: Connect) -> None:
    meeting = Meeting(3)

    async def answer(request: Json, number: int) -> str:
        await meeting.wait()
        return "[FEEDBACK] So. [SCORE] 5"

    async with ScriptedEndpoint(answer) as endpoint:
        assert (await opened(connect, endpoint, "jury", "a,b,c").judge_task(TASK)).score == 0.5


@pytest.mark.parametrize(("failing", "fault"), [*product(range(4), (NO_VERDICT, REFUSED))])
async def test_failed_members_are_left_out_and_below_the_quorum_there_is_no_score(
    connect: Connect, failing: int, fault: Any
) -> None:
    ratings = {**dict.fromkeys("abcd"[:failing], fault), **dict.fromkeys("abcd"[failing:], 9)}
    judgment, _, _ = await judged(connect, ratings, jury_quorum=2)
    detail = judgment.detail
    assert detail is not None
    if failing < 3:
        assert (judgment.score, detail.left_out) == (0.9, tuple("abcd"[:failing]))
        assert all(
            re.search(rf"\b{name}, .*no score: ", judgment.explanation) for name in detail.left_out
        )
    else:
        assert judgment.score is None
        assert judgment.status is (
            Status.UNPARSABLE if fault is NO_VERDICT else Status.JUDGE_FAILED
        )
        assert re.match("1 members .*the quorum is 2: a: ", judgment.explanation)


async def test_quorum_is_of_members_that_count(connect: Connect) -> None:
    ratings: Ratings = {"a": 9, "b": REFUSED, "c": 1, "d": 1}
    judgment, _, _ = await judged(connect, ratings, jury_weights="a=1,b=1,c=0,d=0")
    assert judgment.score is None
    judgment, _, _ = await judged(connect, ratings, jury_weights="a=1,b=1", jury_quorum=1)
    assert judgment.score == 0.9


async def test_members_that_must_agree_abstain_with_a_reason(connect: Connect) -> None:
    judgment, _, _ = await judged(connect, {"a": 8, "b": 2}, jury_rule="unanimous")
    assert (judgment.score, judgment.status) == (None, Status.UNPARSABLE)
    assert judgment.explanation == "the members disagree (a 0.8, b 0.2)"
    judgment, _jury, _ = await judged(connect, {"a": 8, "b": 6, "c": 0}, jury_weights="a=1,b=1")
    assert judgment.confidences == pytest.approx({"margin": 0.4, "members": 0.8}), (
        "of members that count"
    )


def test_scales_are_aligned_by_a_sample() -> None:
    sample: Mapping[str, Sequence[float]] = {
        "strict": [0.0, 0.1, 0.2, 0.3],
        "mild": [0.7, 0.8, 0.9, 1.0],
    }
    ranks, standard = JuryScales("rank", sample), JuryScales("standardised", sample)
    for strict, mild in zip(*sample.values(), strict=True):
        assert ranks.align("strict", strict) == ranks.align("mild", mild)
        assert standard.align("strict", strict) == pytest.approx(standard.align("mild", mild))
    assert [ranks.align("strict", score) for score in (-1, 0.1, 0.15, 9)] == [0, 1.5 / 4, 2 / 4, 1]
    spread = pstdev(sample["strict"])
    assert standard.align("strict", 0.15 + spread) == pytest.approx(0.5 + spread)
    assert standard.align("mild", 0.0) == 0.0
    assert JuryScales("own", {}).align("strict", 0.3) == 0.3


async def test_aligned_scores_make_the_jurys_score(connect: Connect) -> None:
    sample = {"a": [0.1, 0.2, 0.3], "b": [0.7, 0.8, 0.9]}
    judgment, _jury, _ = await judged(
        connect, {"a": 3, "b": 9}, jury_scale="rank", jury_sample=sample
    )
    assert judgment.score == pytest.approx(2.5 / 3)
    assert judgment.components["a"] == 0.3, "the member's own score is recorded"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("Qwen/Qwen3-8B,gpt-4o", ["Qwen3-8B", "gpt-4o"]),
        ('["m", "m_2", "m"]', ["m", "m_2", "m_3"]),
        ({"x": {}, "y": {"judge": "peer"}}, ["x", "y"]),
    ],
)
def test_members_are_named(given: object, names: list[str]) -> None:
    assert AnyJudgeSettings.model_validate({"judges": given}).part_names == names


@pytest.mark.parametrize(
    "text",
    [
        "- a\n- {judge_model_name: org/b}\n",
        '["a",\n\t{"name": "b"}]',
        "a:\nb: {judge: peer}\n",
        "a,b",
    ],
)
def test_members_and_weights_are_read_from_a_file(tmp_path: Path, text: str) -> None:
    members, weights = tmp_path / "members.yaml", tmp_path / "weights.yaml"
    members.write_text(text.replace("a:\n", "a: {}\n"))
    weights.write_text("a: 1\nb: 3\n")
    settings = AnyJudgeSettings.model_validate(
        {"judges": f"@{members}", "jury_weights": f"@{weights}"}
    )
    assert settings.part_names == ["a", "b"] and settings.jury_weights == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "judges: [a, b]\njury_rule: mean\n",
            "judges: .*found a list; --config",
        ),
        ('{"judge": "rubric"}\n{"judge": "rubric"}\n', "JSON or YAML"),
    ],
)
def test_a_file_of_something_else_is_no_list_of_members(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "jury.yaml"
    path.write_text(text)
    with pytest.raises(ValidationError, match=said):
        AnyJudgeSettings.model_validate({"judges": f"@{path}"})


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("others", [{}, {"judge_temperature": 0.5}])
async def test_the_finish_reasons_of_a_member_are_its_own(
    connect: Connect, order: int, others: dict[str, float]
) -> None:
    half = Reply(body=completion("[FEEDBACK] So. [SCORE] 5", finish_reason="halted"))
    members = [("lax", {"judge_finish_reasons": ["halted"]}), ("strict", others)]
    async with ScriptedEndpoint(half) as endpoint:
        settings = settings_of(endpoint, "jury", dict(members[::order]), jury_quorum=1)
        async with ChatClient(
            replace(settings.chat_settings(section="", retry_delay=0), max_retries=0)
        ) as client:
            (judgment,) = await judge_responses(
                open_judge(settings, client), JudgeTask("Why?", ("Because.",))
            )
    assert judgment.score == 0.5 and {"lax"} == {*judgment.components} - {"lax.raw"}, (
        judgment.explanation
    )
