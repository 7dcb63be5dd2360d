"""The HTTP application: routes, who may call, errors as JSON, a line of log and a count for each request."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import cast

from aiohttp import web
from pydantic import BaseModel, ValidationError

from judges.llm import wire
from judges.llm.wire import JSON
from judges.server import openapi, page
from judges.server.access import Access
from judges.server.core import Core, Overloaded, Unusable
from judges.server.items import Item
from judges.server.protocols.base import Adapter
from judges.server.protocols.native import Native, result_json
from judges.server.protocols.nemo_gym import AggregateBody, Verify, aggregate
from judges.server.protocols.openrlhf import OpenRLHF
from judges.server.protocols.slime import Slime
from judges.server.settings import JudgeMount, RewardServerSettings
from judges.server.telemetry import Telemetry

logger = logging.getLogger(__name__)

ADAPTERS: tuple[Adapter, ...] = (Native(), OpenRLHF(), Slime(), Verify())  # type: ignore[assignment]  # each with its own body
REQUEST_ID = "X-Request-Id"
_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/openapi.json"})
_RETRY_AFTER_S = "1"
_CALLER_LEFT = 499

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Service:
    """What the handlers share."""

    settings: RewardServerSettings
    mounts: Mapping[str, JudgeMount]
    core: Core
    telemetry: Telemetry
    access: Access
    draining: bool = False


class Refused(Exception):
    """A request that gets an error: its code, its kind and what is wrong."""

    def __init__(self, code: int, kind: str, message: str, *, is_unread: bool = False) -> None:
        """Say why, and whether some of the body is left that nobody will read."""
        super().__init__(message)
        self.code, self.kind, self.message, self.is_unread = code, kind, message, is_unread


def application(service: Service) -> web.Application:
    """The server's routes."""

    @web.middleware
    async def around(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await _around(service, request, handler)

    limit = int(service.settings.max_body_mb * 1024 * 1024)
    app = web.Application(middlewares=[around], client_max_size=limit)
    app.router.add_get("/", page.handler)
    app.router.add_get("/healthz", _health)
    app.router.add_get("/readyz", _ready(service))
    app.router.add_get("/metrics", _metrics(service))
    app.router.add_get("/openapi.json", _document(service))
    app.router.add_get("/v1/recent", _recent(service))
    for name in service.mounts:
        prefix = f"/{name}" if name else ""
        for adapter in ADAPTERS:
            app.router.add_post(prefix + adapter.path, _scoring(service, name, adapter))
        app.router.add_post(f"{prefix}/seed_session", _seed_session(service))
        app.router.add_post(f"{prefix}/aggregate_metrics", _aggregate(service))
        app.router.add_get(f"{prefix}/reverify_mode", _reverify_mode)
    return app


async def _around(service: Service, request: web.Request, handler: Handler) -> web.StreamResponse:
    """Who calls, what went wrong, and the line of log."""
    started = time.monotonic()
    request_id = _request_id(request)
    caller: str | None = None
    try:
        if not service.access.is_open and request.path not in _OPEN_PATHS:
            caller = service.access.caller(request.headers.get("Authorization"))
            if caller is None:
                raise Refused(401, "unauthorized", "expected a known token: Authorization: Bearer …")
        response = await handler(request)
    except Refused as refused:
        response = _error(refused.code, refused.kind, refused.message, request_id)
        if refused.is_unread:
            response.force_close()
    except web.HTTPException as error:
        response = _error(error.status, "http_error", error.reason, request_id)
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
    except (ConnectionResetError, asyncio.CancelledError):
        raise
    except Exception:  # the application's boundary: the caller gets JSON, the log the trace
        logger.exception("a request failed", extra={"fields": {"request_id": request_id, "path": request.path}})
        response = _error(500, "internal", "the server failed; its log has the request id", request_id)
    response.headers[REQUEST_ID] = request_id
    fields = {
        "request_id": request_id,
        "caller": caller,
        "method": request.method,
        "path": request.path,
        "code": response.status,
        "ms": round(1000 * (time.monotonic() - started), 1),
    }
    logger.info("request", extra={"fields": fields})
    return response


def _request_id(request: web.Request) -> str:
    """The caller's own, if it is one that a log can take, or a new one."""
    given = request.headers.get(REQUEST_ID, "")
    return given if 0 < len(given) <= 64 and given.isascii() and given.isprintable() else uuid.uuid4().hex


def _error(code: int, kind: str, message: str, request_id: str) -> web.Response:
    response = _json({"error": {"type": kind, "message": message, "request_id": request_id}}, code)
    if code == 503:
        response.headers["Retry-After"] = _RETRY_AFTER_S
    if code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _json(value: JSON, code: int = 200) -> web.Response:
    return web.Response(body=wire.dumps(value), status=code, content_type="application/json")


def _scoring(service: Service, mount: str, adapter: Adapter) -> Handler:
    """A handler that scores through one protocol."""

    async def score(request: web.Request) -> web.StreamResponse:
        started, code = time.monotonic(), 500
        try:
            if service.draining:
                raise Refused(503, "draining", "the server is about to stop")
            raw = await _object(service, request)
            body = _validated(adapter.body, raw)
            items = _items(adapter, body, raw)
            try:
                results = await service.core.score(mount, items, spent_s=time.monotonic() - started)
            except Unusable as error:
                raise Refused(422, "unusable", str(error)) from error
            except Overloaded as error:
                raise Refused(503, "overloaded", "too many judgments are under way; try again") from error
            reply = adapter.reply(body, raw, results, fallback=service.settings.fallback_score)
            response = _json(reply.body)
            response.headers.update(reply.headers)
            code = 200
            return response
        except Refused as refused:
            code = refused.code
            raise
        except (ConnectionResetError, asyncio.CancelledError):
            code = _CALLER_LEFT
            raise
        finally:
            service.telemetry.requested(mount, adapter.name, code, time.monotonic() - started)

    return score


def _items(adapter: Adapter, body: BaseModel, raw: Mapping[str, JSON]) -> list[Item]:
    try:
        return adapter.items(body, raw)
    except ValueError as error:
        raise Refused(422, "invalid", str(error)) from error


async def _object(service: Service, request: web.Request) -> Mapping[str, JSON]:
    """The body's JSON object."""
    try:
        data = await asyncio.wait_for(request.read(), service.settings.body_timeout)
    except asyncio.TimeoutError:
        said = f"the body did not come within {service.settings.body_timeout:g} seconds"
        raise Refused(408, "timeout", said, is_unread=True) from None
    except web.HTTPRequestEntityTooLarge:
        said = f"the body is larger than {service.settings.max_body_mb:g} MB (--max_body_mb)"
        raise Refused(413, "too_large", said, is_unread=True) from None
    except web.RequestPayloadError as error:
        said = "the body could not be read: it ends early, or is not compressed as its Content-Encoding says"
        raise Refused(400, "malformed", said, is_unread=True) from error
    try:
        value = wire.loads(data)  # which reads lone surrogates too: models' texts are cut at tokens
    except ValueError as error:
        raise Refused(400, "malformed", f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Refused(422, "invalid", f"expected a JSON object, found {type(value).__name__}")
    return value


def _validated(model: type[BaseModel], raw: Mapping[str, JSON]) -> BaseModel:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        said = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors()[:5]]
        raise Refused(422, "invalid", "; ".join(said)) from error


async def _health(request: web.Request) -> web.StreamResponse:
    return _json({"status": "ok"})


def _ready(service: Service) -> Handler:
    async def ready(request: web.Request) -> web.StreamResponse:
        if service.draining or service.core.full:
            raise Refused(503, "draining" if service.draining else "overloaded", "no new requests are taken")
        return _json({"status": "ready"})

    return ready


def _metrics(service: Service) -> Handler:
    async def metrics(request: web.Request) -> web.StreamResponse:
        body = await asyncio.to_thread(service.telemetry.exposition)
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    return metrics


def _document(service: Service) -> Handler:
    async def document(request: web.Request) -> web.StreamResponse:
        return _json(openapi.document(service.mounts, ADAPTERS, secured=not service.access.is_open))

    return document


def _recent(service: Service) -> Handler:
    async def recent(request: web.Request) -> web.StreamResponse:
        shown: list[JSON] = [
            {
                "at": each.at,
                "judge": each.mount or service.mounts[""].judge,
                "prompt": each.prompt,
                "response": each.response,
                "seconds": each.seconds,
                "result": result_json(each.result),
            }
            for each in reversed(service.core.recent)
        ]
        return _json({"judgments": shown})

    return recent


def _seed_session(service: Service) -> Handler:
    async def seed(request: web.Request) -> web.StreamResponse:
        await _object(service, request)
        return _json({})

    return seed


def _aggregate(service: Service) -> Handler:
    async def aggregated(request: web.Request) -> web.StreamResponse:
        raw = await _object(service, request)
        return _json(aggregate(cast(AggregateBody, _validated(AggregateBody, raw))))

    return aggregated


async def _reverify_mode(request: web.Request) -> web.StreamResponse:
    return _json("stateless")
