"""Self-critique around every judge: what is asked, what changes, what is kept when a round fails, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.aspects.judge import AspectPanel
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.peers import PeerJudgeSettings, PeerTaskJudge
from judgegym.judges.rubrics.judge import RubricTaskJudge
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings
from tests.peers import REFUSED, scored
from tests.rubrics import rubric_task, weighed
from tests.scripted import Json, Reply, ScriptedEndpoint, in_turn

Connect = Callable[..., Any]
Said = str | Reply


def verdict(yes: int, reason: str = "since") -> str:
    return json.dumps({"reason": reason, "verdict": yes})


@dataclass(frozen=True)
class Kind:
    """A judge, a case for it, and two answers with different verdicts.

    Attributes:
        judge: makes the judge from a client and settings.
        case: the case that it judges.
        first: the answer with the first verdict.
        second: an answer with another verdict.
        scores: the scores of these answers.
        verdicts: the verdicts of these answers, as the history shows them.
        component: the component in the history.
    """

    judge: Callable[..., Any]
    case: Any
    first: str
    second: str
    scores: tuple[float, float]
    verdicts: tuple[Any, Any]
    component: str


KINDS = {
    "peer": Kind(
        lambda client, **settings: PeerTaskJudge(PeerJudgeSettings(**settings), client),
        JudgeTask("Why?", ("Because.",), rubric="Brevity"),
        scored(90, "Brief."),
        scored(70, "Too brief."),
        (90, 70),
        (90, 70),
        "",
    ),
    "rubric": Kind(
        lambda client, **settings: RubricTaskJudge(RubricJudgeSettings(**settings), client),
        rubric_task("Say why.", "Because.", Rubric("Is it good?")),
        "[FEEDBACK] Brief. [SCORE] 5",
        "[FEEDBACK] Too brief. [SCORE] 2",
        (5, 2),
        (5, 2),
        "judgment_1",
    ),
}
KIND = pytest.mark.parametrize(
    "kind", [pytest.param(kind, id=name) for name, kind in KINDS.items()]
)


async def run(
    connect: Connect, kind: Kind, said: Sequence[Said], *, rounds: int
) -> tuple[Judgment[Any], list[Json]]:
    """What a judge says at first and in each round, one after the other; no more is asked than there is."""

    def script(request: Json, number: int) -> Said:
        return said[number - 1]

    async with ScriptedEndpoint(script) as endpoint:
        judge = kind.judge(connect(endpoint), judge_critique_rounds=rounds)
        judgment = await judge.judge(kind.case)
    assert len(endpoint.requests) == len(said)
    return judgment, endpoint.bodies


@KIND
async def test_a_verdict_is_revised(connect: Connect, kind: Kind) -> None:
    critique = "I was too lenient."
    judgment, bodies = await run(
        connect, kind, [kind.first, f"{critique}\n{kind.second}"], rounds=1
    )
    assert (judgment.score, judgment.status) == (kind.scores[1], Status.OK)
    assert "Too brief." in judgment.explanation
    assert judgment.critique is not None
    assert judgment.critique.before_score == kind.scores[0]
    (held,) = judgment.critique.rounds
    assert (held.round, held.component, held.status, held.error) == (
        1,
        kind.component,
        "revised",
        None,
    )
    assert (held.before, held.after) == kind.verdicts
    assert (held.before_reasoning, held.after_reasoning) == ("Brief.", "Too brief.")
    assert (held.critique, held.raw) == (critique, f"{critique}\n{kind.second}")
    assert len(judgment.calls) == 2
    assert judgment.calls[1].name == f"critique_1{'_' if kind.component else ''}{kind.component}"
    asked = bodies[1]["messages"][-1]["content"]
    assert "Because." in asked
    assert "Brief." in asked
    assert "too harsh or " in asked
    assert "lenient" in asked


@KIND
async def test_it_goes_on_as_long_as_it_changes(connect: Connect, kind: Kind) -> None:
    judgment, bodies = await run(
        connect, kind, [kind.first, kind.second, kind.first, kind.second, kind.second], rounds=5
    )
    assert judgment.score == kind.scores[1]
    assert judgment.critique is not None
    assert [each.status for each in judgment.critique.rounds] == [
        "revised",
        "revised",
        "revised",
        "unchanged",
    ]
    assert [each.round for each in judgment.critique.rounds] == [1, 2, 3, 4]
    assert judgment.critique.before_score == kind.scores[0]
    shown = [body["messages"][-1]["content"] for body in bodies[1:]]
    assert ["Too brief." in content for content in shown] == [False, True, False, True]


@KIND
@pytest.mark.parametrize(("failure", "words"), [(REFUSED, "not today"), ("No.", '"No."')])
async def test_a_failed_round_keeps_the_verdict_and_is_tried_again(
    connect: Connect, kind: Kind, failure: Said, words: str
) -> None:
    judgment, _ = await run(connect, kind, [kind.first, failure, kind.second], rounds=2)
    assert judgment.score == kind.scores[1]
    assert judgment.critique is not None
    failed, revised = judgment.critique.rounds
    assert (failed.status, revised.status) == ("failed", "revised")
    assert (failed.before, failed.after) == (kind.verdicts[0], kind.verdicts[0])
    assert words in str(failed.error)
    alone, _ = await run(connect, kind, [kind.first, failure], rounds=1)
    assert (alone.score, alone.status) == (kind.scores[0], Status.OK)


@KIND
async def test_without_a_score_there_is_nothing_to_reconsider(connect: Connect, kind: Kind) -> None:
    async with ScriptedEndpoint("No.") as endpoint:
        judgment = await kind.judge(connect(endpoint), judge_critique_rounds=3).judge(kind.case)
        bare = await kind.judge(connect(endpoint)).judge(kind.case)
    assert (judgment.score, judgment.status, judgment.critique) == (None, Status.UNPARSABLE, None)
    assert len(endpoint.requests) == 2 * len(bare.calls)


async def test_arena_hard_reconsiders_each_game_by_itself(connect: Connect) -> None:
    """The game that stays is not asked about again; the other one is, until it stays."""
    asked: list[str] = []

    def script(request: Json, number: int) -> str:
        content = request["messages"][-1]["content"]
        game = 1 if content.index("MINE") < content.index("BASE") else 2
        if "YOUR PREVIOUS EVALUATION" not in content:
            return "At first. [[A>B]]" if game == 1 else "At first. [[B>A]]"
        asked.append(f"{game}:{content.count('On reflection')}")
        return "I stand by it. [[A>B]]" if game == 1 else "On reflection it is a tie. [[A=B]]"

    async with ScriptedEndpoint(script) as endpoint:
        judge = ArenaTaskJudge(ArenaJudgeSettings(judge_critique_rounds=4), connect(endpoint))
        judgment = await judge.judge(JudgeTask("Why?", ("MINE",), baseline="BASE"))
    assert (judgment.score, judgment.label) == (0.5, "tie")
    assert sorted(asked) == ["1:0", "2:0", "2:1"]
    assert judgment.critique is not None
    assert judgment.critique.before_score == 1.0
    assert [
        (each.round, each.component, each.before, each.after, each.status)
        for each in judgment.critique.rounds
    ] == [
        (1, "game_1", "A>B", "A>B", "unchanged"),
        (1, "game_2", "B>A", "A=B", "revised"),
        (2, "game_2", "A=B", "A=B", "unchanged"),
    ]
    assert judgment.detail is not None
    assert [game.label for game in judgment.detail.games] == ["A>B", "A=B"]


async def test_a_majority_is_reconsidered_in_one_call(connect: Connect) -> None:
    """Three votes, two of them no, are reconsidered in one call that is shown why they said no."""

    def script(request: Json, number: int) -> str:
        content = request["messages"][-1]["content"]
        if "YOUR PREVIOUS EVALUATION" in content:
            assert "reason 1" in content
            assert "reason 2" in content
            return verdict(1, "after all")
        return verdict(int(request["seed"] == 0), f"reason {request['seed']}")

    async with ScriptedEndpoint(script) as endpoint:
        settings = AspectJudgeSettings(
            aspects="coherence", strictness=3, scoring="share", judge_critique_rounds=1
        )
        judge = AspectPanel(settings, connect(endpoint, temperature=0.7))
        judgment = await judge.judge(JudgeTask("", ("Because.",)))
    assert judgment.score == 1
    assert len(endpoint.requests) == 4
    assert judgment.detail is not None
    (detail,) = judgment.detail.aspects
    assert (detail.yes, detail.yes_share, detail.agreement) == (True, 1.0, None)
    assert len(detail.votes) == 3


async def test_probabilities_that_move_are_a_revision(connect: Connect) -> None:
    """The number stays, and what counts does not: the history says so as the score does."""
    script = in_turn(weighed(4, {"4": 0.6, "5": 0.4}), weighed(4, {"4": 0.6, "1": 0.4}))
    async with ScriptedEndpoint(script) as endpoint:
        judge = RubricTaskJudge(
            RubricJudgeSettings(weighting="logprobs", judge_critique_rounds=1), connect(endpoint)
        )
        judgment = await judge.judge(KINDS["rubric"].case)
    assert judgment.critique is not None
    assert (judgment.critique.before_score, judgment.score) == pytest.approx((4.4, 2.8))
    assert [each.status for each in judgment.critique.rounds] == ["revised"]
