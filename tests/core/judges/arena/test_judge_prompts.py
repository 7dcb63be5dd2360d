"""What the judge is shown: the published layout, and sections that no text can end."""

from collections.abc import Callable
from typing import Any

import pytest

from judgegym.judges import prompts
from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge, game_prompt
from judgegym.judges.core.tasks import JudgeTask
from tests.scripted import ScriptedEndpoint


@pytest.mark.parametrize(
    ("protocol", "prompt"),
    [("three_way", "arena_hard_three_way"), ("arena_hard_v0.1", "arena_hard_v0_1")],
)
def test_harmless_texts_are_shown_in_the_published_layout(protocol: Any, prompt: str) -> None:
    system, user = game_prompt(
        "What is 1 < 2?", "True.", "It is [[x]] {y}.", protocol=protocol
    ).messages
    assert system == {"role": "system", "content": prompts.load(prompt)}
    assert user == {
        "role": "user",
        "content": (
            "<|User Prompt|>\nWhat is 1 < 2?\n\n"
            "<|The Start of Assistant A's Answer|>\nTrue.\n<|The End of Assistant A's Answer|>\n\n"
            "<|The Start of Assistant B's Answer|>\nIt is [[x]] {y}.\n<|The End of Assistant B's "
            "Answer|>"
        ),
    }


async def test_a_system_prompt_replaces_the_built_in_one_byte_for_byte(
    connect: Callable[..., Any],
) -> None:
    settings = ArenaJudgeSettings(judge_system_prompt="As published.\r\n", judge_critique_rounds=1)
    async with ScriptedEndpoint("[[A=B]]") as endpoint:
        await ArenaTaskJudge(settings, connect(endpoint)).judge(
            JudgeTask("Why?", ("Because.",), baseline="So.")
        )
    assert [body["messages"][0]["content"] for body in endpoint.bodies] == ["As published.\r\n"] * 4
    user = game_prompt("Why?", "Because.", "So.", protocol="three_way").messages[1]
    assert user in [body["messages"][1] for body in endpoint.bodies]
