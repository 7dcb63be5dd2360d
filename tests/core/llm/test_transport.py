"""One request until it is answered or final: retries, pauses, time-outs, the deadline."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from judgegym.llm import ledger, transport
from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.llm.http import limits
from judgegym.llm.http.exchange import open_session
from tests.scripted import Reply, ScriptedEndpoint, completion, in_turn

ASK = [{"role": "user", "content": "hi"}]


class Clock:
    """The clock of a call's deadline, set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        for module in (ledger, limits, transport):
            monkeypatch.setattr(module, "time", clock)


Connect = Callable[..., Any]

BROKEN = {
    "500": Reply(status=500),
    "drop": Reply(drop=True),
    "not_json": Reply(body=b'{"choices": [{"mess'),
    "not_gzip": Reply(body=b"text", headers={"Content-Encoding": "gzip"}),
    "only_reasoning": Reply(body=completion("", reasoning_content="thought")),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_failure_that_stays_is_an_error(connect: Connect, name: str) -> None:
    async with ScriptedEndpoint(BROKEN[name]) as endpoint:
        with pytest.raises(EndpointError) as raised:
            await connect(endpoint, max_retries=2).chat(ASK)
    error = raised.value
    assert (error.kind, error.attempts, error.endpoint) == (
        FailureKind.BROKEN,
        3,
        endpoint.base_url,
    )
    assert endpoint.bodies == [endpoint.bodies[0]] * 3


@pytest.mark.parametrize("status", [429, 503, 529])
async def test_a_busy_endpoint_is_waited_for_until_the_deadline_and_no_retry_is_counted(
    connect: Connect, pauses: list[float], monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Each answer takes two seconds of the clock, so the sixth one is the last before the deadline."""
    clock = Clock(monkeypatch)

    def script(request: dict[str, Any], number: int) -> Reply:
        clock.now += 2.0
        return Reply(status=status)

    async with ScriptedEndpoint(script) as endpoint:
        with pytest.raises(EndpointError) as raised:
            await connect(endpoint, max_retries=0, deadline_s=11.0).chat(ASK)
    assert (raised.value.kind, raised.value.attempts) == (FailureKind.BUSY, 6)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 422])
async def test_a_rejected_request_is_not_sent_again_and_its_message_is_shown(
    connect: Connect, status: int
) -> None:
    async with ScriptedEndpoint(
        Reply(status=status, body={"error": {"message": "max_tokens is too large"}})
    ) as endpoint:
        with pytest.raises(EndpointError) as raised:
            await connect(endpoint).chat(ASK)
    assert (raised.value.kind, raised.value.status, raised.value.attempts) == (
        FailureKind.REJECTED,
        status,
        1,
    )
    assert f"HTTP {status}" in str(raised.value) and "max_tokens is too large" in str(raised.value)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(("path", "is_asked"), [("", True), ("/v1", False)])
async def test_base_url_without_v1_is_told_in_the_error(
    connect: Connect, path: str, is_asked: bool
) -> None:
    async with ScriptedEndpoint(Reply(status=404)) as endpoint:
        root = endpoint.base_url.removesuffix("/v1")
        with pytest.raises(EndpointError) as raised:
            await connect(root + path).chat(ASK)
    assert f"{root}{path}: rejected HTTP 404 after 1 request" in str(raised.value)
    assert (f"did you mean {root}/v1?" in str(raised.value)) is is_asked


@pytest.mark.parametrize("status", [300, 307])
async def test_a_redirect_is_not_followed(connect: Connect, status: int) -> None:
    async with ScriptedEndpoint("elsewhere") as other:
        reply = Reply(status=status, headers={"Location": f"{other.base_url}/chat/completions"})
        async with ScriptedEndpoint(reply) as endpoint:
            with pytest.raises(EndpointError) as raised:
                await connect(endpoint).chat(ASK)
    assert (raised.value.kind, raised.value.status) == (FailureKind.REJECTED, status)
    assert f"redirects to {other.base_url}/chat/completions;" in str(raised.value)
    assert f"its URL to {other.base_url}" in str(raised.value)
    assert (len(endpoint.requests), len(other.requests)) == (1, 0)


@pytest.mark.parametrize(
    ("scheme", "words"),
    [("http", "begin with https://"), ("https", "begin with http://")],
)
async def test_tls_and_plain_http_that_are_mixed_up_are_told_at_once(
    connect: Connect, scheme: str, words: str
) -> None:
    """A server with TLS that is called without, and the other way round."""
    certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.load_cert_chain(Path(__file__).with_name("localhost.pem"))  # of this test alone
    runner = web.AppRunner(web.Application())
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(
        runner, listener, ssl_context=certificate if scheme == "http" else None
    ).start()
    url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/v1"
    with pytest.raises(EndpointError) as raised:
        await connect(url).chat(ASK)
    await runner.cleanup()
    assert raised.value.kind is FailureKind.REJECTED
    assert words in str(raised.value)


# ---------------------------------------------------------------------------------------------------------
# addresses


@pytest.mark.parametrize(
    "base_url",
    [
        pytest.param("http://user:password@localhost:99999/v1", id="port"),
        pytest.param(f"http://user:password@{'a' * 70}.example/v1", id="long_label"),
    ],
)
async def test_an_address_that_cannot_be_called_is_an_endpoints_error(
    connect: Connect, base_url: str
) -> None:
    with pytest.raises(EndpointError) as raised:
        await connect(base_url, max_retries=0).chat(ASK)
    assert "password" not in str(raised.value)


@pytest.mark.parametrize(
    ("userinfo", "key"), [("", "sk-secret\n"), ("user:password@", "sk-secret")]
)
async def test_headers_that_cannot_be_sent_are_an_endpoints_error(
    connect: Connect, userinfo: str, key: str
) -> None:
    async with ScriptedEndpoint() as endpoint:
        with pytest.raises(EndpointError) as raised:
            await connect(
                endpoint.base_url.replace("://", f"://{userinfo}"), key=key, max_retries=0
            ).chat(ASK)
    assert "sk-secret" not in str(raised.value) and "password" not in str(raised.value)


async def test_credentials_of_the_url_are_sent(connect: Connect) -> None:
    async with ScriptedEndpoint() as endpoint:
        await connect(endpoint.base_url.replace("://", "://user:password@")).chat(ASK)
    assert endpoint.requests[0].headers["Authorization"] == "Basic dXNlcjpwYXNzd29yZA=="


# -----------------------------------------------------------------------------------------------------------
# secrets

KEY = "sk-0123456789-secret"
ECHOES = {
    "rejected": Reply(
        status=401, body={"error": {"message": f"Incorrect API key provided: {KEY}."}}
    ),
    "server": Reply(status=500, body=f"<html>Authorization: Bearer {KEY}</html>"),
    "malformed": Reply(body={"echo": {"authorization": f"Bearer {KEY}"}}),
    "not_json": Reply(body=f"{KEY} {KEY}"),
    "cut_message": Reply(status=401, body={"error": {"message": "x" * 490 + KEY}}),
    "cut_body": Reply(status=500, body="x" * 490 + KEY),
}


@pytest.mark.parametrize("name", ECHOES)
async def test_the_key_is_in_no_error_even_if_the_endpoint_repeats_it(
    connect: Connect, name: str
) -> None:
    async with ScriptedEndpoint(ECHOES[name]) as endpoint:
        client = connect(endpoint, key=KEY, max_retries=0)
        with pytest.raises(EndpointError) as raised:
            await client.chat(ASK)
    assert endpoint.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    for text in (str(raised.value), repr(raised.value)):
        assert KEY not in text
        assert KEY[:8] not in text  # nor the part of it that stands before a cut


# ------------------------------------------------------------------------------------------------------------
# pauses


# ---------------------------------------------------------------------------------------------------------
# time-outs


async def test_the_deadline_ends_an_attempt_under_way_and_all_retries(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply(hang=True)) as endpoint:
        with pytest.raises(EndpointError) as raised:
            await connect(endpoint, timeout_s=60.0, deadline_s=2.0, max_retries=9).chat(ASK)
    assert (raised.value.kind, raised.value.attempts) == (FailureKind.BROKEN, 1)


async def test_a_call_that_is_cancelled_leaves_the_endpoint_and_the_limit(connect: Connect) -> None:
    async with ScriptedEndpoint(in_turn(Reply(hang=True), "fine")) as endpoint:
        client = connect(endpoint, max_concurrency=1)
        call = asyncio.create_task(client.chat(ASK))
        await endpoint.arrived(1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert (await client.chat(ASK)).first.text == "fine"
    assert call.cancelled()


# ----------------------------------------------------------------------------------------------------------
# sessions


async def test_a_shared_session_is_not_closed(connect: Connect) -> None:
    async with ScriptedEndpoint() as endpoint, open_session() as session:
        first, second = connect(endpoint, session=session), connect(endpoint, session=session)
        await first.chat(ASK)
        await first.close()
        assert not session.closed
        assert (await second.chat(ASK)).first.text == "fine"


async def test_no_cookies_are_kept(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply("fine", headers={"Set-Cookie": "a=b; Path=/"})) as endpoint:
        client = connect(endpoint)
        await client.chat(ASK)
        await client.chat(ASK)
    assert not any("Cookie" in request.headers for request in endpoint.requests)
