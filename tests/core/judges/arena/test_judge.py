"""The two games of a row: both at once, in both orders, and a score only with both verdicts."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from judgegym.judges import prompts
from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask
from tests.scripted import Meeting, Reply, Script, ScriptedEndpoint, completion

BASELINE = "The baseline's answer."
TASK = JudgeTask("Which is best?", ("The model's answer.",), baseline=BASELINE)
DOWN = Reply(status=400, body={"error": {"message": "no such model"}})

Connect = Callable[..., Any]
Replies = Sequence[Reply | str]


def is_game_1(request: dict[str, Any]) -> bool:
    content = request["messages"][1]["content"]
    return bool(content.index(TASK.response) < content.index(BASELINE))


def games(game_1: Replies, game_2: Replies) -> Script:
    """A judge whose answer depends on the game and on how often it was asked in this conversation."""

    def script(request: dict[str, Any], number: int) -> Reply | str:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        return (game_1 if is_game_1(request) else game_2)[turn]

    return script


@pytest.mark.parametrize(
    ("protocol", "game_1", "game_2", "score", "label", "entries"),
    [
        ("three_way", "A>B", "B>A", 1.0, "win", (1, 1)),
        ("three_way", "A>B", "A>B", 0.0, "tie", (1, 0)),
        ("three_way", "B>A", "A>B", -1.0, "loss", (0, 0)),
        ("arena_hard_v0.1", "A>>B", "B>>A", 1.0, "win", (1, 1, 1, 1, 1, 1)),
    ],
)
async def test_two_verdicts_make_a_score(
    connect: Connect,
    protocol: Any,
    game_1: str,
    game_2: str,
    score: float,
    label: str,
    entries: tuple[float, ...],
) -> None:
    script = games([f"First. [[{game_1}]]"], [f"Second. [[{game_2}]]"])
    async with ScriptedEndpoint(script) as endpoint:
        judgment = await ArenaTaskJudge(
            ArenaJudgeSettings(judge_protocol=protocol), connect(endpoint)
        ).judge(TASK)
    assert (judgment.score, judgment.label, judgment.status) == (score, label, Status.OK)
    assert judgment.detail.entries == entries
    assert [(game.order, game.label, game.error) for game in judgment.detail.games] == [
        ("model_is_a", game_1, None),
        ("model_is_b", game_2, None),
    ]
    assert [game.text for game in judgment.detail.games] == [
        f"First. [[{game_1}]]",
        f"Second. [[{game_2}]]",
    ]
    assert [(call.name, call.value) for call in judgment.calls] == [
        ("game_1", game_1),
        ("game_2", game_2),
    ]
    assert "First." in judgment.explanation and "Second." in judgment.explanation


@pytest.mark.parametrize(
    ("protocol", "prompt"),
    [("three_way", "arena_hard_three_way"), ("arena_hard_v0.1", "arena_hard_v0_1")],
)
async def test_both_orders_are_shown_at_once(connect: Connect, protocol: Any, prompt: str) -> None:
    meeting = Meeting(2)

    async def script(request: dict[str, Any], number: int) -> str:
        await meeting.wait()
        return "[[A=B]]"

    async with ScriptedEndpoint(script) as endpoint:
        await ArenaTaskJudge(ArenaJudgeSettings(judge_protocol=protocol), connect(endpoint)).judge(
            TASK
        )
    assert (endpoint.peak, len(endpoint.requests)) == (2, 2)
    assert sorted(is_game_1(body) for body in endpoint.bodies) == [False, True]
    assert {body["messages"][0]["content"] for body in endpoint.bodies} == {prompts.load(prompt)}


async def test_the_order_of_arrival_does_not_matter(connect: Connect) -> None:
    game_2_answered = asyncio.Event()

    async def script(request: dict[str, Any], number: int) -> str:
        if is_game_1(request):
            await game_2_answered.wait()
            return "[[A>B]]"
        game_2_answered.set()
        return "[[A=B]]"

    async with ScriptedEndpoint(script) as endpoint:
        judgment = await ArenaTaskJudge(ArenaJudgeSettings(), connect(endpoint)).judge(TASK)
    assert [(call.name, call.value) for call in judgment.calls] == [
        ("game_1", "A>B"),
        ("game_2", "A=B"),
    ]
    assert judgment.detail.entries == (1.0, 0.5)


async def test_reasoning_apart_from_the_text_is_kept_and_not_read(connect: Connect) -> None:
    reply = Reply(body=completion("[[B>A]]", reasoning_content="Is it [[A>B]]?"))
    async with ScriptedEndpoint(reply) as endpoint:
        judgment = await ArenaTaskJudge(ArenaJudgeSettings(), connect(endpoint)).judge(TASK)
    assert [(game.label, game.reasoning) for game in judgment.detail.games] == [
        ("B>A", "Is it [[A>B]]?")
    ] * 2


@pytest.mark.parametrize(
    ("bad", "status"), [("a tie", Status.UNPARSABLE), (DOWN, Status.JUDGE_FAILED)]
)
@pytest.mark.parametrize("bad_game", [0, 1])
async def test_one_verdict_is_not_enough(
    connect: Connect, bad: Reply | str, status: Status, bad_game: int
) -> None:
    replies: list[Replies] = [["[[A>B]]"], ["[[A>B]]"]]
    replies[bad_game] = [bad]
    async with ScriptedEndpoint(games(*replies)) as endpoint:
        judgment = await ArenaTaskJudge(ArenaJudgeSettings(judge_reask=0), connect(endpoint)).judge(
            TASK
        )
    assert (judgment.score, judgment.status, judgment.label) == (None, status, None)
    assert judgment.detail.entries == ()
    assert judgment.detail.games[bad_game].label is None and judgment.detail.games[bad_game].error
    assert judgment.detail.games[1 - bad_game].label == "A>B"
    assert ("model_is_a" in judgment.explanation) == (bad_game == 0)
    assert ("model_is_b" in judgment.explanation) == (bad_game == 1)
