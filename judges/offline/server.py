"""The HTTP side of the stand-in: routes, latency, faults and counts."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

import orjson
from aiohttp import web

from judges.offline import wire
from judges.offline.answers import answer, noise
from judges.offline.faults import Faults
from judges.offline.request import BadRequest, ChatRequest, parse_request

_JSON = "application/json"
_MAX_BODY = 64 * 1024 * 1024
# Zero would mean to wait for open requests without end.
_GRACE = 0.01
_WITH_RETRY_AFTER = frozenset({"429", "503"})


@dataclass(frozen=True)
class ServerSettings:
    """How the server behaves.

    `latency_ms` is the time from a request's arrival to its answer, of whatever kind; `retry_after` (seconds) is sent
    with 429 and 503 when given.
    """

    latency_ms: float = 0.0
    faults: Faults = field(default_factory=Faults)
    retry_after: int | None = None


class StandInServer:
    """Answers chat completions, and counts what it saw. One instance serves one event loop."""

    def __init__(self, settings: ServerSettings) -> None:
        """A server that has seen nothing yet: its counts and attempts are zero."""
        self._settings = settings
        self._attempts: Counter[str] = Counter()
        self._requests = self._answers = self._in_flight = self._peak = 0
        self._faults: Counter[str] = Counter()
        self._by_model: Counter[str] = Counter()

    def runner(self) -> web.AppRunner:
        """A runner of the routes that ends a request when its client leaves, and all of them when it is cleaned up."""
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._stats)
        return web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_GRACE)

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        """One completion, or the fault drawn for it."""
        due = asyncio.get_running_loop().time() + self._settings.latency_ms / 1000
        self._requests += 1
        self._in_flight += 1
        self._peak = max(self._peak, self._in_flight)
        try:
            try:
                request = parse_request(await http.read())
            except BadRequest as bad:
                return _error(400, str(bad), bad.param)
            except web.HTTPRequestEntityTooLarge:
                return _error(413, f"the request body is larger than {_MAX_BODY} bytes")
            self._by_model[request.model] += 1
            fault = self._fault(request)
            response = self._respond(request, fault)
            wait = due - asyncio.get_running_loop().time()
            if wait > 0:
                await asyncio.sleep(wait)
            if fault is None:
                self._answers += 1
            if response is not None:
                return response
            if fault == "drop" and http.transport is not None:
                http.transport.close()
            await _never()
        finally:
            self._in_flight -= 1

    def _fault(self, request: ChatRequest) -> str | None:
        """Draw this attempt's fault, and count both."""
        if not self._settings.faults.rates:
            return None
        self._attempts[request.digest] += 1
        fault = self._settings.faults.draw(request.digest, self._attempts[request.digest])
        if fault is not None:
            self._faults[fault] += 1
        return fault

    def _respond(self, request: ChatRequest, fault: str | None) -> web.Response | None:
        """The response to this request under this fault; None when there is to be none."""
        choices = range(request.n)
        if fault is None:
            return _ok(wire.completion(request, [answer(request, index) for index in choices]))
        if fault in ("drop", "timeout"):
            return None
        if fault == "garbage":
            return _ok(wire.completion(request, [noise(request, index) for index in choices]))
        if fault == "empty":
            return _ok(wire.completion(request, [""] * request.n))
        if fault == "malformed":
            return _ok(wire.completion(request, [noise(request)])[:-20])
        response = _error(int(fault), f"fault {fault}, injected on purpose")
        if self._settings.retry_after is not None and fault in _WITH_RETRY_AFTER:
            response.headers["Retry-After"] = str(self._settings.retry_after)
        return response

    async def _models(self, _: web.Request) -> web.Response:
        """The list of models. Any name is served; the list has one."""
        return _ok(wire.MODELS)

    async def _stats(self, _: web.Request) -> web.Response:
        """The counts since the start: `requests` is all chat requests, `answers` those that met no fault."""
        counts = {
            "requests": self._requests,
            "in_flight": self._in_flight,
            "peak_in_flight": self._peak,
            "answers": self._answers,
            "faults": dict(self._faults),
            "by_model": dict(self._by_model),
        }
        return _ok(orjson.dumps(counts))


async def _never() -> NoReturn:
    """Wait until the handler is cancelled."""
    while True:
        await asyncio.Event().wait()


def _ok(body: bytes) -> web.Response:
    return web.Response(body=body, content_type=_JSON)


def _error(status: int, message: str, param: str | None = None) -> web.Response:
    return web.Response(status=status, body=wire.error(status, message, param), content_type=_JSON)
