"""The opened service: a table of routes with a handler for each, without any HTTP.

Guarantees: every response has a request id, and every error is JSON with it; no byte of a body is
read before the caller is authenticated; each request is one log line, without bodies and tokens; an
internal error is a 500 for this request alone, with a traceback in the log.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import resources
from typing import TypeAlias
from urllib.parse import unquote

from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.config.sources import LoadedSettings
from judgegym.judges.core.tasks import TaskError
from judgegym.judges.scorers.registry import COMPARING_KINDS
from judgegym.judges.scorers.stand_in import list_references
from judgegym.llm import tracing
from judgegym.llm.at_once import bind_context
from judgegym.llm.cost.budget import CALLER_BUDGET
from judgegym.llm.errors import drop_traceback
from judgegym.llm.retries.retry import REQUEST_DEADLINE
from judgegym.llm.urls import is_loopback
from judgegym.llm.wire import JSON
from judgegym.offline import running_stand_ins
from judgegym.server import openapi
from judgegym.server.answers import UNUSABLE, RequestError
from judgegym.server.budgets import ServerBudgets
from judgegym.server.core import Core
from judgegym.server.judges import JudgeTable
from judgegym.server.monitoring import ServerMonitors
from judgegym.server.operation import open_telemetry
from judgegym.server.protocols.base import RequestBody
from judgegym.server.protocols.native import ScoreBody, result_json
from judgegym.server.protocols.nemo_gym import (
    MOUNT,
    AggregateBody,
    CompareBody,
    VerifyBody,
    aggregate,
    close_session,
    seed_session,
)
from judgegym.server.protocols.remote_rewards import RewardBody, SlimeBody
from judgegym.server.request import (
    PREFIX,
    ServerRequest,
    ServerResponse,
    identify_caller,
    json_response,
    redact_token,
    trace_request,
    validate_body,
)
from judgegym.server.settings import JudgeMount, RewardServerSettings, bracket_host

logger = logging.getLogger(__name__)

PROTOCOLS: tuple[type[RequestBody], ...] = (
    ScoreBody,
    RewardBody,
    SlimeBody,
    VerifyBody,
    CompareBody,
)
Handler: TypeAlias = Callable[[ServerRequest], Awaitable[ServerResponse]]

REQUEST_ID = "X-Request-Id"
_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/openapi.json"})
_STATUS_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    415: {"Accept-Encoding": "gzip, deflate"},
    503: {"Retry-After": "1"},
}
LARGEST_AGGREGATE_MB = 256.0
"""Size limit of a body of /aggregate_metrics, which holds a whole run."""
_CALLER_LEFT = 499
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_PAGE_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
}


@asynccontextmanager
async def open_service(loaded: LoadedSettings[RewardServerSettings]) -> AsyncIterator[Service]:
    """Open the service for these settings, and its stand-in if they ask for one.

    Raises:
        SettingsError: a judge's settings are wrong.
        RunDirectoryError: another process uses the run directory, or it cannot be written to.
    """
    settings = loaded.settings
    judges = {"judge": True} if settings.offline else {}
    settings.mounted_judges()  # an error of a judge names its setting
    async with running_stand_ins(judges, settings.faults, list_references(settings)) as urls:
        # With `--offline` all judges get these settings, whatever theirs name.
        endpoint = (
            {"judge_base_url": urls["judge"], "judge_model_name": "offline-judge"} if urls else {}
        )
        mounts = _mount_judges(settings, endpoint)
        counts = open_telemetry()
        monitors = None
        if settings.is_watched:
            monitors = ServerMonitors(settings, mounts, counts)
        budgets = settings.budgets()
        core = Core(
            mounts,
            deadline_s=settings.deadline,
            max_pending=settings.max_pending,
            telemetry=counts,
            judge_identity=STAND_IN_IDENTITY if settings.offline else "",
            monitors=monitors,
            budget=budgets.whole,
        )
        async with core:
            watching = asyncio.create_task(core.watch())
            try:
                yield Service(settings, endpoint, core, budgets)
            finally:
                watching.cancel()


def _mount_judges(
    settings: RewardServerSettings, endpoint: Mapping[str, str]
) -> dict[str, JudgeMount]:
    """Return the judges of the settings, at `endpoint` where one is given."""
    return {
        name: mount.model_copy(update=endpoint) for name, mount in settings.mounted_judges().items()
    }


def error_response(error: RequestError, identity: str) -> ServerResponse:
    """Return an error as JSON (type, message, request id), with the headers of its status code."""
    body: JSON = {"error": {"type": error.kind, "message": error.message, "request_id": identity}}
    response = json_response(
        body, error.code, {**_STATUS_HEADERS.get(error.code, {}), **error.headers}
    )
    response.headers[REQUEST_ID], response.closes = identity, error.is_unread
    return response


class Service:
    """The judges, metrics and tokens of one process, and the routes to them.

    Attributes:
        settings: the server's settings.
        core: judges and scores.
        draining: whether new requests are refused.
    """

    def __init__(
        self,
        settings: RewardServerSettings,
        endpoint: Mapping[str, str],
        core: Core,
        budgets: ServerBudgets,
    ) -> None:
        """Make the table of routes; `endpoint` has the settings of a stand-in for all judges."""
        self.settings = settings
        self.core = core
        self.draining = False
        self._endpoint = endpoint
        self._budgets = budgets
        self._answers = settings.failure_answers()
        self._make_routes()

    async def remount(self, settings: RewardServerSettings) -> None:
        """Serve the judges and accept the tokens of these settings from now on.

        Raises:
            SettingsError: a judge's settings are wrong; nothing has changed.
        """
        await self.core.remount(_mount_judges(settings, self._endpoint))
        self._budgets.add_clients(settings.tokens)
        self.settings = settings
        self._make_routes()

    def _make_routes(self) -> None:
        """Map paths and methods to handlers; paths of judges may begin with `/token/TOKEN`."""
        self._mounts = {
            name: judge.settings for name, judge in self.core.judges.table.judges.items()
        }
        self._judge_routes: dict[str, dict[str, Handler]] = {}
        for mount in self._mounts:
            prefix = ""
            if mount:
                prefix = f"/{mount}"
            for protocol in PROTOCOLS:
                self._judge_routes[prefix + protocol.path] = {
                    "POST": partial(self._score, mount, protocol)
                }
            self._judge_routes[f"{prefix}/seed_session"] = {
                "POST": partial(self._session, seed_session)
            }
            self._judge_routes[f"{prefix}/close_session"] = {
                "POST": partial(self._session, close_session)
            }
            self._judge_routes[f"{prefix}/aggregate_metrics"] = {"POST": self._aggregate}
            self._judge_routes[f"{prefix}/reverify_mode"] = _get(
                partial(self._reverify_mode, mount)
            )
        self._routes = self._judge_routes | {
            "/": _get(self._page),
            "/healthz": _get(self._healthy),
            "/readyz": _get(self._ready),
            "/metrics": _get(self._metrics),
            "/openapi.json": _get(self._document),
            "/v1/recent": _get(self._recent),
        }

    def drain(self) -> None:
        """Refuse new requests, and judge the open cohorts without their missing members."""
        self.draining = True
        self.core.cohorts.stop()

    async def respond(self, request: ServerRequest) -> ServerResponse:
        """Respond to a request.

        Raises:
            ConnectionResetError: the caller disconnected before the body arrived.
        """
        started = time.monotonic()
        identity = request.identity
        methods, path, token = self._route(request.path)
        try:
            self._check_caller(request, path, token)
            if request.method not in methods:
                raise _route_error(methods)
            answering = methods[request.method](request)
            if tracing.active is not None and request.method == "POST":
                answering = trace_request(tracing.active, path, request, answering)
            response = await answering
            response.headers[REQUEST_ID] = identity
        except RequestError as refused:
            response = error_response(refused, identity)
            drop_traceback(refused)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception:  # boundary of the server: the caller gets JSON, the log the traceback
            logger.exception(
                "a request failed", extra={"fields": {"request_id": identity, "path": path}}
            )
            internal = RequestError(
                500, "internal", "the server failed; its log has the request id"
            )
            response = error_response(internal, identity)
        if logger.isEnabledFor(logging.INFO):
            line: dict[str, object] = {
                "request_id": identity,
                "caller": request.client,
                "method": request.method,
                "path": path,
                "code": response.status,
                "ms": round(1000 * (time.monotonic() - started), 1),
            }
            if response.failed is not None:
                line["failed"] = response.failed
            logger.info("request", extra={"fields": line})
        return response

    def _route(self, path: str) -> tuple[Mapping[str, Handler], str, str | None]:
        """Look up a percent-encoded path.

        Returns:
            Its handlers by method, none if it is unknown; the path without a token, for logs; the
                token.
        """
        path = path or "/"
        if path in self._routes:
            return self._routes[path], path, None
        parts = [
            unquote(part).replace("/", "%2F") for part in path.split("/")
        ]  # an encoded slash ends no token
        plain = "/".join(parts)
        if len(parts) > 3 and parts[1] == PREFIX:
            methods = self._judge_routes.get("/" + "/".join(parts[3:]))
            if methods is not None:
                return methods, redact_token(plain), parts[2].replace("%2F", "/")
        return self._routes.get(plain, {}), redact_token(plain), None

    def _check_caller(self, request: ServerRequest, path: str, token: str | None) -> None:
        """Authenticate the caller where tokens are needed, and note the name of its token.

        Raises:
            RequestError: the token is missing or unknown; or the server has no tokens and the
                request came from another machine.
        """
        tokens = self.settings.tokens
        if not tokens:
            is_ours = request.address is None or is_loopback(
                "http://" + bracket_host(request.address)
            )
            if not is_ours and not self.settings.insecure:
                reason = "the server has no tokens, and is open to other machines: "
                ways = "set JUDGEGYM_TOKENS or JUDGEGYM_INSECURE=true"
                raise RequestError(401, "unauthorized", reason + ways, is_unread=True)
        elif path not in _OPEN_PATHS:
            request.client = identify_caller(
                tokens, request.headers.get("authorization", ""), token
            )
            if request.client is None:
                expected = (
                    "Authorization: Bearer TOKEN, or http://TOKEN@host/… or /token/TOKEN/… in the "
                    "URL"
                )
                raise RequestError(401, "unauthorized", f"expected a known token: {expected}")

    async def _score(
        self, mount: str, protocol: type[RequestBody], request: ServerRequest
    ) -> ServerResponse:
        """Score a request in one protocol with one judge."""
        started = time.monotonic()
        code = 500
        judge = mount
        try:
            with self.core.judges.table.in_use() as table:
                raw = await request.json_object(self.settings)
                raw = protocol.merge_session(raw, request.headers.get("cookie", ""))
                try:
                    judge = mount
                    if protocol.names_judge:
                        judge = _select_judge(raw, mount, table)
                    response = await self._judge_body(judge, table, protocol, raw, request, started)
                except RequestError as refused:
                    response = protocol.reply_to_error(raw, refused, self._answers)
                    self.core.telemetry.count_unjudged(judge, refused.kind)
            code = 200
            return response
        except RequestError as refused:
            code = refused.code
            raise
        except (ConnectionResetError, asyncio.CancelledError):
            code = _CALLER_LEFT
            raise
        finally:
            seconds = time.monotonic() - started
            self.core.telemetry.count_request(
                judge, protocol.protocol, code, seconds, self.core.pending
            )

    async def _judge_body(
        self,
        mount: str,
        table: JudgeTable,
        protocol: type[RequestBody],
        raw: Mapping[str, JSON],
        request: ServerRequest,
        started: float,
    ) -> ServerResponse:
        """Judge a body and return the response.

        Raises:
            RequestError: the body cannot be judged, or the protocol reports a failed judge by an
                HTTP status.
        """
        if self.draining:
            raise RequestError(503, "draining", "the server is stopping")
        body = validate_body(protocol, raw)
        settings = table.judges[mount].settings
        try:
            if protocol.compares and settings.definition.most_together is None:
                sees = f"the judge {settings.judge} sees each response by itself"
                kinds = ", ".join(COMPARING_KINDS)
                raise ValueError(f"{protocol.path}: {sees}; expected one of {kinds}")
            tasks = body.tasks(raw)
            if not protocol.tells_faults:
                self._answers.check(tasks)
        except ValueError as error:
            raise RequestError(422, "invalid", str(error)) from error
        if request.client is not None and settings.group_size is not None:
            tasks = [replace(task, client=request.client) for task in tasks]
        try:
            with bind_context(
                CALLER_BUDGET, self._budgets.find_budget(request.client)
            ):  # of the calls of the tasks that are begun here
                results = await self.core.score(
                    mount,
                    tasks,
                    spent_s=time.monotonic() - started,
                    within_s=self._seconds_left(request),
                    is_patient=protocol.is_patient(self._answers),
                    table=table,
                )
        except TaskError as error:
            raise RequestError(422, UNUSABLE, str(error)) from error
        except RequestError as refused:
            if len(tasks) == 1 and len(tasks[0].responses) == 1:
                refused.others = self.core.recent_scores.list_scores(table.judges[mount], tasks[0])
            raise
        return body.reply(raw, results, self._answers)

    @staticmethod
    def _seconds_left(request: ServerRequest) -> float | None:
        """Return the seconds after which the caller gives up, from its header; `None` without one.

        Raises:
            RequestError: the header is no number of seconds.
        """
        header = request.headers.get(REQUEST_DEADLINE.lower())
        if header is None:
            return None
        try:
            seconds = float(header)
        except ValueError:
            seconds = math.nan
        if 0 < seconds < math.inf:
            return seconds
        raise RequestError(
            422,
            "invalid",
            f"{REQUEST_DEADLINE}: expected a number of seconds, found {header[:20]!r}",
        )

    async def _session(
        self, respond: Callable[[Mapping[str, JSON]], ServerResponse], request: ServerRequest
    ) -> ServerResponse:
        """Respond to NeMo Gym's session requests."""
        return respond(await request.json_object(self.settings))

    async def _aggregate(self, request: ServerRequest) -> ServerResponse:
        """Respond with NeMo Gym's means over verified rollouts."""
        raw = await request.json_object(self.settings, max_mb=LARGEST_AGGREGATE_MB)
        return json_response(await asyncio.to_thread(aggregate, validate_body(AggregateBody, raw)))

    async def _reverify_mode(self, mount: str, request: ServerRequest) -> ServerResponse:
        """Respond with how NeMo Gym may verify rows again: singly, unless groups are gathered."""
        return json_response(
            "stateless" if self._mounts[mount].group_size is None else "unsupported"
        )

    async def _page(self, request: ServerRequest) -> ServerResponse:
        """Respond with a page to judge a prompt and a response.

        The page holds no data; it requests them with the token that the user enters.
        """
        html = resources.files("judgegym.server").joinpath("templates/page.html").read_bytes()
        return ServerResponse(200, html, {**_PAGE_HEADERS})

    async def _healthy(self, request: ServerRequest) -> ServerResponse:
        """Respond that the process is up."""
        return json_response({"status": "ok"})

    async def _ready(self, request: ServerRequest) -> ServerResponse:
        """Respond whether new requests are accepted."""
        if self.draining or self.core.is_full:
            raise RequestError(
                503, "draining" if self.draining else "overloaded", "no new requests are taken"
            )
        if down := [
            name for name, judge in self.core.judges.table.judges.items() if judge.health.is_down
        ]:
            names = ", ".join(f"the judge {name!r}" if name else "the judge" for name in down)
            raise RequestError(503, "judge_down", f"no answer from {names}; the log says why")
        return json_response({"status": "ready"})

    async def _metrics(self, request: ServerRequest) -> ServerResponse:
        """Respond with Prometheus metrics."""
        text = await asyncio.to_thread(self.core.telemetry.exposition, self.core.pending)
        return ServerResponse(200, text, {"Content-Type": _TEXT})

    async def _document(self, request: ServerRequest) -> ServerResponse:
        """Respond with the OpenAPI document."""
        return json_response(
            openapi.document(self._mounts, PROTOCOLS, secured=bool(self.settings.tokens))
        )

    async def _recent(self, request: ServerRequest) -> ServerResponse:
        """Respond with the latest judgments."""
        judgments: list[JSON] = [
            {
                "at": judgment.at,
                "judge": judgment.mount or self._mounts[""].judge,
                "prompt": judgment.prompt,
                "response": judgment.response,
                "seconds": judgment.seconds,
                "result": result_json(judgment.result),
            }
            for judgment in reversed(self.core.record.recent)
        ]
        return json_response({"judgments": judgments})


def _get(handler: Handler) -> dict[str, Handler]:
    return {"GET": handler, "HEAD": handler}


def _route_error(methods: Mapping[str, Handler]) -> RequestError:
    """Return the error for an unknown path, or for a path that takes other methods."""
    if not methods:
        return RequestError(404, "http_error", "Not Found")
    return RequestError(
        405, "http_error", "Method Not Allowed", headers={"Allow": ",".join(sorted(methods))}
    )


def _select_judge(raw: Mapping[str, JSON], default: str, table: JudgeTable) -> str:
    """Return the judge that a body names, since some clients cannot choose a path; else the path's.

    Raises:
        RequestError: there is no such judge.
    """
    mount = raw.get(MOUNT)
    if not isinstance(mount, str):
        return default
    if mount in table.judges:
        return mount
    mounted = ", ".join(name for name in table.judges if name) or "none"
    raise RequestError(
        422, "invalid", f"{MOUNT}: there is no judge {mount!r}; expected one of {mounted}"
    )
