"""The stand-in tells how much of a prompt it has seen before, if it is asked to."""

from typing import Any

import aiohttp
import pytest

from judgegym.judges.arena import ArenaCase, ArenaCaseJudge, ArenaJudgeSettings
from judgegym.judges.config.judge import PromptLayout
from judgegym.llm.client import ChatClient
from judgegym.offline.request import RequestMessage
from judgegym.offline.server import BLOCK_TOKENS, PrefixCache
from tests.core.offline.server import serving

BLOCK = 4 * BLOCK_TOKENS
TEXT = "".join(chr(ord("a") + number % 26) for number in range(10 * BLOCK))


def prompt(text: str) -> list[RequestMessage]:
    return [RequestMessage("user", text)]


def test_tokens_that_prompts_begin_with_alike_are_counted_in_whole_blocks() -> None:
    cache = PrefixCache()
    assert cache.cached_tokens(prompt(TEXT)) == 0
    whole = cache.cached_tokens(prompt(TEXT))
    assert whole == 10 * BLOCK_TOKENS
    half = f"{TEXT[: 5 * BLOCK]}{'!' * 5 * BLOCK}"
    assert cache.cached_tokens(prompt(half)) == 5 * BLOCK_TOKENS
    assert cache.cached_tokens(prompt(half)) == whole
    assert cache.cached_tokens(prompt(f"!{TEXT}")) == 0, "the same blocks after another beginning are others"
    assert cache.cached_tokens([RequestMessage("system", "Be."), *prompt(TEXT)]) == 0


def test_prompts_of_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judgegym.offline.server._BLOCKS_KEPT", 12)
    cache = PrefixCache()
    cache.cached_tokens(prompt(TEXT))
    cache.cached_tokens(prompt(f"!{TEXT}"))
    assert cache.cached_tokens(prompt(TEXT)) == 0


async def test_answers_tell_of_it_only_if_they_are_to() -> None:
    async def usages(**settings: Any) -> list[Any]:
        body = {"model": "m", "messages": [{"role": "user", "content": TEXT}]}
        async with serving(**settings) as root, aiohttp.ClientSession() as session:
            answers = [await session.post(f"{root}/v1/chat/completions", json=body) for _ in range(2)]
            return [(await answer.json())["usage"] for answer in answers]

    assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in await usages(prefix_cache=True)] == [0, 160]
    assert not any("prompt_tokens_details" in usage for usage in await usages())


async def test_a_group_takes_more_from_the_cache_with_what_it_shares_first() -> None:
    async def cached(layout: PromptLayout) -> int:
        async with serving(prefix_cache=True) as root:
            settings = ArenaJudgeSettings(judge_base_url=f"{root}/v1", judge_prompt_layout=layout)
            async with ChatClient(settings.chat_settings()) as client:
                for number in range(3):
                    case = ArenaCase("Why is the sky blue?", f"Number {number} says so.", "A long baseline. " * 40)
                    assert (await ArenaCaseJudge(settings, client).judge(case)).score is not None
                return client.meter.usage.cached_prompt_tokens

    published, shared_first = await cached("published"), await cached("shared_first")
    assert published > 0
    assert shared_first > published + 2 * 150, "the second and the third answer meet the baseline in both games"
