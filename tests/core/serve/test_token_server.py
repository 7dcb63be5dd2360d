"""Atropos' token-level servers, where they do not do what is asked of them."""

from __future__ import annotations

import asyncio

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


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["abort", "empty"])
async def test_completions_that_broke_off_or_are_empty_are_asked_for_again(
    arena: Arena, fault: str
) -> None:
    """The first request gives two that may be used; the second the two that are missing."""

    def script(request: Recorded, number: int) -> Reply:
        reply = generated(4, number)
        if number == 1:
            reply.body["finish_reasons"][:2] = (
                ["abort", "abort"] if fault == "abort" else ["stop", "stop"]
            )
            if fault == "empty":
                reply.body["logprobs"][:2] = [[], []]
        return reply

    server = ScriptedServer(script)
    async with training(4) as trainer, serve(arena, trainer.url, *FLAGS, policy=server) as served:
        (batch,) = await trainer.take()
        assert served.counted("policy_failed") == 0
    assert [len(group["tokens"]) for group in batch] == [4]


async def test_logprobs_that_are_none_are_not_sent(arena: Arena) -> None:
    """Where one is missing, Atropos' server puts the prompt's 1.0; the trainer would take it for a logprob."""
    server = ScriptedServer(
        lambda request, number: generated(4, number, 1.0 if number <= 2 else -1.0)
    )
    async with training(8) as trainer, serve(arena, trainer.url, *FLAGS, policy=server) as served:
        (batch,) = await trainer.take()
        assert served.counted("policy_failed") == 2
    logprobs = {
        each for group in batch for sequence in group["inference_logprobs"] for each in sequence
    }
    assert logprobs == {1.0, -1.0}
    assert len(served.policy.requests) >= 4


@pytest.mark.slow
async def test_a_server_that_fails_for_a_while(
    arena: Arena, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own retries give up, the request is retried, and the run goes on; the log says what the server said."""

    def script(request: Recorded, number: int) -> Reply:
        return Reply(status=500) if number <= 3 else generated(4, number)

    server = ScriptedServer(script)
    async with training(8) as trainer, serve(arena, trainer.url, *FLAGS, policy=server) as served:
        (batch,) = await trainer.take()
        assert served.counted("policy_failed") == 0
    assert {len(group["tokens"]) for group in batch} == {4}
    (said,) = (
        record.getMessage() for record in caplog.records if "is retried" in record.getMessage()
    )
    assert "500" in said
    assert server.url in said


@pytest.mark.slow
async def test_no_group_begins_while_a_server_is_away_whose_deadline_has_passed(
    arena: Arena,
) -> None:
    server = ScriptedServer(
        lambda request, number: Reply(status=500) if number == 1 else generated(4, number)
    )
    flags = *FLAGS, "--env.endpoint_away_deadline=0.1"
    async with training(8) as trainer, serve(arena, trainer.url, *flags, policy=server) as served:
        await server.arrived(2)  # it has answered: from then on it is away, and was not never there
        async with server.away():
            dropped = served.serving.metrics.total_dropped
            await until(lambda: dropped["policy_failed"] > 0, "a group has failed")
            await asyncio.sleep(0.2)  # longer than the pause after a failed group
            assert dropped["policy_failed"] == 1
        (batch,) = await trainer.take()
    assert {len(group["tokens"]) for group in batch} == {4}
