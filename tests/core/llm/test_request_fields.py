"""Which words of an endpoint refuse a request field, and which ones speak of something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from judgegym.llm.errors import EndpointError, RunStop
from judgegym.llm.wire import Message
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

Connect = Callable[..., Any]

ASK = [Message(role="system", content="Be brief."), Message(role="user", content="Why?")]
SETTINGS: Json = {
    "temperature": 0.2,
    "max_tokens": 64,
    "extra_body": {
        "top_p": 0.9,
        "top_k": 5,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.1,
        "seed": 3,
    },
}


def refused(message: str, status: int = 400, **error: str) -> Reply:
    return Reply(status=status, body={"error": {"message": message, **error}})


def shape(request: Json) -> set[str]:
    return {*request, *(message["role"] for message in request["messages"])}


WHOLE = {
    "model",
    "messages",
    "system",
    "user",
    "temperature",
    "max_tokens",
    *SETTINGS["extra_body"],
}


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        (
            "temperature",
            refused("'temperature' does not support 0.2; only the default is supported."),
        ),
        ("temperature", refused("", param="temperature", code="unsupported_value")),
        ("temperature", refused("invalid temperature: only 1 is allowed for this model")),
        (
            "temperature",
            refused("these models don't support temperature=0.2; only temperature=1 is supported"),
        ),
        (
            "top_p",
            refused(
                "`temperature` and `top_p` cannot both be specified for this model; use only one."
            ),
        ),
        ("top_k", refused("top_k: Extra inputs are not permitted")),
        ("presence_penalty", refused("Argument not supported on this model: presence_penalty")),
        ("frequency_penalty", refused("Unknown parameter: 'frequency_penalty'.", 422)),
        (
            "seed",
            Reply(
                status=422, body={"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"]}]}
            ),
        ),
        (
            "max_tokens",
            refused(
                "'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead."
            ),
        ),
        ("max_tokens", refused("Use 'max_completion_tokens' instead.", param="max_tokens")),
        (
            "system",
            refused(
                "'messages[0].role' does not support 'system' with this model",
                param="messages[0].role",
            ),
        ),
        (
            "temperature",
            refused("Le paramètre « temperature » n'est pas pris en charge par ce modèle."),
        ),
        ("presence_penalty", refused("Model grok-4 does not support parameter presencePenalty.")),
        ("top_p", refused("Unsupported parameter", param="topP")),
        ("max_tokens", refused("El parámetro max_tokens no es compatible con este modelo.")),
        (
            "temperature",
            refused("UnsupportedParamsError: gpt-5 models don't support temperature=0.2."),
        ),
        (
            "top_k",
            refused(
                "unknown field `top_k`, expected one of `messages`, `temperature`, `seed` at line "
                "1",
                422,
            ),
        ),
        ("system", refused("System role not supported")),
        ("system", refused("Developer instruction is not enabled for this model")),
        ("system", refused("Conversation roles must alternate user/assistant/user/assistant/...")),
        ("system", refused("Only user and assistant roles are supported!")),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value.body)[:60],
)
async def test_a_refused_field_alone_is_changed(connect: Connect, name: str, reply: Reply) -> None:
    async with ScriptedEndpoint(
        lambda request, number: reply if name in shape(request) else "fine"
    ) as endpoint:
        client = connect(endpoint, **SETTINGS)
        answers = [await client.chat(ASK, vote=vote) for vote in range(2)]
    assert [answer.attempts for answer in answers] == [2, 1]
    assert [answer.refused for answer in answers] == [(name,), (name,)]
    changed = WHOLE - {name} | ({"max_completion_tokens"} if name == "max_tokens" else set())
    assert [shape(body) for body in endpoint.bodies] == [WHOLE, changed, changed]
    if name == "system":
        assert endpoint.bodies[1]["messages"] == [{"role": "user", "content": "Be brief.\n\nWhy?"}]


@pytest.mark.parametrize(
    ("reply", "requests"),
    [
        (
            refused(
                "max_tokens is too large: 64. It supports at most 32 tokens.", param="max_tokens"
            ),
            1,
        ),
        (refused("invalid argument: temperature must be at most 2"), 1),
        (refused("temperature: must be between 0 and 1, got 9", param="temperature"), 1),
        (
            refused("This model's maximum context length is 8 tokens; you asked for max_tokens=64"),
            1,
        ),
        (refused("no model of this name supports temperature", 404), 1),
        (refused("this key may not set temperature: not allowed", 401), 1),
        (refused("the request was rejected: 'What is the temperature?'"), 2),
        (refused("Why is this not supported: the system is unknown"), 1),
    ],
)
async def test_what_speaks_of_something_else_changes_nothing_for_others(
    connect: Connect, reply: Reply, requests: int
) -> None:
    """At most the same request is tried once more without the field that the message names."""
    async with ScriptedEndpoint(
        lambda request, number: reply if number <= requests else "fine"
    ) as endpoint:
        client = connect(endpoint, **SETTINGS)
        with pytest.raises(EndpointError):
            await client.chat(ASK)
        assert len(endpoint.requests) == requests
        await client.chat(ASK, vote=1)
    assert shape(endpoint.bodies[-1]) == WHOLE


async def test_a_message_that_quotes_a_refusal_changes_nothing_where_the_field_was_taken(
    connect: Connect,
) -> None:
    quoting = refused("the prompt was flagged: '… temperature is not supported …'")
    script = {2: quoting, 3: quoting}
    async with ScriptedEndpoint(lambda request, number: script.get(number, "fine")) as endpoint:
        client = connect(endpoint, **SETTINGS)
        await client.chat(ASK)
        with pytest.raises(EndpointError, match="flagged"):
            await client.chat(ASK, vote=1)
        await client.chat(ASK, vote=2)
    assert shape(endpoint.bodies[-1]) == WHOLE


QUOTED = "The temperature field is not supported here, says the system; is it true?"


@pytest.mark.parametrize(
    "said", [f"flagged: '{QUOTED}'", "unsupported text about temperature"], ids=["whole", "short"]
)
async def test_a_message_that_quotes_the_request_teaches_nothing_before_any_answer(
    connect: Connect, said: str
) -> None:
    def script(request: Json, number: int) -> Reply | str:
        return refused(said) if QUOTED in request["messages"][-1]["content"] else "fine"

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint, **SETTINGS)
        with pytest.raises(EndpointError):
            await client.chat([Message(role="user", content=QUOTED)])
        assert len(endpoint.requests) <= 2
        assert (await client.chat(ASK)).refused == ()
    assert shape(endpoint.bodies[-1]) == WHOLE


async def test_a_field_that_is_refused_as_its_absence_is_ends_after_two_requests(
    connect: Connect,
) -> None:
    def script(request: Json, number: int) -> Reply:
        return refused(
            "temperature is not supported"
            if "temperature" in request
            else "temperature is required"
        )

    async with ScriptedEndpoint(script) as endpoint:
        with pytest.raises(EndpointError, match="temperature is required"):
            await connect(endpoint, **SETTINGS).chat(ASK)
        assert len(endpoint.requests) == 2


async def test_a_field_that_is_refused_after_it_was_taken_is_left_out_from_then_on(
    connect: Connect,
) -> None:
    """An endpoint that refuses it now and then as well: the next request has it no more."""
    script = {2: refused("temperature is not supported with this model")}
    async with ScriptedEndpoint(lambda request, number: script.get(number, "fine")) as endpoint:
        client = connect(endpoint, **SETTINGS)
        answers = [await client.chat(ASK, vote=vote) for vote in range(3)]
    assert [answer.refused for answer in answers] == [(), ("temperature",), ("temperature",)]


@pytest.mark.parametrize("name", ["logprobs", "response_format"])
async def test_what_an_extra_body_asks_for_and_no_request_can_do_without_is_named(
    connect: Connect, name: str
) -> None:
    reply = refused(f"{name} is not supported by this model")
    async with ScriptedEndpoint(reply) as endpoint:
        client = connect(endpoint, extra_body={name: True}, url_setting="--openai.base_url")
        with pytest.raises(RunStop, match=rf"refuses {name}, which --openai\.extra_body sets"):
            await client.chat(ASK)


async def test_several_choices_are_asked_for_by_themselves_where_n_is_refused(
    connect: Connect,
) -> None:
    def script(request: Json, number: int) -> Reply:
        return (
            refused("Unsupported value.", param="n")
            if "n" in request
            else Reply(body=completion(f"text {number}"))
        )

    async with ScriptedEndpoint(script) as endpoint:
        client, other = connect(endpoint), connect(endpoint)
        assert (
            len((await client.chat(ASK, n=3)).choices)
            == len((await other.chat(ASK, n=2)).choices) + 1
        )
    assert ["n" in body for body in endpoint.bodies] == [True, *[False] * 5]
