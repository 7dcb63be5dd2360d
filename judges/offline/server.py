"""The HTTP side of the stand-in: routes, latency, faults and counts."""

import asyncio
from collections import Counter

import orjson
from aiohttp import web

from judges.offline import wire
from judges.offline.answers import answers, noise
from judges.offline.known import BUILT_IN
from judges.offline.request import BadRequest, ChatRequest, parse_request
from judges.offline.settings import StandInSettings

_MODEL = {"id": "stand-in", "object": "model", "created": 0, "owned_by": "judges.offline"}
_MAX_BODY = 64 * 1024 * 1024
_GRACE = 0.01  # seconds; aiohttp reads zero as no limit


class StandInServer:
    """Answers chat completions, and counts requests and faults. One instance serves one event loop."""

    def __init__(self, settings: StandInSettings) -> None:
        """Set up a server whose counts are zero."""
        self._settings = settings
        self._prompts = (*settings.prompts, *BUILT_IN)
        self._attempts: Counter[str] = Counter()
        self._counts = {"requests": 0, "in_flight": 0, "peak_in_flight": 0, "answers": 0}
        self._faults: Counter[str] = Counter()
        self._by_model: Counter[str] = Counter()

    def runner(self) -> web.AppRunner:
        """A runner of the routes that ends a request when its client leaves, and all of them when it is cleaned up."""
        app = web.Application(client_max_size=_MAX_BODY)
        for prefix in ("/v1", ""):
            app.router.add_post(f"{prefix}/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._stats)
        return web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_GRACE)

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        """One completion, or the fault drawn for it."""
        due = asyncio.get_running_loop().time() + self._settings.latency_ms / 1000
        counts = self._counts
        counts["requests"] += 1
        counts["in_flight"] += 1
        counts["peak_in_flight"] = max(counts["peak_in_flight"], counts["in_flight"])
        try:
            request = parse_request(await http.read())
            self._by_model[request.model] += 1
            fault = self._fault(request)
            response = self._respond(request, fault)
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            counts["answers"] += fault is None
            if response is not None:
                return response
            if fault == "drop" and http.transport is not None:
                http.transport.close()
            never: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
            return await never  # until the handler is cancelled
        except BadRequest as bad:
            return _json(wire.error(400, str(bad)), 400)
        finally:
            counts["in_flight"] -= 1

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
        match fault:
            case None:
                texts = answers(request, self._prompts, judge_only=self._settings.judge_only)
                return _json(wire.completion(request, texts))
            case "drop" | "timeout":
                return None
            case "garbage":
                return _json(wire.completion(request, [noise(request, index) for index in range(request.n)]))
            case "empty":
                return _json(wire.completion(request, [""] * request.n))
            case "malformed":
                return _json(wire.completion(request, [noise(request)])[:-20])
        response = _json(wire.error(int(fault), f"fault {fault}, injected on purpose"), int(fault))
        if self._settings.retry_after is not None and fault in ("429", "503"):
            response.headers["Retry-After"] = str(self._settings.retry_after)
        return response

    async def _models(self, _: web.Request) -> web.Response:
        return _json(orjson.dumps({"object": "list", "data": [_MODEL]}))

    async def _stats(self, _: web.Request) -> web.Response:
        """The counts since the start: `requests` is all chat requests, `answers` those that met no fault."""
        return _json(orjson.dumps({**self._counts, "faults": self._faults, "by_model": self._by_model}))


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
