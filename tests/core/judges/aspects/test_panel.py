"""Several aspects as one judgment, against values computed by hand."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from judgegym.judges.aspects.judge import AspectDetail, AspectPanel, PanelDetail, combined_score
from judgegym.judges.aspects.prompt import (
    SUPPORTED_ASPECTS,
    Aspect,
    AspectJudgeSettings,
    AspectScoring,
    check_aspects,
)
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from tests.scripted import Json, Meeting, Reply, Script, ScriptedEndpoint

SUBMISSION = "Mix both."
HARM = SUPPORTED_ASPECTS["harmfulness"]
COHERENCE = SUPPORTED_ASPECTS["coherence"]
CORRECTNESS = SUPPORTED_ASPECTS["correctness"]

Connect = Callable[..., Any]


def aspect(name: str, polarity: Any = 1, weight: float = 1.0, *, veto: bool = False) -> Aspect:
    return Aspect(
        name=name, definition=f"Is it {name}?", polarity=polarity, weight=weight, veto=veto
    )


def detail(name: str, yes: bool | None, yes_share: float | None) -> AspectDetail:
    return AspectDetail(
        aspect=name,
        yes=yes,
        yes_share=yes_share,
        agreement=None,
        reason="since",
        votes=(),
        strictness_requested=3,
        strictness_effective=3,
    )


A, B, C = aspect("a"), aspect("b"), aspect("c")
BAD, HEAVY = aspect("bad", -1), aspect("heavy", weight=3.0)
FATAL, NEEDED = aspect("fatal", -1, 2.0, veto=True), aspect("needed", veto=True)

BY_HAND = [
    # aspects; verdict and share of yes of each; by majority; by share; whose veto
    ([A], [(True, 1.0)], 1.0, 1.0, None),
    ([BAD], [(True, 1.0)], 0.0, 0.0, None),
    ([BAD], [(False, 0.2)], 1.0, 0.8, None),
    ([A, B, C], [(True, 1.0), (False, 0.0), (True, 2 / 3)], 2 / 3, 5 / 9, None),
    ([A, BAD], [(True, 2 / 3), (True, 2 / 3)], 0.5, 0.5, None),
    ([A, HEAVY], [(False, 0.4), (True, 0.6)], 0.75, 2.2 / 4, None),
    ([FATAL, A, B], [(False, 1 / 3), (True, 2 / 3), (False, 1 / 3)], 0.75, 7 / 12, None),
    ([FATAL, A, B], [(True, 2 / 3), (True, 1.0), (True, 1.0)], 0.0, 0.0, "fatal"),
    ([A, NEEDED], [(True, 1.0), (False, 0.4)], 0.0, 0.0, "needed"),
    ([NEEDED, FATAL], [(False, 0.0), (True, 1.0)], 0.0, 0.0, "needed"),
    ([FATAL, NEEDED], [(False, 0.0), (False, 0.0)], 0.0, 0.0, "needed"),
]


@pytest.mark.parametrize(("aspects", "verdicts", "by_majority", "by_share", "veto"), BY_HAND)
def test_by_hand(
    aspects: list[Aspect],
    verdicts: list[tuple[bool, float]],
    by_majority: float,
    by_share: float,
    veto: str | None,
) -> None:
    details = [
        detail(each.name, yes, share) for each, (yes, share) in zip(aspects, verdicts, strict=True)
    ]
    assert combined_score(aspects, details, "majority") == (pytest.approx(by_majority), veto)
    assert combined_score(aspects, details, "share") == (pytest.approx(by_share), veto)


@pytest.mark.parametrize("scoring", ["majority", "share"])
def test_an_aspect_without_a_verdict_has_no_score(scoring: AspectScoring) -> None:
    with pytest.raises(ValueError, match="'b' has no verdict"):
        combined_score([A, B], [detail("a", True, 1.0), detail("b", None, 0.5)], scoring)


@pytest.mark.parametrize(
    ("aspects", "words"),
    [
        ([], "at least one"),
        ([A, B, aspect("a", -1)], "'a'"),
        ("coherence,coherence", "'coherence'"),
    ],
)
def test_aspects_must_be_told_apart(aspects: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        AspectJudgeSettings(aspects=aspects)
    assert check_aspects([A, B]) == [A, B]


def answering(verdicts: Mapping[str, Sequence[Any]]) -> Script:
    """A judge that answers each question by the number of its vote."""

    def script(request: Json, number: int) -> str | Reply:
        question = request["messages"][-1]["content"].rpartition("[Criteria]\n")[2]
        (given,) = (texts for definition, texts in verdicts.items() if definition == question)
        verdict = given[request.get("seed", 0)]
        return (
            verdict
            if isinstance(verdict, Reply)
            else json.dumps({"reason": f"{question} {verdict}", "verdict": verdict})
        )

    return script


async def judged(
    client: Any,
    aspects: Sequence[Aspect],
    strictness: int = 1,
    *,
    scoring: AspectScoring = "majority",
) -> Judgment[PanelDetail]:
    settings = AspectJudgeSettings(aspects=tuple(aspects), strictness=strictness, scoring=scoring)
    return await AspectPanel(settings, client).judge(JudgeTask("How?", (SUBMISSION,)))


async def test_a_panel(connect: Connect) -> None:
    verdicts = {
        "Is it fatal?": ["No"],
        COHERENCE.definition: ["Yes"],
        CORRECTNESS.definition: ["No"],
    }
    async with ScriptedEndpoint(answering(verdicts)) as endpoint:
        judgment = await judged(connect(endpoint), [FATAL, COHERENCE, CORRECTNESS])
    assert (judgment.status, judgment.score) == (Status.OK, pytest.approx(0.75))
    assert judgment.label == "fatal=no coherence=yes correctness=no"
    assert [call.name for call in judgment.calls] == [
        "fatal_vote_1",
        "coherence_vote_1",
        "correctness_vote_1",
    ]
    assert judgment.explanation == (
        "fatal: no. Is it fatal? No\n\n"
        f"coherence: yes. {COHERENCE.definition} Yes\n\n"
        f"correctness: no. {CORRECTNESS.definition} No"
    )
    assert judgment.detail is not None
    assert [(each.aspect, each.yes) for each in judgment.detail.aspects] == [
        ("fatal", False),
        ("coherence", True),
        ("correctness", False),
    ]
    assert judgment.detail.vetoed_by is None
    assert all("[Input]\nHow?" in body["messages"][1]["content"] for body in endpoint.bodies)


async def test_all_aspects_are_judged_at_once(connect: Connect) -> None:
    meeting = Meeting(6)

    async def script(request: Json, number: int) -> str:
        await meeting.wait()
        return '{"reason": "so", "verdict": 1}'

    async with ScriptedEndpoint(script) as endpoint:
        judgment = await judged(connect(endpoint), [HARM, COHERENCE, CORRECTNESS], 3)
    assert (endpoint.peak, len(endpoint.requests)) == (6, 6)
    assert judgment.score == pytest.approx(2 / 3)


async def test_a_veto(connect: Connect) -> None:
    verdicts = {"Is it fatal?": [1, 0, 1], "Is it a?": [1, 1, 1]}
    async with ScriptedEndpoint(answering(verdicts)) as endpoint:
        judgment = await judged(connect(endpoint), [A, FATAL], 3)
    assert (judgment.status, judgment.score, judgment.label) == (Status.OK, 0.0, "a=yes fatal=yes")
    assert judgment.detail is not None
    assert judgment.detail.vetoed_by == "fatal"


@pytest.mark.parametrize(
    ("strictness", "score"), [(1, 1.0), (3, (1 / 3 + 3 * 1.0) / 4), (5, (2 / 5 + 3 * 3 / 5) / 4)]
)
async def test_a_share_is_of_all_votes(connect: Connect, strictness: int, score: float) -> None:
    """Votes that end with a majority would make every share look surer than the judge is."""
    verdicts = {"Is it bad?": [0, 1, 1, 1, 0], "Is it heavy?": [1, 1, 1, 0, 0]}
    async with ScriptedEndpoint(answering(verdicts)) as endpoint:
        judgment = await judged(connect(endpoint), [BAD, HEAVY], strictness, scoring="share")
    assert len(endpoint.requests) == 2 * strictness
    assert judgment.score == pytest.approx(score)


DOWN = Reply(status=500, body={"error": {"message": "out of order"}})


@pytest.mark.parametrize(
    ("of_a", "of_b", "status", "told"),
    [
        (0.7, 1, Status.UNPARSABLE, ["a: no majority"]),
        (DOWN, None, Status.JUDGE_FAILED, ["a: no majority", "b: no majority", "out of order"]),
    ],
)
async def test_every_aspect_needs_its_verdict(
    connect: Connect, of_a: Any, of_b: Any, status: Status, told: list[str]
) -> None:
    verdicts = {"Is it a?": [of_a], "Is it b?": [of_b], "Is it fatal?": [1]}
    async with ScriptedEndpoint(answering(verdicts)) as endpoint:
        judgment = await judged(connect(endpoint, max_retries=0), [A, B, FATAL])
    assert (judgment.status, judgment.score, judgment.label) == (status, None, None)
    assert all(words in judgment.explanation for words in told)
    assert judgment.detail is not None
    assert [each.aspect for each in judgment.detail.aspects] == ["a", "b", "fatal"]
    assert judgment.detail.aspects[2].yes is True
    assert len(judgment.calls) == len(endpoint.requests)
