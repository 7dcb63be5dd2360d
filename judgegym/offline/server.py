"""The HTTP side of the stand-in: routes, latency, faults and counts."""

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

import orjson
from aiohttp import web

from judgegym.offline.answers import answers
from judgegym.offline.faults import HARMLESS
from judgegym.offline.known import BUILT_IN
from judgegym.offline.listening import Listener
from judgegym.offline.misbehaviour import HUGE, Effect, effect, whole
from judgegym.offline.prefix_cache import PrefixCache
from judgegym.offline.protocol import responses, wire
from judgegym.offline.protocol.request import BadRequest, ChatRequest, parse_request
from judgegym.offline.settings import StandInSettings

_MODEL = {"id": "stand-in", "object": "model", "created": 0, "owned_by": "judgegym.offline"}
_MAX_BODY = 64 * 1024 * 1024
_GRACE = 0.01  # seconds; aiohttp reads zero as no limit
_PIECES = 10
_NO_LINGER = struct.pack("ii", 1, 0)  # closing the socket resets the connection


class StandInServer:
    """Answers chat completions and responses, and counts requests and faults. One instance serves one event loop.

    Attributes:
        asked: how often each request has arrived, by its digest.
        answered: how often each request had its answer.
        faults: how often each kind of fault was met.
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
        self._prefixes = PrefixCache() if settings.prefix_cache else None
        self._listening = Listener(self._runner())

    @property
    def requests(self) -> int:
        """All chat requests since the start."""
        return self._counts["requests"]

    def serving(self, listener: socket.socket) -> AbstractAsyncContextManager[None]:
        """Serve on this socket while the block lasts; its end ends all requests."""
        return self._listening.serving(listener)

    def _runner(self) -> web.AppRunner:
        """A runner of the routes that ends a request when its client leaves."""
        app = web.Application(client_max_size=_MAX_BODY)
        for prefix in ("/v1", ""):
            app.router.add_post(f"{prefix}/chat/completions", self._complete)
            app.router.add_post(f"{prefix}/responses", self._complete)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._stats)
        app.router.add_get("/requests", self._list_requests)
        return web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_GRACE)

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        """One completion, or the fault drawn for it."""
        due = asyncio.get_running_loop().time() + self._settings.latency_ms / 1000
        counts = self._counts
        counts["requests"] += 1
        counts["in_flight"] += 1
        counts["peak_in_flight"] = max(counts["peak_in_flight"], counts["in_flight"])
        try:
            if (seconds := self._away.get(counts["requests"])) is not None:
                self._listening.go_away(seconds)
            body, in_responses = await http.read(), http.path.endswith("/responses")
            request = parse_request(responses.chat_body(body) if in_responses else body)
            self._by_model[request.model] += 1
            if self._settings.text_only and request.properties is not None:
                raise BadRequest("response_format is not supported by this endpoint: leave it out")
            fault = self._fault(request, is_spared=in_responses)
            response = self._respond(request, fault, in_responses=in_responses)
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            if self._listening.is_away:
                return await self._send(http, Effect("reset"))  # this one may have been accepted as it went away
            is_answer = fault is None or fault in HARMLESS or (fault == "duplicate_choices" and request.n == 1)
            counts["answers"] += is_answer
            self.answered[request.digest] += is_answer
            return response if isinstance(response, web.Response) else await self._send(http, response)
        except BadRequest as bad:
            return _json(wire.error(400, str(bad)), 400)
        finally:
            counts["in_flight"] -= 1

    def _fault(self, request: ChatRequest, *, is_spared: bool) -> str | None:
        """Draw this attempt's fault, and count both; faults are those of chat completions."""
        self.asked[request.digest] += 1
        if is_spared or not self._settings.faults.rates:
            return None
        fault = self._settings.faults.draw(request.digest, self.asked[request.digest])
        if fault == "no_finish" and not self._counts["answers"]:
            fault = None  # an endpoint that has given no reason yet may be one that never does
        if fault is not None:
            self.faults[fault] += 1
        return fault

    def _respond(self, request: ChatRequest, fault: str | None, *, in_responses: bool) -> web.Response | Effect:
        """The response to this request under this fault; an effect that is none."""
        texts = partial(answers, request, self._prompts, judge_only=self._settings.judge_only)
        if fault is None:
            cached = None if self._prefixes is None else self._prefixes.cached_tokens(request.messages)
            answer = wire.completion(request, texts(), cached=cached)
            done = whole(request, responses.response(answer) if in_responses else answer)
        else:
            done = effect(fault, request, texts, self.asked[request.digest])
        if done.end != "response":
            return done
        response = web.Response(body=done.body, status=done.status, headers=done.headers)
        if self._settings.retry_after is not None and fault in ("429", "503"):
            response.headers["Retry-After"] = str(self._settings.retry_after)
        return response

    async def _send(self, http: web.Request, done: Effect) -> web.StreamResponse:
        """Send what is no plain response; if the connection has no end by then, wait for it."""
        with contextlib.suppress(ConnectionError):  # the client has left
            match done.end:
                case "events":
                    return await _send_pieces(http, done, [b"%b\n\n" % each for each in done.body.split(b"\n\n")[:-1]])
                case "pieces":
                    size = max(1, -(-len(done.body) // _PIECES))
                    pieces = [done.body[place : place + size] for place in range(0, len(done.body), size)]
                    return await _send_pieces(http, done, pieces, pause=self._settings.slow_ms / 1000 / len(pieces))
                case "endless":
                    return await _send_without_end(http, done.body)
        transport = http.transport
        if transport is not None and done.end != "hang":
            transport.write(done.body)
            if done.end == "reset":
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            transport.close()
        never: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
        return await never  # until the handler is cancelled

    async def _models(self, _: web.Request) -> web.Response:
        return _json(orjson.dumps({"object": "list", "data": [_MODEL]}))

    async def _stats(self, _: web.Request) -> web.Response:
        """The counts since the start: `requests` is all chat requests, `answers` those that met no fault."""
        return _json(orjson.dumps({**self._counts, "faults": self.faults, "by_model": self._by_model}))

    async def _list_requests(self, _: web.Request) -> web.Response:
        """How often each request has arrived and was answered, by its digest."""
        return _json(orjson.dumps({"asked": self.asked, "answered": self.answered}))


async def _send_pieces(
    http: web.Request, done: Effect, pieces: Sequence[bytes], *, pause: float = 0
) -> web.StreamResponse:
    """Send these pieces, each after a pause of these seconds; how long a stream is shows at its end alone."""
    response = web.StreamResponse(headers=done.headers)
    if response.content_type != "text/event-stream":
        response.content_length = len(done.body)
    await response.prepare(http)
    for piece in pieces:
        if pause:
            await asyncio.sleep(pause)
        await response.write(piece)
    return response


async def _send_without_end(http: web.Request, body: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()  # its length is known at its end alone
    await response.prepare(http)
    piece = body * (1 << 16)
    for _ in range(HUGE // len(piece)):
        await response.write(piece)
    return response


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
