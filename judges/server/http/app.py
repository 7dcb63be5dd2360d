"""The HTTP application: the routes and their handlers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from judges.llm.wire import JSON
from judges.server.answers import FailureAnswers
from judges.server.core import Core, ItemError, OverloadError
from judges.server.errors import RequestError, json_response
from judges.server.http.middleware import NOTE, Handler, around
from judges.server.protocols.base import Adapter, ProtocolReply
from judges.server.protocols.native import Native, result_json
from judges.server.protocols.nemo_gym import NemoGym
from judges.server.protocols.nemo_gym_metrics import AggregateBody, aggregate
from judges.server.protocols.openrlhf import OpenRLHF
from judges.server.protocols.slime import Slime
from judges.server.service import access, openapi, page
from judges.server.service.access import Access
from judges.server.service.bodies import read_object, validated
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
    app = web.Application(middlewares=[around(service.access)])
    app.router.add_get("/", page.handler)
    app.router.add_get("/healthz", _health)
    app.router.add_get("/readyz", _ready(service))
    app.router.add_get("/metrics", _metrics(service))
    app.router.add_get("/openapi.json", _document(service))
    app.router.add_get("/v1/recent", _recent(service))
    mounted = [(f"/{name}" if name else "", name) for name in service.mounts]
    for prefix, name in [*mounted, *((f"{access.PATTERN}{prefix}", name) for prefix, name in mounted)]:
        for adapter in ADAPTERS:
            app.router.add_post(prefix + adapter.path, _scoring(service, name, adapter))
        app.router.add_post(f"{prefix}/seed_session", _seed_session(service))
        app.router.add_post(f"{prefix}/aggregate_metrics", _aggregate(service))
        app.router.add_get(f"{prefix}/reverify_mode", _reverify_mode)
    return app


def _scoring(service: Service, mount: str, adapter: Adapter[Any]) -> Handler:
    """The handler of one protocol for one judge."""
    answers = service.settings.failure_answers()

    async def score(request: web.Request) -> web.StreamResponse:
        started, code, judge = time.monotonic(), 500, mount
        try:
            raw = await read_object(request, service.settings)
            try:
                judge = _named(service, adapter.mount_of(raw), mount)
                reply = await _reply(service, judge, adapter, raw, answers, started)
            except RequestError as refused:
                reply = adapter.refused(raw, refused, answers)
            NOTE.set(reply.failed)
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
            service.telemetry.requested(judge, adapter.name, code, time.monotonic() - started)

    return score


async def _reply(
    service: Service,
    mount: str,
    adapter: Adapter[Any],
    raw: Mapping[str, JSON],
    answers: FailureAnswers,
    started: float,
) -> ProtocolReply:
    """The answer to a body.

    Raises:
        RequestError: it cannot be judged, or the protocol tells of a failed judge by an HTTP status.
    """
    if service.draining:
        raise RequestError(503, "draining", "the server is about to stop")
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
    return adapter.reply(body, raw, results, answers)


def _named(service: Service, named: str | None, default: str) -> str:
    """The judge that a body names, or the one of the path.

    Raises:
        RequestError: there is no such judge.
    """
    if named is None or named in service.mounts:
        return default if named is None else named
    known = ", ".join(name for name in service.mounts if name) or "none"
    raise RequestError(422, "invalid", f"judge_mount: there is no judge {named!r}; mounted are: {known}")


async def _health(request: web.Request) -> web.StreamResponse:
    return json_response({"status": "ok"})


def _ready(service: Service) -> Handler:
    async def ready(request: web.Request) -> web.StreamResponse:
        if service.draining or service.core.full:
            raise RequestError(503, "draining" if service.draining else "overloaded", "no new requests are taken")
        if down := service.core.down:
            named = ", ".join(f"the judge {name!r}" if name else "the judge" for name in down)
            raise RequestError(503, "judge_down", f"no answer from {named}; the log says why")
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
        raw = await read_object(request, service.settings, max_mb=service.settings.max_aggregate_mb)
        body = validated(AggregateBody, raw)
        return json_response(await asyncio.to_thread(aggregate, body))

    return aggregated


async def _reverify_mode(request: web.Request) -> web.StreamResponse:
    return json_response("stateless")
