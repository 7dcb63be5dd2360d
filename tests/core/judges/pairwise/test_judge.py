"""The choice judge: one call for all answers, its letter, and a letter that it revises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.pairwise import (
    ChoiceDetail,
    ChoiceJudgeSettings,
    ChoiceTaskJudge,
    choice_prompt,
)
from tests.scripted import Reply, ScriptedEndpoint, completion, in_turn

TASK = JudgeTask("Why?", ("Because.", "So.", "Dunno."))
DOWN = Reply(status=400, body={"error": {"message": "no such model"}})

Connect = Callable[..., Any]


async def test_the_letter_names_the_best_answer(connect: Connect) -> None:
    async with ScriptedEndpoint("Not [[A]]. [[C]]") as endpoint:
        judgment = await ChoiceTaskJudge(ChoiceJudgeSettings(), connect(endpoint)).judge(TASK)
    assert (judgment.score, judgment.label, judgment.status) == (2.0, "C", Status.OK)
    assert judgment.detail == ChoiceDetail(2, "Not [[A]]. [[C]]")
    assert [(call.name, call.value) for call in judgment.calls] == [("choice", "C")]
    assert [body["messages"] for body in endpoint.bodies] == [
        choice_prompt(TASK.prompt, TASK.responses).messages
    ]


@pytest.mark.parametrize(
    ("reply", "status", "words"),
    [
        ("[[D]]", Status.UNPARSABLE, "no verdict"),
        (Reply(body=completion("[[A]]", finish_reason="length")), Status.UNPARSABLE, "cut off"),
        (DOWN, Status.JUDGE_FAILED, "no such model"),
    ],
)
async def test_no_letter_of_those_shown_is_no_verdict(
    connect: Connect, reply: Reply | str, status: Status, words: str
) -> None:
    async with ScriptedEndpoint(reply) as endpoint:
        judgment = await ChoiceTaskJudge(ChoiceJudgeSettings(), connect(endpoint)).judge(TASK)
    assert (judgment.score, judgment.label, judgment.status) == (None, None, status)
    assert judgment.detail is not None and judgment.detail.best is None
    assert words in judgment.explanation


async def test_a_letter_is_revised(connect: Connect) -> None:
    settings = ChoiceJudgeSettings(judge_critique_rounds=1)
    async with ScriptedEndpoint(in_turn("Brief. [[A]]", "Too brief. [[B]]")) as endpoint:
        judgment = await ChoiceTaskJudge(settings, connect(endpoint)).judge(TASK)
    assert (judgment.score, judgment.label, judgment.explanation) == (1.0, "B", "Too brief. [[B]]")
    assert judgment.critique is not None
    assert [(held.before, held.after, held.status) for held in judgment.critique.rounds] == [
        ("A", "B", "revised")
    ]
    assert judgment.critique.before_score == 0.0
    assert "Brief. [[A]]" in endpoint.bodies[1]["messages"][-1]["content"]
