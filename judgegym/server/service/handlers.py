"""The handlers of the routes: each makes a response of a request, or raises a `RequestError`.

The routes: which handler answers a method and a path, and the token that a path may begin with.

The page at `/`: judge a prompt and a response, and see the last hundred judgments.

The opened service: judges, metrics and tokens of one process, which all bindings answer with.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import unquote

from judgegym.judges.config.judge import STAND_IN_IDENTITY
from judgegym.judges.config.sources import LoadedSettings
from judgegym.judges.core.scorer import TaskError
from judgegym.llm.errors import SettingsError
from judgegym.llm.retry import REQUEST_DEADLINE
from judgegym.llm.wire import JSON
from judgegym.offline import StandIn
from judgegym.server.answers import UNUSABLE, FailureAnswers, NotYetError, OverloadError, RequestError
from judgegym.server.cohorts.register import Connect
from judgegym.server.core import Core
from judgegym.server.operation import Telemetry, telemetry
from judgegym.server.protocols.adapters import ADAPTERS
from judgegym.server.protocols.base import Adapter, ProtocolReply
from judgegym.server.protocols.native import result_json
from judgegym.server.protocols.nemo_gym import AggregateBody, aggregate
from judgegym.server.service import openapi
from judgegym.server.service.bodies import (
    PREFIX,
    Access,
    ServerRequest,
    ServerResponse,
    json_response,
    read_object,
    validated,
    without_token,
)
from judgegym.server.settings import JudgeMount, RewardServerSettings


@dataclass(slots=True)
class Service:
    """What answers requests; `draining` refuses new ones."""

    settings: RewardServerSettings
    mounts: Mapping[str, JudgeMount]
    core: Core
    telemetry: Telemetry
    access: Access
    draining: bool = False

    def drain(self) -> None:
        """Refuse new requests, and judge the cohorts that wait for members: none come."""
        self.draining = True
        self.core.stop_gathering()


@asynccontextmanager
async def opened(
    loaded: LoadedSettings[RewardServerSettings], *, connect: Connect = nullcontext
) -> AsyncIterator[Service]:
    """The service for these settings, with the stand-in if they ask for it; open while the context lasts.

    Args:
        loaded: the settings.
        connect: opens the cohorts of all processes, given those of this one; by default this one is alone.

    Raises:
        SettingsError: a judge's settings are wrong.
    """
    settings = loaded.settings
    async with _judges(loaded) as (mounts, identity):
        counted = telemetry(lambda: core.pending)
        core = Core(
            mounts,
            deadline_s=settings.deadline,
            queue_s=settings.queue_deadline,
            max_pending=settings.max_pending,
            on_result=counted.judged,
            on_cohort=counted.cohort,
            judge_identity=identity,
            connect=connect,
        )
        async with core:
            watching = asyncio.create_task(core.watch())
            try:
                yield Service(settings, mounts, core, counted, Access(settings.tokens))
            finally:
                watching.cancel()


@asynccontextmanager
async def _judges(loaded: LoadedSettings[RewardServerSettings]) -> AsyncIterator[tuple[dict[str, JudgeMount], str]]:
    """The judges; with `--offline` all of them call the stand-in, whatever endpoint the settings name."""
    settings, mounts = loaded.settings, loaded.settings.judges()
    if not settings.offline:
        yield mounts, ""
        return
    try:
        stand_in = StandIn(settings.latency_ms, settings.faults, judge_only=True)
    except ValueError as error:
        raise SettingsError(f"--faults or --latency_ms: {error}") from error
    async with stand_in:
        update = {"judge_base_url": stand_in.base_url, "judge_model_name": "offline-judge"}
        yield {name: mount.model_copy(update=update) for name, mount in mounts.items()}, STAND_IN_IDENTITY


_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'"
)


@lru_cache
def page() -> ServerResponse:
    """The page. It contains no data: it requests them with the token that the user enters."""
    html = resources.files("judgegym.server.service").joinpath("templates/page.html").read_bytes()
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
    return ServerResponse(200, html, {"Content-Type": "text/html; charset=utf-8", **headers})


_CALLER_LEFT = 499
_METRICS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}

Handler = Callable[[ServerRequest], Awaitable[ServerResponse]]


def scoring(service: Service, mount: str, adapter: Adapter[Any]) -> Handler:
    """The handler of one protocol for one judge."""
    answers = service.settings.failure_answers()

    async def score(request: ServerRequest) -> ServerResponse:
        started, code, judge = time.monotonic(), 500, mount
        try:
            raw = await read_object(request, service.settings)
            try:
                judge = _named(service, adapter.mount_of(raw), mount)
                reply = await _reply(service, judge, adapter, raw, answers, started, request)
            except RequestError as refused:
                reply = adapter.refused(raw, refused, answers)
            response = json_response(reply.body, headers=reply.headers, failed=reply.failed)
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
    request: ServerRequest,
) -> ProtocolReply:
    """The answer to a body.

    Raises:
        RequestError: it cannot be judged, or the protocol tells of a failed judge by an HTTP status.
    """
    if service.draining:
        raise RequestError(503, "draining", "the server is about to stop")
    body = validated(adapter.body, raw)
    try:
        adapter.check_judge(service.mounts[mount].judge)
        tasks = adapter.tasks(body, raw)
        answers.check(tasks)
        client = request.client
        if client is not None and service.mounts[mount].group_size is not None:
            tasks = [replace(task, client=client) for task in tasks]
    except ValueError as error:
        raise RequestError(422, "invalid", str(error)) from error
    try:
        results = await service.core.score(
            mount,
            tasks,
            spent_s=time.monotonic() - started,
            within_s=_seconds_left(request, service.settings.request_deadline),
            is_patient=adapter.is_patient(answers),
        )
    except TaskError as error:
        raise RequestError(422, UNUSABLE, str(error)) from error
    except OverloadError as error:
        raise RequestError(503, "overloaded", "too many judgments are under way; try again") from error
    except NotYetError as error:
        headers = {"Retry-After": str(error.retry_after_s)}
        raise RequestError(503, error.kind, str(error), headers=headers) from error
    return adapter.reply(body, raw, results, answers)


def _seconds_left(request: ServerRequest, otherwise: float | None) -> float | None:
    """Seconds after which a caller gives up, by its header; `otherwise` if it does not say so.

    Raises:
        RequestError: the header is no number of seconds.
    """
    given = request.headers.get(REQUEST_DEADLINE.lower())
    if given is None:
        return otherwise
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise RequestError(422, "invalid", f"{REQUEST_DEADLINE}: expected a number of seconds, found {given[:20]!r}")
    return seconds


def _named(service: Service, named: str | None, default: str) -> str:
    """The judge that a body names, or the one of the path.

    Raises:
        RequestError: there is no such judge.
    """
    if named is None or named in service.mounts:
        return default if named is None else named
    known = ", ".join(name for name in service.mounts if name) or "none"
    raise RequestError(422, "invalid", f"judge_mount: there is no judge {named!r}; mounted are: {known}")


async def shown_page(request: ServerRequest) -> ServerResponse:
    """The page."""
    return page()


async def healthy(request: ServerRequest) -> ServerResponse:
    """The process is up."""
    return json_response({"status": "ok"})


def ready(service: Service) -> Handler:
    """Whether new requests are taken."""

    async def is_ready(request: ServerRequest) -> ServerResponse:
        if service.draining or service.core.full:
            raise RequestError(503, "draining" if service.draining else "overloaded", "no new requests are taken")
        if down := service.core.down:
            named = ", ".join(f"the judge {name!r}" if name else "the judge" for name in down)
            raise RequestError(503, "judge_down", f"no answer from {named}; the log says why")
        return json_response({"status": "ready"})

    return is_ready


def metrics(service: Service) -> Handler:
    """Prometheus' metrics."""

    async def exposed(request: ServerRequest) -> ServerResponse:
        return ServerResponse(200, await asyncio.to_thread(service.telemetry.exposition), _METRICS)

    return exposed


def document(service: Service) -> Handler:
    """The OpenAPI document."""

    async def described(request: ServerRequest) -> ServerResponse:
        return json_response(openapi.document(service.mounts, ADAPTERS, secured=not service.access.is_open))

    return described


def recent(service: Service) -> Handler:
    """The last judgments."""

    async def listed(request: ServerRequest) -> ServerResponse:
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

    return listed


def seed_session(service: Service) -> Handler:
    """NeMo Gym's sessions: there is nothing to seed."""

    async def seeded(request: ServerRequest) -> ServerResponse:
        await read_object(request, service.settings)
        return json_response({})

    return seeded


def aggregated(service: Service) -> Handler:
    """NeMo Gym's means over verified rollouts."""

    async def means(request: ServerRequest) -> ServerResponse:
        raw = await read_object(request, service.settings, max_mb=service.settings.max_aggregate_mb)
        body = validated(AggregateBody, raw)
        return json_response(await asyncio.to_thread(aggregate, body))

    return means


def reverify_mode(service: Service, mount: str) -> Handler:
    """How NeMo Gym verifies rows again: one by one, which a judge that gathers groups cannot."""
    mode = "stateless" if service.mounts[mount].group_size is None else "unsupported"

    async def told(request: ServerRequest) -> ServerResponse:
        return json_response(mode)

    return told


Methods = Mapping[str, Handler]


class Route(NamedTuple):
    """Where a path leads.

    Attributes:
        methods: the handlers by method; none for an unknown path.
        path: the path without percent-encoding and without its token.
        token: the token in the path.
    """

    methods: Methods
    path: str
    token: str | None = None

    def handler(self, method: str) -> Handler:
        """The handler of a method.

        Raises:
            RequestError: the path is unknown, or takes other methods.
        """
        if not self.methods:
            raise RequestError(404, "http_error", "Not Found")
        handler = self.methods.get(method)
        if handler is None:
            allowed = {"Allow": ",".join(sorted(self.methods))}
            raise RequestError(405, "http_error", "Method Not Allowed", headers=allowed)
        return handler


class Routes:
    """All routes of a service; paths of judges may begin with `/token/TOKEN`."""

    def __init__(self, service: Service) -> None:
        """Make the handlers."""
        self._of_judges: dict[str, Methods] = {}
        for mount in service.mounts:
            prefix = f"/{mount}" if mount else ""
            for adapter in ADAPTERS:
                self._of_judges[prefix + adapter.path] = {"POST": scoring(service, mount, adapter)}
            self._of_judges[f"{prefix}/seed_session"] = {"POST": seed_session(service)}
            self._of_judges[f"{prefix}/aggregate_metrics"] = {"POST": aggregated(service)}
            self._of_judges[f"{prefix}/reverify_mode"] = _get(reverify_mode(service, mount))
        others = {
            "/": _get(shown_page),
            "/healthz": _get(healthy),
            "/readyz": _get(ready(service)),
            "/metrics": _get(metrics(service)),
            "/openapi.json": _get(document(service)),
            "/v1/recent": _get(recent(service)),
        }
        self._places = {path: Route(methods, path) for path, methods in (self._of_judges | others).items()}

    def place(self, path: str) -> Route:
        """Where a percent-encoded path leads."""
        known = self._places.get(path or "/")
        if known is not None:
            return known
        parts = [unquote(part).replace("/", "%2F") for part in path.split("/")]  # an encoded slash ends no token
        plain = "/".join(parts)
        _, *beginning = parts[:3]
        if len(parts) > 3 and beginning[0] == PREFIX:
            methods = self._of_judges.get("/" + "/".join(parts[3:]))
            if methods is not None:
                return Route(methods, without_token(plain), beginning[1].replace("%2F", "/"))
        return self._places.get(plain) or Route({}, without_token(plain))


def _get(handler: Handler) -> Methods:
    return {"GET": handler, "HEAD": handler}
