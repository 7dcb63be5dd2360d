"""A scripted OpenAI-compatible endpoint: a real HTTP server on a free loopback port, whose answers the test writes.

    async def test_one_retry() -> None:
        async with ScriptedEndpoint(in_turn(Reply(status=503), "fine")) as endpoint:
            ...                                   # call endpoint.base_url
        assert len(endpoint.requests) == 2

A script is `script(request, number) -> Reply | str`, plain or async: `request` is the body as JSON,
`number` counts the chat requests from 1. An async script may wait (for a `Meeting`, an
`asyncio.Event`) to hold its request in flight. What a script raises is raised again where the
endpoint's `async with` ends.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What to do with one request. A plain string in its place is `Reply(text=...)`.

    `text` is answered as a chat completion of one choice; `body` instead of it is sent as it is
    (bytes, str) or as JSON (anything else), as `completion(...)` builds it. `drop` closes the
    connection without an answer; `hang` never answers, until the client leaves. `delay_s` passes
    before any of it.
    """

    text: str = ""
    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: bool = False
    hang: bool = False
    delay_s: float = 0.0


_PATHS = frozenset(
    ("/v1/chat/completions", "/v1/decisions", "/classify", "/score", "/pooling", "/get_reward")
)
Script = Callable[[Json, int], "Reply | str | Awaitable[Reply | str]"]


@dataclass(frozen=True)
class Recorded:
    """One request as it arrived: `at` on the monotonic clock; `json` is the body, `{}` if there was none.

    `query` is that of its URL, as it was sent.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    json: Json
    raw: bytes
    at: float
    query: str = ""


def completion(
    *texts: str | None,
    finish_reason: str = "stop",
    prompt_tokens: int = 10,
    completion_tokens: int = 5,
    **message: Any,
) -> Json:
    """The body of a chat completion with a choice for each text; `message` adds fields to each choice's message."""
    return {
        "object": "chat.completion",
        "choices": [
            {
                "index": i,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": finish_reason,
            }
            for i, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens},
    }


def in_turn(*replies: Reply | str) -> Script:
    """A script that gives these replies one after the other, and the last one ever after."""
    return lambda request, number: replies[min(number, len(replies)) - 1]


class Meeting:
    """Holds everyone who waits until `size` wait at once: proof that they were in flight together."""

    def __init__(self, size: int) -> None:
        self._missing = size
        self._complete = asyncio.Event()

    async def wait(self) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self._complete.set()
        await self._complete.wait()


class ScriptedEndpoint:
    """Serves `POST /v1/chat/completions`, and the paths of other models, by the script; 404 for anything else.

    Use with `async with`.

    Attributes:
        base_url: up to and without `/chat/completions`.
        requests: every request of any kind, in the order of arrival.
        in_flight: chat requests being answered now.
        peak: the most that were in flight at once.
    """

    def __init__(self, script: Script | Reply | str = "fine", *, port: int = 0) -> None:
        self._port = port
        self.requests: list[Recorded] = []
        self.in_flight = 0
        self.peak = 0
        self.base_url = ""
        self._script: Script = script if callable(script) else in_turn(script)
        self._number = 0
        self._arrival = asyncio.Event()
        self._script_error: Exception | None = None

    @property
    def bodies(self) -> list[Json]:
        """The JSON bodies of all requests."""
        return [request.json for request in self.requests]

    async def arrived(self, count: int) -> None:
        """Wait until `count` requests have arrived in all."""
        while len(self.requests) < count:
            self._arrival.clear()
            await self._arrival.wait()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Refuse connections for as long as the context lasts; those that are open are closed."""
        await self._runner.cleanup()
        yield
        await self._listen()

    async def __aenter__(self) -> ScriptedEndpoint:
        await self._listen()
        return self

    async def _listen(self) -> None:
        app = web.Application(client_max_size=256 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.01
        )
        await self._runner.setup()
        listener = socket.create_server(("127.0.0.1", self._port))
        await web.SockSite(self._runner, listener, backlog=1024).start()
        self._port = listener.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self._port}/v1"

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()
        if self._script_error is not None:
            raise self._script_error

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw) if raw else {}
        self.requests.append(
            Recorded(
                request.method,
                request.path,
                request.headers,
                body,
                raw,
                time.monotonic(),
                request.rel_url.raw_query_string,
            )
        )
        self._arrival.set()
        if request.method != "POST" or request.path not in _PATHS:
            return web.json_response({"error": {"message": "not found"}}, status=404)
        self._number += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            return await self._answer(request, await self._reply(body, self._number))
        finally:
            self.in_flight -= 1

    async def _reply(self, body: Json, number: int) -> Reply:
        try:
            reply = self._script(body, number)
            given = await reply if inspect.isawaitable(reply) else reply
        except Exception as error:  # noqa: BLE001  # a failed assertion in a script must fail the test
            self._script_error = error
            return Reply(
                status=400, body={"error": {"message": f"the test's script raised {error!r}"}}
            )
        return Reply(text=given) if isinstance(given, str) else given

    async def _answer(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        if reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        if reply.drop and request.transport is not None:
            request.transport.close()
        if reply.drop or reply.hang:
            await asyncio.Event().wait()  # ends when the connection does
        body = completion(reply.text) if reply.body is None else reply.body
        if not isinstance(body, bytes):
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
        return web.Response(
            status=reply.status,
            body=body,
            headers={"Content-Type": "application/json", **reply.headers},
        )


@contextmanager
def refusing() -> Iterator[str]:
    """A base URL whose port refuses connections for as long as the context lasts."""
    with socket.socket() as bound:  # bound and not listening: nobody else can take the port
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
