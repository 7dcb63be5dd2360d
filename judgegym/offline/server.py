"""HTTP server of the stand-in: routes, latency, faults, counts, outages and a prefix cache.

The listening socket can refuse connections for a while, like an ended process. The prefix cache
remembers the beginnings of prompts in blocks, like vLLM.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial

import orjson
from aiohttp import web

from judgegym.llm.at_once import cancel_all
from judgegym.offline import request as protocol
from judgegym.offline.answers import BUILT_IN, make_answers
from judgegym.offline.faults import Attempt, Effect, send_completion
from judgegym.offline.process import BACKLOG, StandInSettings
from judgegym.offline.request import BadRequest, ChatRequest, RequestMessage, parse_request
from judgegym.offline.rewards import PATHS, make_reward_response


class Listener:
    """Socket that serves a runner's routes; its port stays reserved while nothing listens."""

    def __init__(self, runner: web.AppRunner) -> None:
        """Set up for `serving`."""
        self._runner = runner
        self._site: web.SockSite | None = None
        self._address: socket.socket | None = None
        self._returning: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve on this socket during the block."""
        await self._runner.setup()
        try:
            await self._listen(listener)
            yield
        finally:
            if self._returning is not None:
                await cancel_all([self._returning])
            await self._runner.cleanup()
            if self._address is not None:
                self._address.close()

    async def _listen(self, listener: socket.socket) -> None:
        self._address = listener
        self._site = web.SockSite(self._runner, listener, backlog=BACKLOG)
        await self._site.start()

    @property
    def is_away(self) -> bool:
        """Whether nothing listens; requests in progress get no response."""
        return self._returning is not None and not self._returning.done()

    def go_away(self, seconds: float) -> None:
        """Refuse connections for some seconds, and reset existing ones.

        Do nothing if it is away already.
        """
        if not self.is_away:
            self._returning = asyncio.create_task(self._away(seconds))

    async def _away(self, seconds: float) -> None:
        assert self._site is not None and self._address is not None  # a request has arrived
        family = self._address.family
        address = self._address.getsockname()
        # asyncio leaves a connection open and unread if its server is closed after the accept and
        # before the transport.
        asyncio.get_running_loop().remove_reader(self._address.fileno())
        for _ in (
            "transport",
            "protocol",
        ):  # accepted connections need one iteration of the loop each
            await asyncio.sleep(0)
        await self._site.stop()
        # Bound and not listening: connections are refused, and the port is kept.
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        self._address = bound
        assert self._runner.server is not None  # it is set up
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(seconds)
        await self._listen(bound)


BLOCK_TOKENS = 16
_CHARACTERS = 4 * BLOCK_TOKENS  # four characters count as a token
_BLOCKS_KEPT = 200_000


class PrefixCache:
    """Blocks of the latest prompts; a block counts with all text before it."""

    def __init__(self) -> None:
        """Begin without a prompt."""
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def cached_tokens(self, messages: Sequence[RequestMessage]) -> int:
        """Return how many tokens this prompt has in common with earlier ones, from its beginning.

        The prompt is remembered.
        """
        text = "".join(f"<{message.role}>{message.content}" for message in messages)
        before, known_blocks, is_known = 0, 0, True
        for start in range(0, len(text) - _CHARACTERS + 1, _CHARACTERS):
            before = hash((before, text[start : start + _CHARACTERS]))
            is_known = is_known and before in self._blocks
            known_blocks += is_known
            self._blocks[before] = None
            self._blocks.move_to_end(before)
        while len(self._blocks) > _BLOCKS_KEPT:
            self._blocks.popitem(last=False)
        return known_blocks * BLOCK_TOKENS


_MODEL = {"id": "stand-in", "object": "model", "created": 0, "owned_by": "judgegym.offline"}
_MAX_BODY = 64 * 1024 * 1024
_GRACE = 0.01  # seconds; aiohttp reads zero as no limit
_NO_LINGER = struct.pack("ii", 1, 0)  # closing the socket resets the connection


class StandInServer:
    """Server of chat completions, responses and reward models; an instance serves one event loop.

    Attributes:
        asked: number of arrivals of each request, by its digest.
        answered: number of answers to each request, by its digest.
        faults: number of occurrences of each kind of fault.
    """

    def __init__(self, settings: StandInSettings) -> None:
        """Set up a server whose counts are zero."""
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._settings = settings
        self._prompts = (*settings.prompts, *BUILT_IN)
        self._away = {away.request: away.seconds for away in settings.away}
        self._counts = {"requests": 0, "in_flight": 0, "peak_in_flight": 0, "answers": 0}
        self._by_model: Counter[str] = Counter()
        self._prefixes: PrefixCache | None = None
        if settings.prefix_cache:
            self._prefixes = PrefixCache()
        self._listening = Listener(self._runner())

    @property
    def requests(self) -> int:
        """Number of chat requests since the start."""
        return self._counts["requests"]

    def serving(self, listener: socket.socket) -> AbstractAsyncContextManager[None]:
        """Serve on this socket during the block; its end ends all requests."""
        return self._listening.serving(listener)

    def _runner(self) -> web.AppRunner:
        """Return a runner of the routes that cancels a request when its client disconnects."""
        app = web.Application(client_max_size=_MAX_BODY)
        for prefix in ("/v1", ""):
            app.router.add_post(f"{prefix}/chat/completions", self._complete)
            app.router.add_post(f"{prefix}/responses", self._complete)
        for path in PATHS:
            app.router.add_post(path, self._reward)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._stats)
        app.router.add_get("/requests", self._list_requests)
        return web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=_GRACE
        )

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        """Send a completion, or the fault drawn for the request."""
        due = asyncio.get_running_loop().time() + self._settings.latency_ms / 1000
        counts = self._counts
        counts["requests"] += 1
        counts["in_flight"] += 1
        counts["peak_in_flight"] = max(counts["peak_in_flight"], counts["in_flight"])
        try:
            if (seconds := self._away.get(counts["requests"])) is not None:
                self._listening.go_away(seconds)
            body = await http.read()
            in_responses = http.path.endswith("/responses")
            request = parse_request(body, in_responses=in_responses)
            self._by_model[request.model] += 1
            if self._settings.text_only and request.properties is not None:
                raise BadRequest("response_format is not supported by this endpoint: leave it out")
            fault = self._draw_fault(request, is_spared=in_responses)
            effect = self._respond(request, fault, in_responses=in_responses)
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            if self._listening.is_away:
                # The connection may have been accepted just before.
                return await self._send(http, Effect("reset"))
            counts["answers"] += effect.is_answer
            self.answered[request.digest] += effect.is_answer
            return await self._send(http, effect)
        except BadRequest as bad:
            return _json(protocol.make_error(400, str(bad)), 400)
        finally:
            counts["in_flight"] -= 1

    def _draw_fault(self, request: ChatRequest, *, is_spared: bool) -> str | None:
        """Draw this attempt's fault, and count both; faults are those of chat completions."""
        self.asked[request.digest] += 1
        if is_spared or not self._settings.faults.rates:
            return None
        fault = self._settings.faults.draw(request.digest, self.asked[request.digest])
        if fault is not None:
            self.faults[fault] += 1
        return fault

    def _respond(self, request: ChatRequest, fault: str | None, *, in_responses: bool) -> Effect:
        """Return the effect of this fault on the request."""
        texts = partial(make_answers, request, self._prompts, judge_only=self._settings.judge_only)
        if fault is None:
            cached = None
            if self._prefixes is not None:
                cached = self._prefixes.cached_tokens(request.messages)
            answer = protocol.make_completion(request, texts(), cached=cached)
            if in_responses:
                answer = protocol.convert_to_responses(answer)
            return send_completion(request, answer, is_answer=True)
        attempt = Attempt(request, self.asked[request.digest], texts, self._counts["answers"])
        done = self._settings.faults.effect(fault, attempt)
        if self._settings.retry_after is not None and fault in ("429", "503"):
            done = replace(
                done, headers={**done.headers, "Retry-After": str(self._settings.retry_after)}
            )
        return done

    async def _send(self, http: web.Request, done: Effect) -> web.StreamResponse:
        """Send the response; if the effect hangs, wait until the client disconnects."""
        if done.end == "response" and len(done.pieces) == 1:
            return web.Response(body=done.body, status=done.status, headers=done.headers)
        with contextlib.suppress(ConnectionError):  # the client has disconnected
            if done.end == "response":
                pause_s = self._settings.slow_ms / 1000 / len(done.pieces) if done.is_slow else 0.0
                return await _send_pieces(http, done, pause_s)
        transport = http.transport
        if transport is not None and done.end != "hang":
            transport.write(done.body)
            if done.end == "reset":
                transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER
                )
            transport.close()
        never: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
        return await never  # until the handler is cancelled

    async def _reward(self, http: web.Request) -> web.Response:
        """Send the numbers of a reward model; faults are those of chat completions."""
        self._counts["requests"] += 1
        body = await http.read()
        await asyncio.sleep(self._settings.latency_ms / 1000)
        try:
            answer = make_reward_response(http.path, body)
        except BadRequest as bad:
            return _json(protocol.make_error(400, str(bad)), 400)
        self._counts["answers"] += 1
        return _json(answer)

    async def _models(self, _: web.Request) -> web.Response:
        return _json(orjson.dumps({"object": "list", "data": [_MODEL]}))

    async def _stats(self, _: web.Request) -> web.Response:
        """Send the counts since the start.

        `requests` are all chat requests, `answers` those without a fault.
        """
        return _json(
            orjson.dumps({**self._counts, "faults": self.faults, "by_model": self._by_model})
        )

    async def _list_requests(self, _: web.Request) -> web.Response:
        """Send how often each request has arrived and was answered, by its digest."""
        return _json(orjson.dumps({"asked": self.asked, "answered": self.answered}))


async def _send_pieces(http: web.Request, done: Effect, pause_s: float) -> web.StreamResponse:
    """Send the pieces of a body, each after a pause.

    Without a Content-Length its end marks its length.
    """
    response = web.StreamResponse(status=done.status, headers=done.headers)
    await response.prepare(http)
    for piece in done.pieces:
        if pause_s:
            await asyncio.sleep(pause_s)
        await response.write(piece)
    return response


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
