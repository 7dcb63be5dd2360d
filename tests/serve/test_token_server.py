"""Atropos' token-level servers, where they do not do what is asked of them."""

from __future__ import annotations

import pytest

from tests.arena import Arena
from tests.scripted import Recorded, Reply
from tests.serving import serve
from tests.trainer import ScriptedServer, training, until

FLAGS = "--openai.server_type=vllm", "--env.max_num_workers=1", "--env.max_batches_offpolicy=1"


def generated(count: int, number: int, logprob: float = -1.0) -> Reply:
    """Completions as `POST /generate` gives them; each says that it is the first of its group or another."""
    texts = [f"ANSWER {index} of request {number}" for index in range(count)]
    entries = [[[{str(byte): logprob}] for byte in text.encode()] for text in texts]
    return Reply(body={"logprobs": entries, "finish_reasons": ["stop"] * count})


async def test_fewer_completions_than_asked_for_are_no_group(arena: Arena) -> None:
    """They are asked for again, or the group is given up; a group of one has no advantage."""
    flags = *FLAGS, "--env.ensure_scores_are_not_same=False"
    server = ScriptedServer(lambda request, number: generated(1, number))
    async with training(8) as trainer, serve(arena, trainer.url, *flags, policy=server) as served:

        async def settled() -> bool:
            return await trainer.poll() is not None or served.counted("policy_failed") > 0

        await until(settled, "the group is sent or given up")
    assert {len(group["tokens"]) for batch in trainer.batches for group in batch} <= {4}


async def test_logprobs_that_are_none_are_not_sent(arena: Arena) -> None:
    """Where one is missing, Atropos' server puts the prompt's 1.0; the trainer would take it for a logprob."""
    server = ScriptedServer(lambda request, number: generated(4, number, 1.0 if number <= 2 else -1.0))
    async with training(8) as trainer, serve(arena, trainer.url, *FLAGS, policy=server) as served:
        (batch,) = await trainer.take()
        assert served.counted("policy_failed") == 2
    logprobs = {each for group in batch for sequence in group["inference_logprobs"] for each in sequence}
    assert logprobs == {1.0, -1.0}
    assert len(served.policy.requests) >= 4


async def test_a_server_that_fails_for_a_while(arena: Arena, caplog: pytest.LogCaptureFixture) -> None:
    """Its own retries give up, the row is retried, and the run goes on; the log says what the server said."""

    def script(request: Recorded, number: int) -> Reply:
        return Reply(status=500) if number <= 3 else generated(4, number)

    server = ScriptedServer(script)
    async with training(8) as trainer, serve(arena, trainer.url, *FLAGS, policy=server) as served:
        (batch,) = await trainer.take()
        assert served.counted("policy_failed") == 0
    assert {len(group["tokens"]) for group in batch} == {4}
    (said,) = (record.getMessage() for record in caplog.records if "is retried" in record.getMessage())
    assert "500" in said
    assert server.url in said
