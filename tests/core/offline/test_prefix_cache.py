"""The stand-in tells how much of a prompt it has seen before, if it is asked to."""

from typing import Any

import aiohttp

from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.config.judge import PromptLayout
from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm.client import ChatClient
from judgegym.offline.server import BLOCK_TOKENS
from tests.core.offline.server import serving

BLOCK = 4 * BLOCK_TOKENS
TEXT = "".join(chr(ord("a") + number % 26) for number in range(10 * BLOCK))


async def test_answers_tell_of_it_only_if_they_are_to() -> None:
    async def usages(**settings: Any) -> list[Any]:
        body = {"model": "m", "messages": [{"role": "user", "content": TEXT}]}
        async with serving(**settings) as root, aiohttp.ClientSession() as session:
            answers = [
                await session.post(f"{root}/v1/chat/completions", json=body) for _ in range(2)
            ]
            return [(await answer.json())["usage"] for answer in answers]

    assert [
        usage["prompt_tokens_details"]["cached_tokens"] for usage in await usages(prefix_cache=True)
    ] == [0, 160]
    assert not any("prompt_tokens_details" in usage for usage in await usages())


async def test_a_group_takes_more_from_the_cache_with_what_it_shares_first() -> None:
    async def cached(layout: PromptLayout) -> int:
        async with serving(prefix_cache=True) as root:
            settings = ArenaJudgeSettings(judge_base_url=f"{root}/v1", judge_prompt_layout=layout)
            async with ChatClient(settings.chat_settings()) as client:
                for number in range(3):
                    answer, baseline = f"Number {number} says so.", "A long baseline. " * 40
                    task = JudgeTask("Why is the sky blue?", (answer,), baseline=baseline)
                    assert (await ArenaTaskJudge(settings, client).judge(task)).score is not None
                return client.meter.usage.cached_prompt_tokens

    published, shared_first = await cached("published"), await cached("shared_first")
    assert published > 0
    assert shared_first > published + 2 * 150, (
        "the second and the third answer meet the baseline in both games"
    )
