"""The promises of the client hold in each form: Anthropic's Messages API, and litellm's routes to both forms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.util import find_spec
from typing import Any

import pytest

from judgegym.llm.errors import EndpointError, FailureKind, SettingsError
from tests.core.llm.test_transport import ASK
from tests.messages import MessagesEndpoint
from tests.scripted import Json, Reply, ScriptedEndpoint, completion, in_turn, refusing

Connect = Callable[..., Any]
of_litellm = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("litellm") is None, reason="litellm is not installed (the extra litellm)"
    ),
]
FORMS = [
    "anthropic",
    pytest.param("litellm:openai", marks=of_litellm),
    pytest.param("litellm:anthropic", marks=of_litellm),
]
each_form = pytest.mark.parametrize("form", FORMS)


@asynccontextmanager
async def asked_in(
    form: str, connect: Connect, behind: ScriptedEndpoint, **settings: Any
) -> AsyncIterator[Any]:
    """A client that asks an endpoint in this form."""
    api, _, route = form.partition(":")
    async with AsyncExitStack() as stack:
        url = behind.base_url
        if "anthropic" in form:
            url = (await stack.enter_async_context(MessagesEndpoint(url))).base_url
        if route:
            url = url.removesuffix("/v1") if route == "anthropic" else url
            settings = {"model": f"{route}/judge-model", **settings}
        yield connect(url, key="sk-secret", api=api, **settings)


@each_form
async def test_a_rejected_request_is_not_sent_again_and_its_message_is_shown(
    connect: Connect, form: str
) -> None:
    said = Reply(status=400, body={"error": {"message": "this is not possible with sk-secret"}})
    async with ScriptedEndpoint(said) as behind, asked_in(form, connect, behind) as client:
        with pytest.raises(EndpointError) as raised:
            await client.chat(ASK)
    assert (raised.value.kind, raised.value.status, raised.value.attempts) == (
        FailureKind.REJECTED,
        400,
        1,
    )
    assert "this is not possible" in str(raised.value) and "sk-secret" not in str(raised.value)


@each_form
async def test_retry_after_and_deadline_are_ours(
    connect: Connect, form: str, pauses: list[float]
) -> None:
    busy = Reply(status=429, headers={"Retry-After": "7"})
    async with (
        ScriptedEndpoint(in_turn(busy, Reply(hang=True), "fine")) as behind,
        asked_in(form, connect, behind, timeout_s=1.0) as client,
    ):
        answer = await client.chat(ASK)
    assert answer.attempts == 3 and any(pause >= 7 for pause in pauses)


@each_form
async def test_nobody_there_is_waited_for(connect: Connect, form: str) -> None:
    api, _, route = form.partition(":")
    model = f"{route}/m" if route else "m"
    with refusing() as url, pytest.raises(EndpointError) as raised:
        await connect(url, api=api, model=model, key="k", away_deadline_s=0.25, max_retries=0).chat(
            ASK
        )
    assert (raised.value.kind, raised.value.attempts) == (FailureKind.UNREACHABLE, 0)


async def test_temperature_that_a_model_refuses_is_left_out_and_said(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    def script(request: Json, number: int) -> Reply | str:
        return (
            Reply(status=400, body={"error": "`temperature` is deprecated"})
            if "temperature" in request
            else "fine"
        )

    async with ScriptedEndpoint(script) as behind, MessagesEndpoint(behind.base_url) as endpoint:
        client = connect(endpoint.base_url, api="anthropic", key="sk", temperature=0.2)
        answers = [await client.chat(ASK, vote=vote) for vote in range(2)]
    assert [answer.attempts for answer in answers] == [2, 1]
    assert "takes no temperature: it is left out" in caplog.text
    assert (
        endpoint.headers[0]["x-api-key"] == "sk"
        and endpoint.headers[0]["anthropic-version"] == "2023-06-01"
    )


async def test_fields_without_a_counterpart_are_errors_before_a_request(connect: Connect) -> None:
    with pytest.raises(SettingsError, match=r"--env\.judge_extra_body: 'logit_bias' .*api=openai"):
        connect(
            "http://x/v1",
            api="anthropic",
            extra_body={"logit_bias": {}},
            url_setting="--env.judge_base_url",
        )
    with pytest.raises(SettingsError, match=r"--temperature: the temperature 1\.2"):
        connect("http://x/v1", api="anthropic", temperature=1.2)
    with pytest.raises(SettingsError, match=r"the model: 'logprobs' .*api=openai"):
        await connect("http://x/v1", api="anthropic").chat(ASK, extra={"logprobs": True})


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("litellm") is None, reason="litellm is not installed (the extra litellm)"
)
async def test_litellm_calls_nothing_whole_that_is_not_known_to_be(connect: Connect) -> None:
    for word in ("pause_turn", "hologram", "error"):
        async with ScriptedEndpoint(Reply(body=completion("half", finish_reason=word))) as behind:
            for form in ("litellm:openai", "litellm:anthropic"):
                async with asked_in(form, connect, behind, max_retries=0) as client:
                    with suppress(EndpointError):
                        answer = await asyncio.wait_for(client.chat(ASK), 20)
                        # Later releases say that a paused turn is cut off, and so it holds no
                        # verdict either.
                        assert (word, answer.first.finish_reason) == ("pause_turn", "length")


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("litellm") is None, reason="litellm is not installed (the extra litellm)"
)
@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ("litellm:openai", {"finish_reason": None}),
        ("litellm:anthropic", {"finish_reason": None}),
        ("litellm:openai", {"error": {"message": "overloaded"}}),
    ],
)
async def test_litellm_takes_no_choice_without_a_reason_or_with_an_error_for_whole(
    connect: Connect, form: str, fault: Json
) -> None:
    half = completion("half")
    half["choices"][0] |= fault
    async with (
        ScriptedEndpoint(Reply(body=half)) as behind,
        asked_in(form, connect, behind, max_retries=0) as client,
    ):
        with pytest.raises(EndpointError) as raised:
            await asyncio.wait_for(client.chat(ASK), 20)
        assert raised.value.kind is FailureKind.BROKEN
