from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from judgegym.engine.completions import Policy
from judgegym.engine.settings import PolicySettings
from judgegym.eval_environments.arena.environment import ArenaHardConfig
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.llm.wire import Message
from tests.scripted import Reply, Script, ScriptedEndpoint, completion, in_turn

CONVERSATION = [Message(role="system", content="S"), Message(role="user", content="Why?")]
LONG = "an answer that is long enough"
Asking = Callable[..., AbstractAsyncContextManager[tuple[Policy, ScriptedEndpoint]]]


@pytest.fixture
def asking() -> Asking:
    """A policy at a scripted endpoint."""

    @asynccontextmanager
    async def ask(
        script: Script | Reply | str, **fields: Any
    ) -> AsyncIterator[tuple[Policy, ScriptedEndpoint]]:
        config = ArenaHardConfig(retry_delay=0.0, **fields)
        async with ScriptedEndpoint(script) as endpoint:
            server = PolicySettings(
                base_url=endpoint.base_url, model_name="m", price={"input": 0, "output": 1_000_000}
            )
            async with ChatClient(server.chat_settings(config, max_concurrency=8)) as client:
                yield Policy(client, config), endpoint

    return ask


async def test_what_comes_back(asking: Asking) -> None:
    reply = Reply(
        body=completion(LONG, finish_reason="length", prompt_tokens=11, completion_tokens=3)
    )
    async with asking(reply) as (policy, _):
        found, run = await policy.complete(CONVERSATION)
    assert (found.answer, found.finish_reason, found.short) == (LONG, "length", False)
    assert (run.attempts, run.usage.prompt_tokens, run.usage.completion_tokens, run.usage.cost) == (
        1,
        11,
        3,
        3.0,
    )
    assert run.latency_s > 0


@pytest.mark.parametrize(
    ("replies", "retries", "answer", "requests"),
    [
        (["no", LONG], 3, LONG, 2),
        (["no", "nope", "never"], 2, "never", 3),
        (["no", LONG], 0, "no", 1),
        (["", LONG], 3, LONG, 2),
        ([Reply(status=500, body={}), "no", LONG], 3, LONG, 3),
    ],
)
async def test_short_answers_are_asked_for_again(
    asking: Asking, replies: list[Any], retries: int, answer: str, requests: int
) -> None:
    async with asking(in_turn(*replies), short_answer_retries=retries) as (policy, endpoint):
        found, run = await policy.complete(CONVERSATION)
    assert found.answer == answer
    assert found.short is (answer != LONG)
    assert len(endpoint.requests) == run.attempts == requests


async def test_usage_is_that_of_all_answers(asking: Asking) -> None:
    async with asking(in_turn("no", "nope", LONG)) as (policy, _):
        _, run = await policy.complete(CONVERSATION)
    assert (run.usage.prompt_tokens, run.usage.completion_tokens, run.usage.cost) == (30, 15, 15.0)


@pytest.mark.parametrize("retries", [0, 2])
async def test_nothing_but_silence_is_a_failed_call(asking: Asking, retries: int) -> None:
    """One request and `max_retries` more, not a retry within a retry; and what was paid is counted."""
    async with asking("", max_retries=retries) as (policy, endpoint):
        with pytest.raises(EndpointError) as caught:
            await policy.complete(CONVERSATION)
    assert (caught.value.kind, caught.value.attempts) == (FailureKind.BROKEN, retries + 1)
    assert len(endpoint.requests) == retries + 1
    assert caught.value.usage.completion_tokens == 5 * (retries + 1)


@pytest.mark.parametrize(
    "body",
    [completion("no", finish_reason="length"), completion("no", finish_reason="content_filter")],
)
async def test_short_answer_that_was_cut_off_or_refused_is_not_asked_for_again(
    asking: Asking, body: Any
) -> None:
    async with asking(Reply(body=body)) as (policy, endpoint):
        found, _ = await policy.complete(CONVERSATION)
    assert (found.answer, found.short, len(endpoint.requests)) == ("no", True, 1)


async def test_a_short_answer_is_not_lost_when_the_endpoint_fails_afterwards(
    asking: Asking,
) -> None:
    """It was given and paid for; asking again is a favour."""
    async with asking(in_turn("no", Reply(status=400, body={})), max_retries=2) as (
        policy,
        endpoint,
    ):
        found, run = await policy.complete(CONVERSATION)
    assert (found.answer, found.short) == ("no", True)
    assert len(endpoint.requests) == run.attempts == 2


@pytest.mark.parametrize("takes_n", [True, False])
async def test_several_completions_count_each_by_itself(asking: Asking, takes_n: bool) -> None:
    def script(request: dict[str, Any], number: int) -> Reply:
        texts = [
            f"{LONG} {number}.{choice}" for choice in range(request.get("n", 1) if takes_n else 1)
        ]
        return Reply(body=completion(*texts, completion_tokens=len(texts)))

    async with asking(script) as (policy, endpoint):
        found = await policy.sample(CONVERSATION, 3)
    assert len(endpoint.requests) == (1 if takes_n else 3)
    assert [
        each.completion is not None and each.completion.answer.startswith(LONG) for each in found
    ] == [True] * 3
    assert len({each.completion.answer for each in found if each.completion}) == 3
    assert [each.run is not None for each in found] == (
        [True, False, False] if takes_n else [True] * 3
    )
    assert sum(each.run.usage.completion_tokens for each in found if each.run) == 3


async def test_one_of_several_that_fails_leaves_the_others(asking: Asking) -> None:
    def script(request: dict[str, Any], number: int) -> Reply | str:
        return (
            Reply(status=400, body={"error": {"message": "no"}})
            if number == 2
            else f"{LONG} {number}"
        )

    async with asking(script) as (policy, _):
        found = await policy.sample(CONVERSATION, 4)
    assert [each.completion is None for each in found].count(True) == 1
    (failed,) = [each for each in found if each.completion is None]
    assert found[0].completion is not None
    assert failed.error is not None
    assert "last answer: no" in str(failed.error)
    assert failed.run is not None
    assert failed.run.attempts == 1


async def test_a_request_that_fails_fails_all_that_it_asks_for(asking: Asking) -> None:
    async with asking(Reply(status=401, body={"error": {"message": "key"}})) as (policy, endpoint):
        found = await policy.sample(CONVERSATION, 3)
    assert len({str(each.error) for each in found}) == 1
    assert [each.run.attempts if each.run else 0 for each in found] == [1, 0, 0]
    assert len(endpoint.requests) == 1


async def test_each_short_answer_of_several_is_asked_for_again(asking: Asking) -> None:
    def script(request: dict[str, Any], number: int) -> Reply:
        return Reply(
            body=completion(*(["no", LONG, "nope"] if number == 1 else [f"{LONG} {number}"]))
        )

    async with asking(script) as (policy, endpoint):
        found = await policy.sample(CONVERSATION, 3)
    assert sorted(each.completion.answer for each in found if each.completion) == [
        LONG,
        f"{LONG} 2",
        f"{LONG} 3",
    ]
    assert len(endpoint.requests) == 3
