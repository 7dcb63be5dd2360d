"""Error responses: JSON with a type, a message and the request id."""

from __future__ import annotations

from aiohttp import web

from judges.llm import wire
from judges.llm.wire import JSON

_RETRY_AFTER_S = "1"


class RequestError(Exception):
    """Answer the request with an error: status code, type and message."""

    def __init__(self, code: int, kind: str, message: str, *, is_unread: bool = False) -> None:
        """Describe the error; with `is_unread` a part of the body stays unread, so that the connection must close."""
        super().__init__(message)
        self.code, self.kind, self.message, self.is_unread = code, kind, message, is_unread


def json_response(value: JSON, code: int = 200) -> web.Response:
    """A response of JSON."""
    return web.Response(body=wire.dumps(value), status=code, content_type="application/json")


def error_response(code: int, kind: str, message: str, request_id: str) -> web.Response:
    """An error response with the headers of its status code."""
    response = json_response({"error": {"type": kind, "message": message, "request_id": request_id}}, code)
    if code == 503:
        response.headers["Retry-After"] = _RETRY_AFTER_S
    if code == 415:
        response.headers["Accept-Encoding"] = "gzip, deflate"
    if code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
