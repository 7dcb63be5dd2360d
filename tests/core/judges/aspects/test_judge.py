"""One aspect: what a judge is shown, how many votes it casts, and what becomes of them."""

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.aspects.judge import AspectDetail, AspectPanel, PanelDetail
from judgegym.judges.aspects.prompt import (
    SUPPORTED_ASPECTS,
    Aspect,
    AspectJudgeSettings,
    AspectScoring,
    effective_strictness,
)
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm.cache import JudgmentCache
from tests.scripted import Json, Meeting, Reply, Script, ScriptedEndpoint

HARM = SUPPORTED_ASPECTS["harmfulness"].model_copy(update={"polarity": 1})  # a yes has the score 1
SUBMISSION = "Mix both."

Connect = Callable[..., Any]


def said(verdict: Any, reason: str = "since") -> str:
    """A judge's text."""
    return json.dumps({"reason": reason, "verdict": verdict})


def by_vote(texts: Sequence[str | Reply], *, first_seed: int = 0) -> Script:
    """Answers each vote by its number, which its seed tells."""
    return lambda request, number: texts[request.get("seed", first_seed + number - 1) - first_seed]


def votes_of(verdicts: Sequence[bool | None]) -> Script:
    """A judge that says yes, no or nothing, by the number of the vote."""
    texts = [
        "Hm." if yes is None else said(int(yes), f"since {number}")
        for number, yes in enumerate(verdicts)
    ]
    return by_vote(texts)


async def judged(
    client: Any, strictness: int = 1, aspect: Aspect = HARM, **settings: Any
) -> Judgment[PanelDetail]:
    judge = AspectPanel(
        AspectJudgeSettings(aspects=(aspect,), strictness=strictness, **settings), client
    )
    return await judge.judge(JudgeTask("", (SUBMISSION,)))


def detail_of(judgment: Judgment[PanelDetail]) -> AspectDetail:
    assert judgment.detail is not None
    (detail,) = judgment.detail.aspects
    return detail


# The number of votes.


async def test_aspect_has_its_own_number_of_votes_or_that_of_all(connect: Connect) -> None:
    own = Aspect(name="safe", definition="Is it safe?", strictness=4)
    assert AspectJudgeSettings(aspects=[own, HARM]).vote_count() == 5
    async with ScriptedEndpoint(said(1)) as endpoint:
        for aspect, votes in ((own, 5), (HARM, 1)):
            detail = detail_of(await judged(connect(endpoint), aspect=aspect, scoring="share"))
            assert (len(detail.votes), detail.strictness_effective) == (votes, votes)


@pytest.mark.parametrize(
    ("strictness", "effective"), [(1, 1), (2, 3), (3, 3), (4, 5), (5, 5), (6, 7), (99, 99)]
)
def test_an_even_number_goes_up(strictness: int, effective: int) -> None:
    assert effective_strictness(strictness) == effective


PATTERNS = [
    (strictness, pattern)
    for strictness in (1, 3)
    for pattern in product([True, False], repeat=strictness)
]
LONG = [
    (2, (True, False, True)),
    (5, (False, True, True, False, True)),
    (5, (False, False, True, False, True)),
]


@pytest.mark.parametrize(("strictness", "pattern"), PATTERNS + LONG)
async def test_votes_end_where_a_majority_is_certain(
    connect: Connect, strictness: int, pattern: tuple[bool, ...]
) -> None:
    needed = len(pattern) // 2 + 1
    taken = next(
        count
        for count in range(1, len(pattern) + 1)
        if needed in (sum(pattern[:count]), count - sum(pattern[:count]))
    )
    yes = sum(pattern[:taken]) == needed
    async with ScriptedEndpoint(votes_of(pattern)) as endpoint:
        judgment = await judged(connect(endpoint), strictness)
    detail = detail_of(judgment)
    assert len(endpoint.requests) == taken <= len(pattern)
    assert (judgment.status, judgment.score, judgment.label) == (
        Status.OK,
        float(yes),
        f"harmfulness={'yes' if yes else 'no'}",
    )
    assert (detail.yes, detail.agreement) == (yes, pytest.approx(needed / taken))
    assert detail.yes_share == pytest.approx(sum(pattern[:taken]) / taken)
    assert [vote.yes for vote in detail.votes] == list(pattern[:taken])
    reasons = [f"since {number}" for number in range(taken) if pattern[number] is yes]
    assert judgment.explanation == f"harmfulness: {'yes' if yes else 'no'}. " + "\n".join(reasons)
    assert [call.name for call in judgment.calls] == [
        f"harmfulness_vote_{number + 1}" for number in range(taken)
    ]
    assert (detail.strictness_requested, detail.strictness_effective) == (strictness, len(pattern))


@pytest.mark.parametrize(
    ("strictness", "scoring", "at_once"),
    [
        (1, "majority", 1),
        (2, "majority", 2),
        (3, "majority", 2),
        (5, "share", 5),
    ],
)
async def test_the_votes_that_are_sure_to_be_needed_are_taken_at_once(
    connect: Connect, strictness: int, scoring: AspectScoring, at_once: int
) -> None:
    meeting = Meeting(at_once)

    async def script(request: Json, number: int) -> str:
        await meeting.wait()
        return said(1)

    async with ScriptedEndpoint(script) as endpoint:
        judgment = await judged(connect(endpoint), strictness, scoring=scoring)
    assert (endpoint.peak, len(endpoint.requests)) == (at_once, at_once)
    assert judgment.score == 1.0


# Independence.


async def test_a_single_vote_has_no_seed(connect: Connect) -> None:
    async with ScriptedEndpoint(said(1)) as endpoint:
        await judged(connect(endpoint, temperature=0.0))
    assert set(endpoint.bodies[0]) == {"model", "messages", "temperature"}


async def test_each_vote_has_a_seed_of_its_own(connect: Connect) -> None:
    async with ScriptedEndpoint(
        by_vote([said(1), said(0), "Hm.", said(1)], first_seed=40)
    ) as endpoint:
        judgment = await judged(connect(endpoint), 3, seed=40)
    assert [vote.yes for vote in detail_of(judgment).votes] == [True, False, None, True]
    assert sorted(body["seed"] for body in endpoint.bodies) == [40, 41, 42, 43]
    assert len({json.dumps(body["messages"]) for body in endpoint.bodies}) == 1


async def test_more_votes_begin_with_those_that_are_kept(connect: Connect, tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    async with ScriptedEndpoint(votes_of([True, False, True, True, True])) as endpoint:
        client = connect(endpoint, cache=cache)
        await judged(client, 3)
        judgment = await judged(client, 5)
    cache.close()
    assert len(endpoint.requests) == 4
    assert [call.run.cached for call in judgment.calls] == [True, True, True, False]


# Votes without a verdict.


@pytest.mark.parametrize(
    ("strictness", "verdicts", "asked", "yes"),
    [
        (1, [None, None, False], 3, False),
        (3, [None, True, None, True], 4, True),
        (3, [None, True, None, False, True], 5, True),
        (5, [None, None, True, False, True, False, True], 7, True),
    ],
)
async def test_what_cannot_be_read_is_drawn_again(
    connect: Connect, strictness: int, verdicts: list[bool | None], asked: int, yes: bool
) -> None:
    async with ScriptedEndpoint(votes_of(verdicts)) as endpoint:
        judgment = await judged(connect(endpoint), strictness)
    detail = detail_of(judgment)
    assert len(endpoint.requests) == asked
    assert (judgment.status, judgment.score, detail.yes) == (Status.OK, float(yes), yes)
    assert [vote.yes for vote in detail.votes] == verdicts[:asked]
    assert detail.redrawn == verdicts[:asked].count(None)
    for vote, verdict in zip(detail.votes, verdicts, strict=False):
        assert (vote.error is not None) is (verdict is None)


@pytest.mark.parametrize(
    ("strictness", "verdicts", "share"),
    [
        (1, [None, None, None], None),
        (3, [True, False, None, None, None], 0.5),
        (3, [True, None, None, None, None], 1.0),
        (5, [True, True, None, False, False, None, None], 0.5),
    ],
)
async def test_no_majority_is_no_verdict(
    connect: Connect, strictness: int, verdicts: list[bool | None], share: float | None
) -> None:
    async with ScriptedEndpoint(votes_of(verdicts)) as endpoint:
        judgment = await judged(connect(endpoint), strictness)
    detail = detail_of(judgment)
    assert len(endpoint.requests) == len(verdicts)
    assert (judgment.status, judgment.score, judgment.label) == (Status.UNPARSABLE, None, None)
    assert (detail.yes, detail.agreement, detail.yes_share) == (None, None, share)
    assert "harmfulness: " in judgment.explanation and '"Hm."' in judgment.explanation


DOWN = Reply(status=500, body={"error": {"message": "out of order"}})


async def test_a_judge_that_never_answers_has_failed_and_is_not_asked_again(
    connect: Connect,
) -> None:
    async with ScriptedEndpoint(DOWN) as endpoint:
        judgment = await judged(connect(endpoint, max_retries=0), 3)
    assert (judgment.status, judgment.score) == (Status.JUDGE_FAILED, None)
    assert len(endpoint.requests) == len(judgment.calls) == 2, "as many as a majority of 3 needs"
    assert all(call.failed for call in judgment.calls)
    assert "out of order" in judgment.explanation
    assert [(vote.yes, vote.text) for vote in detail_of(judgment).votes] == [(None, "")] * 2


async def test_a_call_that_failed_is_drawn_again(connect: Connect) -> None:
    async with ScriptedEndpoint(by_vote([said(1), DOWN, said(1)])) as endpoint:
        judgment = await judged(connect(endpoint, max_retries=0), 3)
    assert (judgment.status, judgment.score, len(endpoint.requests)) == (Status.OK, 1.0, 3)
    assert [call.failed for call in judgment.calls] == [False, True, False]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(
            [said(1), DOWN, said(0), "Hm.", "Hm."],
            id="another is drawn: one at the same time succeeded",
        ),
        pytest.param([said(1), said(0), "Hm.", DOWN], id="alone: none is drawn again"),
    ],
)
async def test_no_majority_with_a_call_that_never_succeeded_has_failed(
    connect: Connect, answers: list[Any]
) -> None:
    async with ScriptedEndpoint(by_vote(answers)) as endpoint:
        judgment = await judged(connect(endpoint, max_retries=0), 3)
    assert (judgment.status, len(endpoint.requests)) == (Status.JUDGE_FAILED, len(answers))
    assert "out of order" in judgment.explanation and '"Hm."' in judgment.explanation


async def test_a_vote_without_a_reason_is_explained_by_its_text(connect: Connect) -> None:
    async with ScriptedEndpoint('It may. {"verdict": 1}') as endpoint:
        judgment = await judged(connect(endpoint))
    assert judgment.explanation == 'harmfulness: yes. It may. {"verdict": 1}'
    assert detail_of(judgment).votes[0].reason is None
