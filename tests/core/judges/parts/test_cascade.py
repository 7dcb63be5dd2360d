"""Cascades: who decides, what is shown to both, judges that fail, groups on one scale, and settings."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask, judge_responses
from judgegym.judges.parts.cascade import CONFIDENCE, ESCALATED, CascadeJudge
from tests.core.judges.parts.juries import NO_VERDICT, REFUSED, Connect, Ratings, by_model, opened
from tests.scripted import ScriptedEndpoint

STRONG = 3
ROWS = [JudgeTask(f"Row {number}?", ("Because.",)) for number in range(200)]


def cascade(connect: Connect, endpoint: ScriptedEndpoint, **given: Any) -> CascadeJudge:
    judge = opened(
        connect,
        endpoint,
        "cascade",
        "c,s",
        **{"cascade_threshold": 0.6, "cascade_recheck": 0, **given},
    )
    assert isinstance(judge, CascadeJudge)
    return judge


def asked(endpoint: ScriptedEndpoint) -> Counter[str]:
    return Counter(body["model"] for body in endpoint.bodies)


@pytest.mark.parametrize(
    ("rating", "is_sure"), [(10, True), (9, True), (8, None), (7, False), (2, None), (0, True)]
)
@pytest.mark.parametrize("share", [0, 1])
async def test_the_cheap_judge_decides_above_the_threshold(
    connect: Connect, rating: int, is_sure: bool | None, share: int
) -> None:
    decides = bool(share) if is_sure is None else is_sure
    async with ScriptedEndpoint(by_model({"c": rating, "s": STRONG})) as endpoint:
        judge = cascade(connect, endpoint, cascade_share=share)
        judgment = await judge.judge_task(ROWS[0])
    assert judgment.score == (rating if decides else STRONG) / 10
    assert asked(endpoint) == ({"c": 1} if decides else {"c": 1, "s": 1})
    components = judgment.components
    assert (components[ESCALATED], components[CONFIDENCE]) == (not decides, abs(rating - 5) / 5)
    assert judgment.detail is not None
    assert judgment.detail.settled_by == ("c" if decides else "s")
    assert judgment.contributions == {"c" if decides else "s": judgment.score}


@pytest.mark.slow
async def test_a_share_at_the_threshold_and_of_what_is_rechecked_is_drawn_by_seed_and_row(
    connect: Connect,
) -> None:
    async with ScriptedEndpoint(by_model({"c": 8, "s": STRONG})) as endpoint:
        drawn = []
        for seed, rows in ((1, ROWS), (1, ROWS[::-1]), (2, ROWS)):
            judge = cascade(connect, endpoint, seed=seed, cascade_share=0.3, cascade_recheck=0.5)
            found = {row.prompt: (await judge.judge_task(row)).components for row in rows}
            drawn.append({name: (parts[ESCALATED], "s" in parts) for name, parts in found.items()})
    assert drawn[0] == drawn[1] != drawn[2]
    kinds = Counter(drawn[0].values())
    assert {*kinds} == {(1.0, True), (0.0, True), (0.0, False)}
    assert kinds[0.0, True] + kinds[0.0, False] == pytest.approx(60, abs=25)
    assert kinds[0.0, True] == pytest.approx(30, abs=20)


@pytest.mark.parametrize("fault", [NO_VERDICT, REFUSED])
async def test_a_judge_that_fails_never_decides(connect: Connect, fault: Any) -> None:
    async with ScriptedEndpoint(by_model({"c": fault, "s": STRONG})) as endpoint:
        judgment = await cascade(connect, endpoint).judge_task(ROWS[0])
    assert judgment.detail is not None
    assert (judgment.score, judgment.detail.left_out) == (0.3, ("c",))
    async with ScriptedEndpoint(by_model({"c": 5, "s": fault})) as endpoint:
        judgment = await cascade(connect, endpoint).judge_task(ROWS[0])
    assert (judgment.score, judgment.status.is_failure) == (None, True), (
        "the cheap judge was not sure"
    )
    async with ScriptedEndpoint(by_model({"c": 10, "s": fault})) as endpoint:
        judgment = await cascade(connect, endpoint, cascade_recheck=1).judge_task(ROWS[0])
    assert judgment.score == 1.0, "a recheck that fails changes nothing"


def by_text(prompt: str) -> int:
    return 5 if "unsure" in prompt else 10


@pytest.mark.parametrize("recheck", [0, 1])
async def test_a_group_has_one_judge(connect: Connect, recheck: int) -> None:
    async with ScriptedEndpoint(by_model({"c": by_text, "s": STRONG})) as endpoint:
        judge = cascade(connect, endpoint, cascade_recheck=recheck)
        texts = ("a", "unsure", "", "b", "a")
        results = await judge_responses(judge, JudgeTask("Why?", texts))
        assert [result.score for result in results] == [0.3, 0.3, None, 0.3, 0.3]
        assert [result.components.get(ESCALATED) for result in results] == [1, 1, None, 1, 1]
        assert asked(endpoint) == {"c": 3, "s": 3}, "equal responses are judged once"
        assert sum(result.judge_calls for result in results) == 6
        sure = await judge_responses(judge, JudgeTask("Why?", ("a", "b")))
        assert [(result.score, result.components[ESCALATED]) for result in sure] == [
            (1.0, 0),
            (1.0, 0),
        ]


@pytest.mark.parametrize(("failing", "scores"), [("unsure", [0.3, None]), ("a", [None, 0.3])])
async def test_where_the_strong_judge_fails_the_others_of_its_group_keep_its_scale(
    connect: Connect, failing: str, scores: list[float | None]
) -> None:
    def strong(prompt: str) -> Any:
        return NO_VERDICT if f"{failing}\n" in prompt else STRONG

    async with ScriptedEndpoint(by_model({"c": by_text, "s": strong})) as endpoint:
        results = await judge_responses(
            cascade(connect, endpoint), JudgeTask("Why?", ("a", "unsure"))
        )
    assert [result.score for result in results] == scores
    assert {result.status for result in results if result.score is None} == {
        Status.UNPARSABLE.value
    }


async def test_a_jury_is_the_cheap_judge_and_sure_where_its_members_agree(connect: Connect) -> None:
    ratings: Ratings = {"a": 9, "b": by_text, "s": STRONG}
    jury = {"judge": "jury", "name": "jury", "judges": "a,b"}
    async with ScriptedEndpoint(by_model(ratings)) as endpoint:
        judge = opened(
            connect, endpoint, "cascade", [jury, "s"], cascade_confidence="members", cascade_threshold=0.8
        )  # fmt: skip
        found = [await judge.judge_task(JudgeTask("Why?", (text,))) for text in ("b", "unsure")]
    assert [judgment.score for judgment in found] == [pytest.approx(0.95), 0.3]
    assert {call.name for call in found[0].calls} == {"jury/a/judgment_1", "jury/b/judgment_1"}
