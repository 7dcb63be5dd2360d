"""Requests that are refused, and every error as one shape of JSON: a type, a message and the request's id."""

from __future__ import annotations

from aiohttp import web

from judges.llm import wire
from judges.llm.wire import JSON

_RETRY_AFTER_S = "1"


class Refused(Exception):
    """A request that gets an error: its status code, its type and what is wrong."""

    def __init__(self, code: int, kind: str, message: str, *, is_unread: bool = False) -> None:
        """Say why, and whether some of the body is left that nobody will read."""
        super().__init__(message)
        self.code, self.kind, self.message, self.is_unread = code, kind, message, is_unread


def json_response(value: JSON, code: int = 200) -> web.Response:
    """A response of JSON."""
    return web.Response(body=wire.dumps(value), status=code, content_type="application/json")


def error_response(code: int, kind: str, message: str, request_id: str) -> web.Response:
    """An error, with the headers that its status code wants."""
    response = json_response({"error": {"type": kind, "message": message, "request_id": request_id}}, code)
    if code == 503:
        response.headers["Retry-After"] = _RETRY_AFTER_S
    if code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
