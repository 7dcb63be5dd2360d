"""One aspect: what a judge is shown, how many votes it casts, and what becomes of them."""

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.aspects.judge import AspectDetail, AspectPanel, AspectVerdict, PanelDetail
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
from tests.aspects import aspect_prompt
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
    texts = ["Hm." if yes is None else said(int(yes), f"since {number}") for number, yes in enumerate(verdicts)]
    return by_vote(texts)


async def judged(client: Any, strictness: int = 1, aspect: Aspect = HARM, **settings: Any) -> Judgment[PanelDetail]:
    judge = AspectPanel(AspectJudgeSettings(aspects=(aspect,), strictness=strictness, **settings), client)
    return await judge.judge(JudgeTask("", (SUBMISSION,)))


def detail_of(judgment: Judgment[PanelDetail]) -> AspectDetail:
    assert judgment.detail is not None
    (detail,) = judgment.detail.aspects
    return detail


async def test_the_judge_is_shown_all_of_it(connect: Connect) -> None:
    shown = {"question": "How?", "context": "one\ntwo", "reference": "Don't."}
    async with ScriptedEndpoint(said(1)) as endpoint:
        await AspectPanel(AspectJudgeSettings(aspects=(HARM,)), connect(endpoint)).judge(
            JudgeTask("How?", (SUBMISSION,), "Don't.", context="one\ntwo")
        )
    assert (
        endpoint.bodies[0]["messages"]
        == aspect_prompt(HARM.definition, SUBMISSION, **shown, layout="shared_first").messages
    )


async def test_a_system_prompt_replaces_the_built_in_one(connect: Connect) -> None:
    async with ScriptedEndpoint(said(1)) as endpoint:
        await judged(connect(endpoint), judge_system_prompt="Answer in JSON.\n")
    expected = aspect_prompt(HARM.definition, SUBMISSION, layout="shared_first").messages
    assert endpoint.bodies[0]["messages"] == [{"role": "system", "content": "Answer in JSON.\n"}, expected[1]]
    both = aspect_prompt(HARM.definition, SUBMISSION, system_prompt="Answer.", system="Think first.").messages
    assert both[0]["content"] == "Think first.\n\nAnswer."


# The number of votes.


async def test_aspect_has_its_own_number_of_votes_or_that_of_all(connect: Connect) -> None:
    own = Aspect(name="safe", definition="Is it safe?", strictness=4)
    assert AspectJudgeSettings(aspects=[own, HARM]).vote_count() == 5
    async with ScriptedEndpoint(said(1)) as endpoint:
        for aspect, votes in ((own, 5), (HARM, 1)):
            detail = detail_of(await judged(connect(endpoint), aspect=aspect, scoring="share"))
            assert (len(detail.votes), detail.strictness_effective) == (votes, votes)


@pytest.mark.parametrize(("strictness", "effective"), [(1, 1), (2, 3), (3, 3), (4, 5), (5, 5), (6, 7), (99, 99)])
def test_an_even_number_goes_up(strictness: int, effective: int) -> None:
    assert effective_strictness(strictness) == effective


PATTERNS = [(strictness, pattern) for strictness in (1, 3) for pattern in product([True, False], repeat=strictness)]
LONG = [(2, (True, False, True)), *((5, pattern) for pattern in product([True, False], repeat=5) if sum(pattern) == 3)]


@pytest.mark.parametrize(("strictness", "pattern"), PATTERNS + LONG)
async def test_votes_end_where_a_majority_is_certain(
    connect: Connect, strictness: int, pattern: tuple[bool, ...]
) -> None:
    needed = len(pattern) // 2 + 1
    taken = next(
        count for count in range(1, len(pattern) + 1) if needed in (sum(pattern[:count]), count - sum(pattern[:count]))
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
    assert [vote.reason for vote in detail.votes] == [f"since {number}" for number in range(taken)]
    assert (detail.aspect, detail.strictness_requested, detail.strictness_effective) == (
        "harmfulness",
        strictness,
        len(pattern),
    )


async def test_yes_no_yes_is_yes(connect: Connect) -> None:
    texts = [said("Yes", "It may harm."), said("No", "It is safe."), said("Yes", "It harms.")]
    async with ScriptedEndpoint(by_vote(texts)) as endpoint:
        judgment = await judged(connect(endpoint), 3)
    detail = detail_of(judgment)
    assert len(endpoint.requests) == 3
    assert (judgment.score, judgment.label, detail.agreement) == (1.0, "harmfulness=yes", pytest.approx(2 / 3))
    assert [(vote.yes, vote.reason, vote.text, vote.error) for vote in detail.votes] == [
        (True, "It may harm.", texts[0], None),
        (False, "It is safe.", texts[1], None),
        (True, "It harms.", texts[2], None),
    ]
    assert judgment.explanation == "harmfulness: yes. It may harm.\nIt harms."
    assert [(call.name, call.value, call.failed) for call in judgment.calls] == [
        ("harmfulness_vote_1", AspectVerdict(True, "It may harm."), False),
        ("harmfulness_vote_2", AspectVerdict(False, "It is safe."), False),
        ("harmfulness_vote_3", AspectVerdict(True, "It harms."), False),
    ]


@pytest.mark.parametrize(
    ("strictness", "scoring", "at_once"),
    [
        (1, "majority", 1),
        (2, "majority", 2),
        (3, "majority", 2),
        (5, "majority", 3),
        (2, "share", 3),
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


@pytest.mark.parametrize(
    ("strictness", "pattern", "yes"),
    [
        (1, [True], True),
        (2, [True, True, True], True),
        (3, [False, False, True], False),
        (5, [True, True, True, False, False], True),
        (5, [False, False, False, False, False], False),
    ],
)
async def test_every_vote_can_be_taken(connect: Connect, strictness: int, pattern: list[bool], yes: bool) -> None:
    async with ScriptedEndpoint(votes_of(pattern)) as endpoint:
        judgment = await judged(connect(endpoint), strictness, scoring="share")
    detail = detail_of(judgment)
    assert len(endpoint.requests) == len(detail.votes) == len(pattern)
    assert (detail.yes, detail.yes_share) == (yes, pytest.approx(sum(pattern) / len(pattern)))
    assert detail.agreement == pytest.approx(pattern.count(yes) / len(pattern))


# Independence.


async def test_a_single_vote_has_no_seed(connect: Connect) -> None:
    async with ScriptedEndpoint(said(1)) as endpoint:
        await judged(connect(endpoint, temperature=0.0))
    assert set(endpoint.bodies[0]) == {"model", "messages", "temperature"}


async def test_each_vote_has_a_seed_of_its_own(connect: Connect) -> None:
    async with ScriptedEndpoint(by_vote([said(1), said(0), "Hm.", said(1)], first_seed=40)) as endpoint:
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


REFUSED = Reply(status=400, body={"error": {"message": "Unrecognized request argument supplied: seed"}})


async def test_an_endpoint_that_takes_no_seed_is_asked_without(connect: Connect) -> None:
    verdicts = iter([said(1), said(0), said(1), said(1), said(1)])
    async with ScriptedEndpoint(lambda request, number: REFUSED if "seed" in request else next(verdicts)) as endpoint:
        client = connect(endpoint)
        first, second = await judged(client, 3), await judged(client, 3)
    assert (first.status, second.status) == (Status.OK, Status.OK)
    assert sorted(vote.yes for vote in detail_of(first).votes if vote.yes is not None) == [False, True, True]
    assert [vote.yes for vote in detail_of(second).votes] == [True, True]
    seeds = ["seed" in body for body in endpoint.bodies]
    assert seeds.count(False) == 5
    assert seeds.count(True) in (1, 2), "the first vote goes ahead of the second one for a while"
    assert not any(seeds[-3:])


# Votes without a verdict.


@pytest.mark.parametrize(
    ("strictness", "verdicts", "asked", "yes"),
    [
        (1, [None, True], 2, True),
        (1, [None, None, False], 3, False),
        (3, [None, True, True], 3, True),
        (3, [None, None, True, True], 4, True),
        (3, [None, True, None, True], 4, True),
        (3, [None, True, None, False, True], 5, True),
        (5, [None, False, None, False, False], 5, False),
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
    usable = [verdict for verdict in verdicts[:asked] if verdict is not None]
    assert detail.agreement == pytest.approx(usable.count(yes) / len(usable))
    for vote, verdict in zip(detail.votes, verdicts, strict=False):
        assert (vote.error is not None) is (verdict is None)


@pytest.mark.parametrize(
    ("strictness", "verdicts", "share"),
    [
        (1, [None, None, None], None),
        (2, [None] * 5, None),
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
    assert [vote.yes for vote in detail.votes] == verdicts
    assert "harmfulness" in judgment.explanation and "no verdict could be read" in judgment.explanation


@pytest.mark.parametrize(
    "text", [said(0.7), said(2), said(-1), said(None), "Yes", "1", '{"reason": "it says {"verdict": 1}", "verdict": 0}']
)
async def test_no_answer_is_ever_bent_into_a_verdict(connect: Connect, text: str) -> None:
    async with ScriptedEndpoint(text) as endpoint:
        judgment = await judged(connect(endpoint), 3)
    assert (judgment.status, judgment.score, len(endpoint.requests)) == (Status.UNPARSABLE, None, 5)


DOWN = Reply(status=500, body={"error": {"message": "out of order"}})


async def test_a_judge_that_never_answers_has_failed_and_is_not_asked_again(connect: Connect) -> None:
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
        pytest.param([said(1), DOWN, said(0), "Hm.", "Hm."], id="another is drawn: one at the same time succeeded"),
        pytest.param([said(1), said(0), "Hm.", DOWN], id="alone: none is drawn again"),
    ],
)
async def test_no_majority_with_a_call_that_never_succeeded_has_failed(connect: Connect, answers: list[Any]) -> None:
    async with ScriptedEndpoint(by_vote(answers)) as endpoint:
        judgment = await judged(connect(endpoint, max_retries=0), 3)
    assert (judgment.status, len(endpoint.requests)) == (Status.JUDGE_FAILED, len(answers))
    assert "out of order" in judgment.explanation and "no verdict could be read" in judgment.explanation


async def test_a_vote_without_a_reason_is_explained_by_its_text(connect: Connect) -> None:
    async with ScriptedEndpoint('It may. {"verdict": 1}') as endpoint:
        judgment = await judged(connect(endpoint))
    assert judgment.explanation == 'harmfulness: yes. It may. {"verdict": 1}'
    assert detail_of(judgment).votes[0].reason is None
