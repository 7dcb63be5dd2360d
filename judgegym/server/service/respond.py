"""What a request to the reward server means: one function, with no framework in it.

Guarantees: every response has a request id, and every error is JSON with it; nothing of a body is read before the
caller is known; a request is one line of the log, without bodies and without tokens; an error of our own is a 500 for
this request alone, with a traceback in the log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace

from judgegym.llm.errors import let_go
from judgegym.llm.urls import is_loopback
from judgegym.server.answers import RequestError
from judgegym.server.service.bodies import ServerRequest, ServerResponse, json_response
from judgegym.server.service.handlers import Route, Routes, Service

logger = logging.getLogger(__name__)

Respond = Callable[[ServerRequest], Coroutine[None, None, ServerResponse]]

REQUEST_ID = "X-Request-Id"
_LONGEST_REQUEST_ID = 64
_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/openapi.json"})
_OF_STATUS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    415: {"Accept-Encoding": "gzip, deflate"},
    503: {"Retry-After": "1"},
}


def responder(service: Service) -> Respond:
    """The function that answers requests to a service.

    It raises `ConnectionResetError` if the caller leaves before the body is there, and `CancelledError`.
    """
    routes = Routes(service)

    async def respond(request: ServerRequest) -> ServerResponse:
        started = time.monotonic()
        identity = request_id(request)
        place = routes.place(request.path)
        caller: str | None = None
        try:
            caller = _caller(service, request, place)
            known = request if caller is None else replace(request, client=caller)
            response = await place.handler(request.method)(known)
        except RequestError as refused:
            response = failed_response(refused, identity)
            let_go(refused)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception:  # boundary of the server: the caller gets JSON, the log the traceback
            logger.exception("a request failed", extra={"fields": {"request_id": identity, "path": place.path}})
            internal = RequestError(500, "internal", "the server failed; its log has the request id")
            response = failed_response(internal, identity)
        if logger.isEnabledFor(logging.INFO):
            line: dict[str, object] = {
                "request_id": identity,
                "caller": caller,
                "method": request.method,
                "path": place.path,
                "code": response.status,
                "ms": round(1000 * (time.monotonic() - started), 1),
            }
            if response.failed is not None:
                line["failed"] = response.failed
            logger.info("request", extra={"fields": line})
        headers = {**response.headers, REQUEST_ID: identity}
        return ServerResponse(response.status, response.body, headers, response.closes, response.failed)

    return respond


def failed_response(error: RequestError, identity: str) -> ServerResponse:
    """An error as JSON with a type, a message and the request id, and with the headers of its status code."""
    body = {"error": {"type": error.kind, "message": error.message, "request_id": identity}}
    headers = {**_OF_STATUS.get(error.code, {}), **error.headers, REQUEST_ID: identity}
    return json_response(body, error.code, headers, closes=error.is_unread)


def _caller(service: Service, request: ServerRequest, place: Route) -> str | None:
    """The name of the caller's token; `None` where no token is needed.

    Raises:
        RequestError: a token is needed, and no known one is given; or the server is open to other machines without any.
    """
    if service.access.is_open and request.address is not None:
        _check_address(service, request.address)
    if service.access.is_open or place.path in _OPEN_PATHS:
        return None
    caller = service.access.caller(request.headers.get("authorization"), place.token)
    if caller is None:
        expected = "Authorization: Bearer TOKEN, or http://TOKEN@host/… or /token/TOKEN/… in the URL"
        raise RequestError(401, "unauthorized", f"expected a known token: {expected}")
    return caller


def _check_address(service: Service, address: str) -> None:
    """Check that a server without tokens is not open to other machines, unless it is meant to be.

    Raises:
        RequestError: it is.
    """
    if not service.settings.insecure and not is_loopback(f"http://{_bracketed(address)}"):
        reason = (
            "the server has no tokens, and is open to other machines: set JUDGEGYM_TOKENS or JUDGEGYM_INSECURE=true"
        )
        raise RequestError(401, "unauthorized", reason, is_unread=True)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def request_id(request: ServerRequest) -> str:
    """The caller's request id if it is short and printable, else a new one."""
    given = request.headers.get("x-request-id", "")
    usable = 0 < len(given) <= _LONGEST_REQUEST_ID and given.isascii() and given.isprintable()
    return given if usable else os.urandom(16).hex()
