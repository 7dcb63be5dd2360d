"""Middleware of all requests: authentication, errors as JSON, a request id in each response, a log line."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from aiohttp import web
from aiohttp.typedefs import Middleware

from judges.server.errors import RequestError, error_response
from judges.server.service.access import Access, without_token

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

NOTE: ContextVar[str | None] = ContextVar("note", default=None)
"""Why an answer with status 200 holds no score; for the log."""
REQUEST_ID = "X-Request-Id"
_LONGEST_REQUEST_ID = 64
_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/openapi.json"})


def around(access: Access) -> Middleware:
    """The middleware of a server that accepts these tokens."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.monotonic()
        NOTE.set(None)
        request_id = _request_id(request)
        caller: str | None = None
        try:
            caller = _caller(access, request)
            response = await handler(request)
        except RequestError as refused:
            response = error_response(refused.code, refused.kind, refused.message, request_id)
            if refused.is_unread:
                response.force_close()
        except web.HTTPException as error:
            response = error_response(error.status, "http_error", error.reason, request_id)
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception:  # boundary of the application: the caller gets JSON, the log the traceback
            fields = {"request_id": request_id, "path": without_token(request.path)}
            logger.exception("a request failed", extra={"fields": fields})
            response = error_response(500, "internal", "the server failed; its log has the request id", request_id)
        response.headers[REQUEST_ID] = request_id
        line: dict[str, object] = {
            "request_id": request_id,
            "caller": caller,
            "method": request.method,
            "path": without_token(request.path),
            "code": response.status,
            "ms": round(1000 * (time.monotonic() - started), 1),
        }
        if (failed := NOTE.get()) is not None:
            line["failed"] = failed
        logger.info("request", extra={"fields": line})
        return response

    return middleware


def _caller(access: Access, request: web.Request) -> str | None:
    """The name of the caller's token; `None` where no token is needed.

    Raises:
        RequestError: a token is needed, and no known one is given.
    """
    if access.is_open or request.path in _OPEN_PATHS:
        return None
    caller = access.caller(request.headers.get("Authorization"), request.match_info.get("token"))
    if caller is None:
        expected = "Authorization: Bearer TOKEN, or http://TOKEN@host/… or /token/TOKEN/… in the URL"
        raise RequestError(401, "unauthorized", f"expected a known token: {expected}")
    return caller


def _request_id(request: web.Request) -> str:
    """The caller's request id if it is short and printable, else a new one."""
    given = request.headers.get(REQUEST_ID, "")
    usable = 0 < len(given) <= _LONGEST_REQUEST_ID and given.isascii() and given.isprintable()
    return given if usable else uuid.uuid4().hex
