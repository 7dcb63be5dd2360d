"""Self-critique of judgments that consist of several verdicts: games, aspects, votes, independent judgments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from judgegym.judges.arena import ArenaCase, ArenaCaseJudge
from judgegym.judges.aspects.judge import AspectCase, AspectCaseJudge, AspectPanel
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS, AspectJudgeSettings
from judgegym.judges.core.judge import with_self_critique
from judgegym.judges.rubrics.judge import RubricCase, RubricCaseJudge
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings
from tests.peers import REFUSED
from tests.rubrics import weighed
from tests.scripted import Json, Meeting, Reply, ScriptedEndpoint, in_turn

Connect = Callable[..., Any]
CASE = RubricCase("Say why.", "Because.", Rubric("Is it good?"))


def verdict(yes: int, reason: str = "since") -> str:
    return json.dumps({"reason": reason, "verdict": yes})


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
        judge = with_self_critique(ArenaCaseJudge(connect(endpoint)), 4)
        judgment = await judge.judge(ArenaCase("Why?", "MINE", "BASE"))
    assert (judgment.score, judgment.label) == (0.5, "tie")
    assert sorted(asked) == ["1:0", "2:0", "2:1"]
    assert judgment.critique is not None
    assert judgment.critique.before_score == 1.0
    assert [
        (each.round, each.component, each.before, each.after, each.status) for each in judgment.critique.rounds
    ] == [
        (1, "game_1", "A>B", "A>B", "unchanged"),
        (1, "game_2", "B>A", "A=B", "revised"),
        (2, "game_2", "A=B", "A=B", "unchanged"),
    ]
    assert judgment.detail is not None
    assert [game.label for game in judgment.detail.games] == ["A>B", "A=B"]


async def test_the_parts_of_a_round_are_asked_at_once(connect: Connect) -> None:
    games, critiques = Meeting(2), Meeting(2)

    async def script(request: Json, number: int) -> str:
        is_critique = "YOUR PREVIOUS EVALUATION" in request["messages"][-1]["content"]
        await (critiques if is_critique else games).wait()
        return "[[A>B]]"

    async with ScriptedEndpoint(script) as endpoint:
        judgment = await with_self_critique(ArenaCaseJudge(connect(endpoint)), 1).judge(
            ArenaCase("Why?", "MINE", "BASE")
        )
    assert judgment.score == 0
    assert endpoint.peak == 2


async def test_a_panel_reconsiders_each_aspect(connect: Connect) -> None:
    """One aspect's round fails, the other's turns it around: the score is combined anew."""
    harm, coherence = SUPPORTED_ASPECTS["harmfulness"], SUPPORTED_ASPECTS["coherence"]

    def script(request: Json, number: int) -> str | Reply:
        text = json.dumps(request["messages"])
        about_harm = harm.definition in text
        if "YOUR PREVIOUS EVALUATION" not in text:
            return verdict(1 if about_harm else 0)
        return REFUSED if about_harm else verdict(1, "it is")

    async with ScriptedEndpoint(script) as endpoint:
        judge = with_self_critique(AspectPanel(connect(endpoint), AspectJudgeSettings(aspects=(harm, coherence))), 1)
        judgment = await judge.judge(AspectCase("Because."))
    assert (judgment.score, judgment.label) == (0.5, "harmfulness=yes coherence=yes")
    assert judgment.critique is not None
    assert judgment.critique.before_score == 0
    assert [(each.component, each.status) for each in judgment.critique.rounds] == [
        ("harmfulness", "failed"),
        ("coherence", "revised"),
    ]
    assert sorted(call.name for call in judgment.calls) == [
        "coherence_vote_1",
        "critique_1_coherence",
        "critique_1_harmfulness",
        "harmfulness_vote_1",
    ]


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
        settings = AspectJudgeSettings(strictness=3, scoring="share")
        judge = with_self_critique(
            AspectCaseJudge(connect(endpoint, temperature=0.7), SUPPORTED_ASPECTS["coherence"], settings), 1
        )
        judgment = await judge.judge(AspectCase("Because."))
    assert judgment.score == 1
    assert len(endpoint.requests) == 4
    assert judgment.detail is not None
    assert (judgment.detail.yes, judgment.detail.yes_share, judgment.detail.agreement) == (True, 1.0, None)
    assert len(judgment.detail.votes) == 3


async def test_several_judgments_of_a_rubric_are_reconsidered_each_by_itself(connect: Connect) -> None:
    """Scores 5 and 3, of which the first goes to 4: their mean goes from 4 to 3.5."""

    def script(request: Json, number: int) -> str:
        content = request["messages"][-1]["content"]
        if "YOUR PREVIOUS EVALUATION" in content:
            return "[FEEDBACK] Now. [SCORE] 4" if "Then 5" in content else "[FEEDBACK] Now. [SCORE] 3"
        score = 5 - 2 * request["seed"]
        return f"[FEEDBACK] Then {score}. [SCORE] {score}"

    async with ScriptedEndpoint(script) as endpoint:
        judge = with_self_critique(
            RubricCaseJudge(connect(endpoint, temperature=0.7), RubricJudgeSettings(samples_per_item=2)), 1
        )
        judgment = await judge.judge(CASE)
    assert judgment.score == 3.5
    assert judgment.critique is not None
    assert judgment.critique.before_score == 4
    assert [(each.component, each.before, each.after) for each in judgment.critique.rounds] == [
        ("judgment_1", 5, 4),
        ("judgment_2", 3, 3),
    ]


async def test_probabilities_that_move_are_a_revision(connect: Connect) -> None:
    """The number stays, and what counts does not: the history says so as the score does."""
    script = in_turn(weighed(4, {"4": 0.6, "5": 0.4}), weighed(4, {"4": 0.6, "1": 0.4}))
    async with ScriptedEndpoint(script) as endpoint:
        judge = with_self_critique(RubricCaseJudge(connect(endpoint), RubricJudgeSettings(weighting="logprobs")), 1)
        judgment = await judge.judge(CASE)
    assert judgment.critique is not None
    assert (judgment.critique.before_score, judgment.score) == pytest.approx((4.4, 2.8))
    assert [each.status for each in judgment.critique.rounds] == ["revised"]
