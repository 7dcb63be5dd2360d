"""Rollouts from llama.cpp's server: the tokens that were sampled, or none; never those of another prompt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvConfig, PolicySettings
from judgegym.environments.rollouts.groups import MissingTokensError, Rollout
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.sources import ChatSource
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Message
from tests.core.environments.llama_server import BOS, EOG, NEUTRAL, LlamaServer, logprob, prompt_ids
from tests.scripted import Json, Recorded, Reply

CHAT, PROMPT = "/v1/chat/completions", ("/apply-template", "/tokenize")


def question(text: str = "Why?") -> list[Message]:
    return [Message(role="user", content=text)]


def numbered(request: Json, number: int, index: int) -> str:
    return f"text {number}.{index}"


@asynccontextmanager
async def source(
    server: LlamaServer,
    settled: Literal["chat", "retokenize"] | None = None,
    extra: Json | None = None,
    **config: Any,
) -> AsyncIterator[ChatSource]:
    env = EnvConfig(retry_delay=0, tokenizer_name=str(BUNDLED_TOKENIZER), **config)
    policy = PolicySettings(
        base_url=server.base_url, extra_body=NEUTRAL if extra is None else extra
    )
    async with ChatClient(policy.chat_settings(env, max_concurrency=64)) as client:
        yield ChatSource(client, env, Retokenizer(env.tokenizer_name), settled=settled)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def check(rollout: Rollout, prompt: list[Message], ids: bytes, *, whole: bool = True) -> None:
    sequence = rollout.sequence
    assert sequence.prompt == tuple(prompt_ids([dict(turn) for turn in prompt]))
    assert sequence.completion == (*ids, *([EOG] if whole else []))
    assert sequence.logprobs == tuple(map(logprob, range(len(sequence.completion))))


@pytest.mark.parametrize("settled", ["chat", None])
async def test_the_tokens_are_the_sampled_ones(
    settled: Literal["chat"] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of the turn among them. A conversation is tokenized once, also for groups that ask at once."""
    async with LlamaServer(numbered) as server, source(server, settled) as asked:
        rollouts, run = await asked.sample(question(), 3)
        groups = await asyncio.gather(
            *(asked.sample(question(text), 3) for text in ("Why?", "How?", "How?"))
        )
        bodies = [request.json for request in server.asked(CHAT)]
        assert [request.path for request in server.asked(*PROMPT)] == [*PROMPT] * 2
    for rollout in [*rollouts, *groups[0][0]]:
        check(rollout, question(), rollout.text.encode())
    for rollout in [*groups[1][0], *groups[2][0]]:
        check(rollout, question("How?"), rollout.text.encode())
    assert len({rollout.text for each, _ in groups for rollout in each}) == 9
    assert [body.get("n", 1) for body in bodies] == [3] + [1] * 9, (
        "what it is is found out by the first answer"
    )
    assert run.attempts == 1
    assert not warnings(caplog)


async def test_tokens_that_it_leaves_out_end_the_sequence(caplog: pytest.LogCaptureFixture) -> None:
    """Of a character in several tokens it gives the last one alone, which was not sampled after the one before."""
    async with (
        LlamaServer(lambda *_: "caf\u00e9 \U0001f9a5!") as server,
        source(server) as asked,
    ):
        first, _ = await asked.sample(question(), 2)
        others, _ = await asked.sample(question(), 2)
    for rollout in [*first, *others]:
        check(rollout, question(), b"caf", whole=False)
        assert rollout.completion.answer == "caf\u00e9 \U0001f9a5!", "the whole text is judged"
    (warning,) = warnings(caplog)
    assert "no ids" in warning and "some tokens" in warning


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"extra_prompt_tokens": 1}, "counted 24 tokens"),
        ({"beside": False}, "no ids"),
    ],
)
async def test_a_prompt_that_is_not_known_for_sure(
    server: Json, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another template or tokenizer than that of the answers, or a proxy that passes on the API alone."""
    async with LlamaServer(numbered, **server) as endpoint:
        async with source(endpoint, "chat") as asked:
            with pytest.raises(MissingTokensError, match=why):
                await asked.sample(question(), 2)
        async with source(endpoint) as asked:
            first, _ = await asked.sample(question(), 2)
            before = len(endpoint.asked(*PROMPT))
            second, _ = await asked.sample(question("How?"), 2)
            assert len(endpoint.asked(*PROMPT)) == before, "it is asked once"
    assert all(rollout.sequence.logprobs is None for rollout in [*first, *second])
    (warning,) = warnings(caplog)
    assert why in warning
    assert "may differ" in warning


async def test_a_server_that_makes_another_prompt_since_it_was_restarted_is_asked_again() -> None:
    class Restarted(LlamaServer):
        def _script(self, request: Recorded, number: int) -> Reply:
            reply = super()._script(request, number)
            if request.path == "/tokenize":
                reply.body["tokens"][:0] = [BOS] * self.extra_prompt_tokens
            return reply

    async with Restarted(numbered) as server, source(server) as asked:
        (first, *_), _ = await asked.sample(question(), 2)
        server.extra_prompt_tokens = 1
        (second, *_), _ = await asked.sample(question(), 2)
        await asked.sample(question(), 2)
        assert len(server.asked("/tokenize")) == 2
    assert second.sequence.prompt == (BOS, *first.sequence.prompt)


@pytest.mark.parametrize(
    ("extra", "temperature", "mends"),
    [
        ({}, 1.0, ['--openai.extra_body=\'{"top_k":0,"top_p":1,"min_p":0}\'']),
        (NEUTRAL, 0.5, ["--env.rollout_temperature=1"]),
        ({**NEUTRAL, "top_p": 0.9, "seed": 1}, 1.0, ['"seed":1}\'', '"top_p":1']),
        (
            {**NEUTRAL, "top_n_sigma": 2, "xtc_probability": 0.1},
            1.0,
            ['"top_n_sigma":-1', '"xtc_probability":0'],
        ),
        (
            {**NEUTRAL, "dry_multiplier": 0.8, "mirostat": 2},
            1.0,
            ['"dry_multiplier":0', '"mirostat":0'],
        ),
        (
            {**NEUTRAL, "presence_penalty": 1, "frequency_penalty": 1},
            1.0,
            ['"presence_penalty":0,"frequency_penalty":0'],
        ),
        ({**NEUTRAL, "grammar": 'root ::= "a"'}, 1.0, ["without grammar"]),
    ],
)
async def test_logprobs_of_another_distribution_are_said_once(
    extra: Json, temperature: float, mends: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        LlamaServer(numbered) as server,
        source(server, extra=extra, rollout_temperature=temperature) as asked,
    ):
        for _ in range(2):
            await asked.sample(question(), 2)
        assert len(server.asked("/props")) == 1
    (warning,) = warnings(caplog)
    assert "ratio is wrong" in warning
    assert all(mend in warning for mend in mends)
