"""A judge that gave no verdict is asked, in the same conversation, to finish with one."""

from collections.abc import Callable
from typing import Any

import pytest

from judgegym.judges import prompts
from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge, game_prompt
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask
from tests.scripted import Reply, ScriptedEndpoint

BASELINE = "The baseline's answer."
TASK = JudgeTask("Which is best?", ("The model's answer.",), baseline=BASELINE)
GAME_1 = game_prompt(TASK.prompt, TASK.response, BASELINE, protocol="three_way").messages
REASK = {"role": "user", "content": prompts.load("arena_hard_reask")}

Connect = Callable[..., Any]


def talk(*game_1: Reply | str) -> Callable[[dict[str, Any], int], Reply | str]:
    """A judge that says these things in turn in game 1, and gives its verdict at once in game 2."""

    def script(request: dict[str, Any], number: int) -> Reply | str:
        if request["messages"][1] != GAME_1[1]:
            return "[[B>A]]"
        return game_1[(len(request["messages"]) - 2) // 2]

    return script


def conversations(endpoint: ScriptedEndpoint) -> list[list[dict[str, str]]]:
    """The messages of game 1, request after request."""
    return [body["messages"] for body in endpoint.bodies if body["messages"][1] == GAME_1[1]]


async def test_the_second_turn_continues_the_first(connect: Connect) -> None:
    async with ScriptedEndpoint(talk("Both are fine.", "[[A>B]]")) as endpoint:
        judgment = await ArenaTaskJudge(ArenaJudgeSettings(), connect(endpoint)).judge(TASK)
    said = {"role": "assistant", "content": "Both are fine."}
    assert conversations(endpoint) == [GAME_1, [*GAME_1, said, REASK]]
    assert (judgment.score, judgment.status) == (1.0, Status.OK)
    game = judgment.detail.games[0]
    assert (game.label, game.text, game.earlier_texts, game.error) == (
        "A>B",
        "[[A>B]]",
        ("Both are fine.",),
        None,
    )
    assert [(call.name, call.text, call.value) for call in judgment.calls] == [
        ("game_1", "Both are fine.", None),
        ("game_1_reask_1", "[[A>B]]", "A>B"),
        ("game_2", "[[B>A]]", "B>A"),
    ]


@pytest.mark.parametrize("reask", [0, 1, 3])
async def test_asked_at_most_so_often(connect: Connect, reask: int) -> None:
    texts = [f"Thought {turn}." for turn in range(5)]
    async with ScriptedEndpoint(talk(*texts)) as endpoint:
        judgment = await ArenaTaskJudge(
            ArenaJudgeSettings(judge_reask=reask), connect(endpoint)
        ).judge(TASK)
    assert (judgment.score, judgment.status) == (None, Status.UNPARSABLE)
    assert [len(messages) for messages in conversations(endpoint)] == [
        2 + 2 * turn for turn in range(reask + 1)
    ]
    spoken = [
        message["content"]
        for message in conversations(endpoint)[-1]
        if message["role"] == "assistant"
    ]
    assert spoken == texts[:reask]
    game = judgment.detail.games[0]
    assert (game.label, game.text, game.earlier_texts) == (None, texts[reask], tuple(texts[:reask]))
    assert [call.name for call in judgment.calls] == [
        "game_1",
        *(f"game_1_reask_{turn}" for turn in range(1, reask + 1)),
        "game_2",
    ]


async def test_a_judge_that_fails_when_asked_again_has_failed(connect: Connect) -> None:
    down = Reply(status=400, body={"error": {"message": "context too long"}})
    async with ScriptedEndpoint(talk("Both are fine.", down)) as endpoint:
        judgment = await ArenaTaskJudge(ArenaJudgeSettings(), connect(endpoint)).judge(TASK)
    assert (judgment.score, judgment.status) == (None, Status.JUDGE_FAILED)
    game = judgment.detail.games[0]
    assert (game.text, game.earlier_texts, game.label) == ("Both are fine.", (), None)
    assert "context too long" in judgment.explanation
