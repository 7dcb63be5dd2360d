"""One peer: what it is shown, what becomes of its answer, and what it is shown when it reconsiders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.scores import ScoreObject
from judgegym.judges.peers import (
    DEFAULT_RUBRIC,
    PeerJudgeSettings,
    PeerTaskJudge,
    peer_prompt,
)
from tests.peers import REFUSED, scored
from tests.scripted import Reply, Script, ScriptedEndpoint, completion

Connect = Callable[..., Any]
TASK = "Evaluate a candidate's response to a query by the rubric below.\n\nInstructions:\n\n"
SHOWN = (
    "RUBRIC:\nBrevity (100 points)\n\nQUERY:\nWhy?\n\nCANDIDATE RESPONSE:\nBecause.\nEND OF "
    "CANDIDATE RESPONSE:"
)
FORM = '{"reasoning": "<one-sentence justification referencing rubric>", "score": <integer 0-100>}'


def content(*texts: str, previous: ScoreObject | None = None) -> str:
    (message,) = peer_prompt(*texts, previous=previous).messages
    assert message["role"] == "user"
    return message["content"]


def test_the_prompt() -> None:
    shown = content("Why?", "Because.", "Brevity (100 points)")
    assert shown.startswith(TASK)
    assert FORM in shown
    assert shown.endswith(f"\n\nApply the rubric strictly.\n\n{SHOWN}"), (
        "what G responses share comes first"
    )


def test_correctness_is_emphasised_where_the_rubric_has_it() -> None:
    emphasis = " Correctness & Accuracy has the highest impact on the overall score."
    assert f"\n\nApply the rubric strictly.{emphasis}\n\nRUBRIC:\n" in content(
        "Why?", "Because.", DEFAULT_RUBRIC
    )
    before = ScoreObject(50, "since")
    assert content("Why?", "Because.", DEFAULT_RUBRIC, previous=before).endswith(emphasis)
    assert emphasis not in content("Why?", "Because.", "Brevity", previous=before)


def test_placeholders_in_a_text_stay_text() -> None:
    shown = content("{response}", "{score} {emphasis} {query}", "{rubric} {evaluation}")
    assert "QUERY:\n{response}\n" in shown
    assert shown.endswith(
        "CANDIDATE RESPONSE:\n{score} {emphasis} {query}\nEND OF CANDIDATE RESPONSE:"
    )
    assert "RUBRIC:\n{rubric} {evaluation}\n" in shown


async def judged(
    connect: Connect, script: Script | Reply | str, **settings: Any
) -> tuple[Any, ScriptedEndpoint]:
    async with ScriptedEndpoint(script) as endpoint:
        judge = PeerTaskJudge(PeerJudgeSettings(), connect(endpoint, **settings))
        return await judge.judge(
            JudgeTask("Why?", ("Because.",), rubric="Brevity (100 points)")
        ), endpoint


async def test_a_score(connect: Connect) -> None:
    judgment, endpoint = await judged(connect, f"Let me see.\n{scored('85/100', 'Brief.')}")
    assert (judgment.score, judgment.status, judgment.label, judgment.explanation) == (
        85.0,
        Status.OK,
        "85",
        "Brief.",
    )
    assert judgment.detail.text.startswith("Let me see.")
    assert [call.name for call in judgment.calls] == ["score"]
    assert judgment.critique is None
    assert endpoint.bodies[0]["messages"][0]["content"].endswith(SHOWN)


@pytest.mark.parametrize(
    ("reply", "status", "words"),
    [
        (REFUSED, Status.JUDGE_FAILED, "not today"),
        ("No.", Status.UNPARSABLE, "no verdict"),
        (scored(150), Status.UNPARSABLE, "no verdict"),
        (Reply(body=completion(scored(85), finish_reason="length")), Status.UNPARSABLE, "cut off"),
        (Reply(body=completion(None, refusal="I must not.")), Status.UNPARSABLE, "I must not."),
    ],
)
async def test_no_score(connect: Connect, reply: Reply | str, status: Status, words: str) -> None:
    judgment, _ = await judged(connect, reply)
    assert (judgment.score, judgment.status) == (None, status)
    assert words in judgment.explanation


async def test_a_system_prompt_replaces_the_instructions_and_not_those_of_a_critique(
    connect: Connect,
) -> None:
    settings = PeerJudgeSettings(judge_system_prompt="Score it.\n", judge_critique_rounds=1)
    async with ScriptedEndpoint(scored(85)) as endpoint:
        await PeerTaskJudge(settings, connect(endpoint)).judge(
            JudgeTask("Why?", ("Because.",), rubric="Brevity")
        )
    first, critique = (body["messages"] for body in endpoint.bodies)
    assert [first[0], critique[0]] == [{"role": "system", "content": "Score it.\n"}] * 2
    assert (
        first[1]["content"]
        == "RUBRIC:\nBrevity\n\nQUERY:\nWhy?\n\nCANDIDATE RESPONSE:\nBecause.\nEND OF CANDIDATE "
        "RESPONSE:"
    )
    assert (
        critique[1]
        == peer_prompt(
            "Why?", "Because.", "Brevity", previous=ScoreObject(85, "So it seems.")
        ).messages[0]
    )
