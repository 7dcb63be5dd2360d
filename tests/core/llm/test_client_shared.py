"""Several completions of one call, and identical calls that share one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from judgegym.llm.errors import EndpointError
from judgegym.llm.usage import Usage
from tests.scripted import Meeting, Reply, ScriptedEndpoint, completion, in_turn

ASK = [{"role": "user", "content": "hi"}]

Connect = Callable[..., Any]


def texts(answer: Any) -> list[str]:
    return [choice.text for choice in answer.choices]


# ---------------------------------------------------------------------------------------------
# several completions


async def test_n_that_is_honoured_is_one_request(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply(body=completion("a", "b", "c"))) as endpoint:
        answer = await connect(endpoint, temperature=1.0).chat(ASK, n=3)
    assert texts(answer) == ["a", "b", "c"]
    assert [body["n"] for body in endpoint.bodies] == [3]
    assert (answer.usage, answer.attempts) == (Usage(10, 5, None), 1)


async def test_n_that_is_answered_in_part_is_made_up_for_and_asked_again(connect: Connect) -> None:
    part, rest = Reply(body=completion("a", "b")), Reply(body=completion("c"))
    async with ScriptedEndpoint(in_turn(part, rest, part, rest)) as endpoint:
        client = connect(endpoint)
        answers = [await client.chat(ASK, n=3) for _ in range(2)]
    assert [texts(answer) for answer in answers] == [["a", "b", "c"]] * 2
    assert [body.get("n") for body in endpoint.bodies] == [3, None, 3, None]


async def test_n_known_to_be_ignored_is_never_sent_and_all_requests_run_at_once(
    connect: Connect,
) -> None:
    meeting = Meeting(4)

    async def script(request: dict[str, Any], number: int) -> str:
        if number > 2:
            await meeting.wait()
        return f"text {number}"

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint)
        await client.chat(ASK, n=2)  # its first response has one choice
        answer = await client.chat(ASK, n=4)
    assert len(set(texts(answer))) == 4
    assert (answer.usage, answer.attempts) == (Usage(40, 20, None), 4)
    assert endpoint.peak == 4
    assert [body.get("n") for body in endpoint.bodies] == [2, None, None, None, None, None]


async def test_more_choices_than_requested_are_cut(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply(body=completion("a", "b", "c"))) as endpoint:
        client = connect(endpoint)
        assert texts(await client.chat(ASK, n=2)) == ["a", "b"]
        assert texts(await client.chat(ASK)) == ["a"]


async def test_a_completion_that_fails_fails_the_call(connect: Connect) -> None:
    wrong = Reply(status=400, body={"error": {"message": "wrong"}})
    async with ScriptedEndpoint(in_turn("a", wrong)) as endpoint:
        client = connect(endpoint)
        with pytest.raises(EndpointError, match="wrong") as failure:
            await client.chat(ASK, n=3)
    assert client.meter.usage == Usage(10, 5, None)
    assert (failure.value.usage, failure.value.attempts) == (Usage(10, 5, None), 3), (
        "what the answered part cost, too"
    )


# ---------------------------------------------------------------------------------------------
# identical calls at once


@pytest.mark.parametrize("temperature", [0.0, 0])
async def test_identical_greedy_calls_at_once_are_one_request(
    connect: Connect, temperature: float
) -> None:
    async with ScriptedEndpoint(Reply(body=completion("fine", "one too many"))) as endpoint:
        client = connect(endpoint, temperature=temperature)
        answers = await asyncio.gather(*(client.chat(ASK) for _ in range(10)))
    assert len(endpoint.requests) == 1
    assert [texts(answer) for answer in answers] == [["fine"]] * 10
    assert (
        sorted((answer.cached, answer.usage.prompt_tokens) for answer in answers)
        == [(False, 10)] + [(True, 0)] * 9
    )
    assert client.meter.usage == Usage(10, 5, None)


async def test_failure_that_identical_calls_share_is_counted_once(connect: Connect) -> None:
    unusable = Reply(
        body={**completion(""), "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
    )
    async with ScriptedEndpoint(unusable) as endpoint:
        client = connect(endpoint, temperature=0.0, max_retries=1)
        failures = await asyncio.gather(
            *(client.chat(ASK) for _ in range(3)), return_exceptions=True
        )
    errors = [failure for failure in failures if isinstance(failure, EndpointError)]
    assert sorted((error.attempts, error.usage.prompt_tokens) for error in errors) == [
        (0, 0),
        (0, 0),
        (2, 20),
    ]


@pytest.mark.parametrize("temperature", [0.2, None])
async def test_concurrent_sampled_calls_share_no_answer(
    connect: Connect, temperature: float | None
) -> None:
    async with ScriptedEndpoint() as endpoint:
        client = connect(endpoint, temperature=temperature)
        answers = await asyncio.gather(*(client.chat(ASK) for _ in range(10)))
    assert len(endpoint.requests) == 10
    assert not any(answer.cached for answer in answers)
