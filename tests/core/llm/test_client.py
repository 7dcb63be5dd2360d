"""What is asked, what comes back, what it cost."""

from collections.abc import Callable
from typing import Any

import pytest

from judgegym.llm.client import ChatClient, ChatSettings
from judgegym.llm.errors import EndpointError
from judgegym.llm.usage import Meter, Prices, Usage
from tests.scripted import Reply, ScriptedEndpoint, completion, in_turn

ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi {x}"}]

Connect = Callable[..., Any]


def test_client_without_an_endpoint_is_refused() -> None:
    with pytest.raises(ValueError, match="endpoint"):
        ChatClient(ChatSettings(endpoints=()))


@pytest.mark.parametrize(
    ("settings", "call", "parameters"),
    [
        ({}, {}, {}),
        ({"temperature": 0.2, "max_tokens": 4096}, {}, {"temperature": 0.2, "max_tokens": 4096}),
        ({"temperature": 0.0, "max_tokens": 0}, {}, {"temperature": 0.0}),
        ({"max_tokens": 10}, {"max_tokens": 5}, {"max_tokens": 5}),
        ({"temperature": 0.2, "max_tokens": 10}, {"temperature": None, "max_tokens": 0}, {}),
        (
            {"extra_body": {"top_p": 0.9}},
            {"extra": {"top_p": 0.5, "seed": 1}},
            {"top_p": 0.5, "seed": 1},
        ),
        ({"temperature": 0.2}, {"vote": 3}, {"temperature": 0.2}),
        ({}, {"seed": 0}, {"seed": 0}),
        ({"extra_body": {"seed": 1}}, {"seed": 7, "extra": {"seed": 2}}, {"seed": 7}),
    ],
)
async def test_the_body_is_what_was_asked_for_and_nothing_else(
    connect: Connect, settings: dict[str, Any], call: dict[str, Any], parameters: dict[str, Any]
) -> None:
    async with ScriptedEndpoint() as endpoint:
        await connect(endpoint, **settings).chat(ASK, **call)
    assert endpoint.bodies == [{"model": "judge-model", "messages": ASK, **parameters}]
    assert list(endpoint.bodies[0])[:2] == ["model", "messages"]


@pytest.mark.parametrize(("key", "header"), [(None, None), ("sk-secret", "Bearer sk-secret")])
async def test_request_sends_key_and_content_type(
    connect: Connect, key: str | None, header: str | None
) -> None:
    async with ScriptedEndpoint() as endpoint:
        await connect(endpoint, key=key).chat(ASK)
    headers = endpoint.requests[0].headers
    assert headers.get("Authorization") == header
    assert headers["Content-Type"] == "application/json"


async def test_lone_surrogates_are_replaced_on_the_wire(connect: Connect) -> None:
    async with ScriptedEndpoint() as endpoint:
        await connect(endpoint).chat([{"role": "user", "content": "a\ud800é\x00<|im_end|>"}])
    assert endpoint.bodies[0]["messages"][0]["content"] == "a�é\x00<|im_end|>"


async def test_usage_of_each_answer_is_priced_and_summed(connect: Connect) -> None:
    body = completion("yes", prompt_tokens=1000, completion_tokens=200)
    async with ScriptedEndpoint(Reply(body=body)) as endpoint:
        client = connect(endpoint, prices=Prices(3.0, 15.0))
        answers = [await client.chat(ASK) for _ in range(2)]
    assert [answer.usage for answer in answers] == [Usage(1000, 200, pytest.approx(0.006))] * 2
    assert client.meter == Meter(answered=2, usage=Usage(2000, 400, pytest.approx(0.012)))


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "\ufeff\u2060\n"])
async def test_an_empty_answer_that_was_tried_again_was_paid_for(
    connect: Connect, text: str
) -> None:
    empty = Reply(body=completion(text, prompt_tokens=100, completion_tokens=50))
    whole = Reply(body=completion("yes", prompt_tokens=100, completion_tokens=7))
    async with ScriptedEndpoint(in_turn(empty, Reply(status=500), whole)) as endpoint:
        client = connect(endpoint, prices=Prices(10.0, 100.0))
        answer = await client.chat(ASK)
    assert answer.usage == Usage(200, 57, pytest.approx(0.0077))
    assert client.meter.usage == answer.usage


@pytest.mark.parametrize("seed", [5, None])
async def test_only_the_choices_that_are_not_usable_are_asked_for_again(
    connect: Connect, seed: int | None
) -> None:
    def script(request: dict[str, Any], number: int) -> Reply | str:
        if request.get("n") != 4:
            return f"again with {request.get('seed')}"
        body = completion("a", "b", "", " ")
        body["choices"][1]["finish_reason"] = "error"
        return Reply(body=body)

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint)
        answer = await client.chat(ASK, n=4, seed=seed)
        seeds = [5, 10, 11, 12] if seed else [None] * 4
        assert [choice.text for choice in answer.choices] == [
            "a",
            *(f"again with {each}" for each in seeds[1:]),
        ]
        assert [body.get("n") for body in endpoint.bodies] == [4, None, None, None]
        asked = [
            body.get("seed") for body in endpoint.bodies
        ]  # the last three at once: they arrive in any order
        assert [asked[0], *sorted(asked[1:], key=str)] == seeds, (
            "those of the four choices are taken"
        )
        await client.chat(ASK, n=4, seed=seed)
    assert [body.get("n") for body in endpoint.bodies[4:]] == [4, None, None, None], (
        "the endpoint does not ignore n"
    )


async def test_a_completion_that_fails_after_its_retries_is_not_asked_for_again(
    connect: Connect,
) -> None:
    def script(request: dict[str, Any], number: int) -> Reply | str:
        return Reply(status=500) if request["seed"] == 6 else f"text of {request['seed']}"

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint, max_retries=1)
        await client.chat(ASK, n=2, seed=90)  # a response with one choice: n is ignored
        with pytest.raises(EndpointError):
            await client.chat(ASK, n=3, seed=5)
    assert sorted(body["seed"] for body in endpoint.bodies[2:]) == [5, 6, 6, 7]
    assert client.meter.answered == 4
