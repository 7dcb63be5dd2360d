"""The HTTP application: the routes and their handlers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from judges.llm.wire import JSON
from judges.server.core import Core, ItemError, OverloadError
from judges.server.errors import RequestError, json_response
from judges.server.http import openapi, page
from judges.server.http.access import Access
from judges.server.http.bodies import read_object, validated
from judges.server.http.middleware import Handler, around
from judges.server.protocols.base import Adapter
from judges.server.protocols.native import Native, result_json
from judges.server.protocols.nemo_gym import AggregateBody, NemoGym, aggregate
from judges.server.protocols.openrlhf import OpenRLHF
from judges.server.protocols.slime import Slime
from judges.server.settings import JudgeMount, RewardServerSettings
from judges.server.telemetry import Telemetry

ADAPTERS: tuple[Adapter[Any], ...] = (Native(), OpenRLHF(), Slime(), NemoGym())
_CALLER_LEFT = 499


@dataclass(slots=True)
class Service:
    """State shared by the handlers."""

    settings: RewardServerSettings
    mounts: Mapping[str, JudgeMount]
    core: Core
    telemetry: Telemetry
    access: Access
    draining: bool = False


def application(service: Service) -> web.Application:
    """The application with its routes."""
    limit = int(service.settings.max_body_mb * 1024 * 1024)
    app = web.Application(middlewares=[around(service.access)], client_max_size=limit)
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


def _scoring(service: Service, mount: str, adapter: Adapter[Any]) -> Handler:
    """The handler of one protocol for one judge."""

    async def score(request: web.Request) -> web.StreamResponse:
        started, code = time.monotonic(), 500
        try:
            if service.draining:
                raise RequestError(503, "draining", "the server is about to stop")
            raw = await read_object(request, service.settings)
            body = validated(adapter.body, raw)
            try:
                items = adapter.items(body, raw)
            except ValueError as error:
                raise RequestError(422, "invalid", str(error)) from error
            try:
                results = await service.core.score(mount, items, spent_s=time.monotonic() - started)
            except ItemError as error:
                raise RequestError(422, "unusable", str(error)) from error
            except OverloadError as error:
                raise RequestError(503, "overloaded", "too many judgments are under way; try again") from error
            reply = adapter.reply(body, raw, results, fallback=service.settings.fallback_score)
            response = json_response(reply.body)
            response.headers.update(reply.headers)
            code = 200
            return response
        except RequestError as refused:
            code = refused.code
            raise
        except (ConnectionResetError, asyncio.CancelledError):
            code = _CALLER_LEFT
            raise
        finally:
            service.telemetry.requested(mount, adapter.name, code, time.monotonic() - started)

    return score


async def _health(request: web.Request) -> web.StreamResponse:
    return json_response({"status": "ok"})


def _ready(service: Service) -> Handler:
    async def ready(request: web.Request) -> web.StreamResponse:
        if service.draining or service.core.full:
            raise RequestError(503, "draining" if service.draining else "overloaded", "no new requests are taken")
        return json_response({"status": "ready"})

    return ready


def _metrics(service: Service) -> Handler:
    async def metrics(request: web.Request) -> web.StreamResponse:
        body = await asyncio.to_thread(service.telemetry.exposition)
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    return metrics


def _document(service: Service) -> Handler:
    async def document(request: web.Request) -> web.StreamResponse:
        return json_response(openapi.document(service.mounts, ADAPTERS, secured=not service.access.is_open))

    return document


def _recent(service: Service) -> Handler:
    async def recent(request: web.Request) -> web.StreamResponse:
        shown: list[JSON] = [
            {
                "at": judgment.at,
                "judge": judgment.mount or service.mounts[""].judge,
                "prompt": judgment.prompt,
                "response": judgment.response,
                "seconds": judgment.seconds,
                "result": result_json(judgment.result),
            }
            for judgment in reversed(service.core.recent)
        ]
        return json_response({"judgments": shown})

    return recent


def _seed_session(service: Service) -> Handler:
    async def seed(request: web.Request) -> web.StreamResponse:
        await read_object(request, service.settings)
        return json_response({})

    return seed


def _aggregate(service: Service) -> Handler:
    async def aggregated(request: web.Request) -> web.StreamResponse:
        raw = await read_object(request, service.settings)
        return json_response(aggregate(validated(AggregateBody, raw)))

    return aggregated


async def _reverify_mode(request: web.Request) -> web.StreamResponse:
    return json_response("stateless")
