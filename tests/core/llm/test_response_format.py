"""An endpoint that refuses a response format: it gets text, which is said once; other refusals stay what they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.core.calls import ask
from judgegym.judges.parsing.labels import arena_form, arena_label
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.client import ChatClient, structured_chat
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import record_calls
from judgegym.llm.types import ChatSettings, Endpoint
from judgegym.llm.wire import Message
from tests.core.llm.test_ledger import Book, said
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

Connect = Callable[..., Any]

FORM = arena_form(("A>B", "A=B", "B>A"))
TEXT = [Message(role="user", content="Judge.")]
OBJECT = '{"explanation": "so", "verdict": "A>B"}'
NO_FORMAT = {"error": {"message": "response_format json_schema is not supported by this model"}}
UNCLEAR = {"error": {"message": "bad request"}}


def refusing(body: Json = NO_FORMAT, status: int = 400) -> Callable[[Json, int], Reply | str]:
    """An endpoint without response formats."""
    return lambda request, number: (
        Reply(status=status, body=body) if "response_format" in request else "So. [[B>A]]"
    )


async def structured(client: Any, **wanted: Any) -> Any:
    return await structured_chat(
        client, FORM.add_instructions(TEXT), FORM.response_format, TEXT, **wanted
    )


async def test_a_request_has_the_schema_and_the_form_in_words(connect: Connect) -> None:
    async with ScriptedEndpoint(OBJECT) as endpoint:
        call = await ask(connect(endpoint), TEXT, arena_label, name="game", form=FORM)
    (body,) = endpoint.bodies
    assert call.value == "A>B"
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "arena_verdict", "strict": True, "schema": FORM.schema},
    }
    assert body["messages"] == [{"role": "user", "content": f"Judge.\n\n{FORM.instructions}"}]
    assert [*body["response_format"]["json_schema"]["schema"]["properties"]] == [
        "explanation",
        "verdict",
    ]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, NO_FORMAT),
        (404, NO_FORMAT),
        (501, NO_FORMAT),
        (200, {"error": {**NO_FORMAT["error"], "code": 400}}),
        (400, UNCLEAR),
    ],
)
async def test_an_endpoint_that_refuses_it_gets_text_and_that_is_said_once(
    connect: Connect, caplog: pytest.LogCaptureFixture, status: int, body: Json
) -> None:
    async with ScriptedEndpoint(refusing(body, status)) as endpoint:
        client = connect(endpoint)
        first = await ask(client, TEXT, arena_label, name="game", form=FORM)
        second = await ask(client, TEXT, arena_label, name="game", form=FORM)
    assert (first.value, second.value) == ("B>A", "B>A")
    assert ["response_format" in body for body in endpoint.bodies] == [True, False, False]
    assert endpoint.bodies[1]["messages"] == endpoint.bodies[2]["messages"] == TEXT, (
        "the prompt of text"
    )
    assert (first.run.attempts, second.run.attempts) == (2, 1)
    assert "response_format" in client.refused_fields["judge-model"]
    (line,) = [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]
    assert f"refuses response_format (HTTP {status}" in line and "as text" in line


async def test_the_call_counts_the_tokens_of_a_refusal_that_is_paid_for(connect: Connect) -> None:
    refusal = {**completion(""), "error": {**NO_FORMAT["error"], "code": 400}}
    async with ScriptedEndpoint(refusing(refusal, 200)) as endpoint:
        client = connect(endpoint)
        response = await structured(client)
    assert len(endpoint.bodies) == response.attempts == 2
    assert client.meter.usage.prompt_tokens > 10
    assert response.usage == client.meter.usage


async def test_calls_that_wait_when_one_is_refused_do_not_ask_for_it(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedEndpoint(refusing()) as endpoint:
        client = connect(endpoint, max_concurrency=3)
        calls = await asyncio.gather(
            *(ask(client, TEXT, arena_label, name=f"{n}", form=FORM) for n in range(40))
        )
    assert [call.value for call in calls] == ["B>A"] * 40
    assert not any(call.failed for call in calls)
    assert sum("response_format" in body for body in endpoint.bodies) <= 3
    assert len(endpoint.bodies) <= 43
    assert sum(record.levelno >= logging.WARNING for record in caplog.records) == 1


@pytest.mark.parametrize(("status", "body"), [(401, NO_FORMAT), (403, UNCLEAR)])
async def test_a_wrong_key_is_a_wrong_key(connect: Connect, status: int, body: Json) -> None:
    async with ScriptedEndpoint(Reply(status=status, body=body)) as endpoint:
        with pytest.raises(EndpointError, match=f"HTTP {status} after 1 request"):
            await structured(connect(endpoint))
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(("body", "said_so"), [(UNCLEAR, False), (NO_FORMAT, True)])
async def test_what_is_refused_in_both_forms_is_the_failure_of_the_call(
    connect: Connect, caplog: pytest.LogCaptureFixture, body: Json, said_so: bool
) -> None:
    async with ScriptedEndpoint(Reply(status=400, body=body)) as endpoint:
        client = connect(endpoint)
        with pytest.raises(EndpointError, match="HTTP 400 after 2 requests"):
            await structured(client)
    assert len(endpoint.bodies) == 2
    assert bool(caplog.records) is said_so


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 4101 tokens.",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 200013 tokens > 200000 maximum",
    ],
)
async def test_a_prompt_that_is_too_long_is_no_refusal_though_it_fits_in_words(
    connect: Connect, message: str
) -> None:
    def script(request: Json, number: int) -> Reply | str:
        return Reply(status=400, body={"error": {"message": message}}) if number == 1 else OBJECT

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint)
        with pytest.raises(EndpointError, match="after 1 request"):
            await structured(client)
        await structured(client)
    assert ["response_format" in body for body in endpoint.bodies] == [True, True]


@pytest.mark.parametrize(
    "body",
    [
        NO_FORMAT,
    ],
)
async def test_of_two_replicas_one_refuses_it_after_the_other_has_taken_it(body: Json) -> None:
    def taking(request: Json, number: int) -> str:
        return OBJECT if "response_format" in request else "So. [[B>A]]"

    async with ScriptedEndpoint(taking) as one, ScriptedEndpoint(refusing(body)) as two:
        replicas = tuple(Endpoint(endpoint.base_url, "judge") for endpoint in (one, two))
        async with ChatClient(ChatSettings(replicas, temperature=1.0, max_retries=0)) as client:
            assert (await structured(client)).first.text == OBJECT
            together = await asyncio.gather(*(structured(client) for _ in range(8)))
            assert {answer.first.text for answer in together} == {OBJECT, "So. [[B>A]]"}
            assert (await structured(client)).first.text == "So. [[B>A]]"
            words = client.formats.description
    assert words is not None and two.base_url in words


async def test_an_answer_in_words_is_cached_as_such(connect: Connect, tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    async with ScriptedEndpoint(refusing()) as endpoint:
        await structured(connect(endpoint, cache=cache, identity="judge"))
        again = await structured(connect(endpoint, cache=cache, identity="judge"))
        assert again.cached and again.first.text == "So. [[B>A]]"
        assert len(endpoint.bodies) == 2, (
            "a new client knows what the first one was refused, and pays for nothing"
        )
    async with ScriptedEndpoint(OBJECT) as endpoint:
        answer = await structured(connect(endpoint, cache=cache, identity="judge"))
        assert answer.first.text == OBJECT and len(endpoint.bodies) == 1, (
            "an object is never that of another form"
        )
        plain = await connect(endpoint, cache=cache, identity="judge").chat(TEXT)
        assert plain.cached and plain.first.text == "So. [[B>A]]", (
            "it is the answer to the question in words"
        )
    cache.close()


async def test_a_resumed_run_takes_an_answer_in_words_without_a_request(connect: Connect) -> None:
    class Ledger(Book):
        def open(self, asked: Any) -> Any:
            return "key", {} if "response_format" in asked.parameters else {0: said("So. [[B>A]]")}

        def holds(self, asked: Any) -> bool:
            return bool(self.open(asked)[1])

    async with ScriptedEndpoint(OBJECT) as endpoint:
        with record_calls(Ledger()):
            answer = await structured(connect(endpoint), name="game")
    assert answer.first.text == "So. [[B>A]]" and endpoint.bodies == []
