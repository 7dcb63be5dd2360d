"""A request over ASGI, from its head to its JSON and its token; and a response.

The body has limits of time and size. Every refusal is a `RequestError`. Tokens are compared in
constant time; each has a name for the log. A token is a bearer token; or, for trainers that can set
a URL and no header, the user or the password of the URL (`http://TOKEN@host:8400/…`, sent as
Basic), or the beginning of its path (`http://host:8400/token/TOKEN/…`). `redact_token` removes a
token from a path.

The span of a request (`judgegym.llm.tracing`) continues the trace context of its headers. Probes
and scrapes have none. Source: OpenTelemetry, semantic conventions for HTTP servers.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import os
import re
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from judgegym.judges.config.explaining import locate_error
from judgegym.llm import wire
from judgegym.llm.tracing import SpanTracer
from judgegym.llm.wire import JSON
from judgegym.server.answers import RequestError
from judgegym.server.settings import RewardServerSettings

Message: TypeAlias = MutableMapping[str, Any]  # ASGI's own types
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_ENCODINGS: Mapping[str, int] = {"identity": 0, "gzip": 31, "deflate": 15}
"""Supported encodings of bodies, with zlib's window bits for each."""
BODY_TIMEOUT_S = 30.0
"""Seconds within which a body must arrive."""
_LONGEST_ID = 64
_RECEIVED = 16
"""A body that is too large is received up to this many times the limit.

A client that still sends reads no response.
"""


class TooLargeError(Exception):
    """The body exceeds its limit."""


class ServerRequest:
    """A request whose body may not have arrived yet.

    The task that reads the body also notices when the caller disconnects.

    Attributes:
        method: the method in capitals.
        path: the path without query and mount prefix, percent-encoded as sent.
        headers: headers by lower-case name; of repeated headers the first.
        address: the server's address at which it arrived.
        client: the name of the caller's token; `None` where no token is needed.
        has_left: whether the caller has disconnected; the responding task is then cancelled.
    """

    def __init__(self, scope: Message, receive: Receive) -> None:
        """Read the head, and nothing of the body."""
        self.method: str = scope["method"]
        self.path = _path(scope)
        self.headers = {_text(name): _text(value) for name, value in reversed(scope["headers"])}
        self.address: str | None = (scope.get("server") or (None,))[0]
        self.client: str | None = None
        self.has_left = False
        self._receive = receive
        self._answering = asyncio.current_task()
        self._reading: asyncio.Task[None] | None = None
        self._is_too_large = False

    @property
    def identity(self) -> str:
        """The caller's request id if it is short and printable, else a new one."""
        header = self.headers.get("x-request-id", "")
        is_short = 0 < len(header) <= _LONGEST_ID
        if is_short and header.isascii() and header.isprintable():
            return header
        return os.urandom(16).hex()

    async def json_object(
        self, settings: RewardServerSettings, *, max_mb: float | None = None
    ) -> Mapping[str, JSON]:
        """Return the body as a JSON object.

        It is read once, and only after the caller is authenticated and the body is needed.

        Args:
            settings: has the size limit.
            max_mb: another size limit in megabytes, for compressed and uncompressed bodies.

        Raises:
            RequestError: the body is late, too large, incomplete, in an unknown encoding, or no
                JSON object.
            ConnectionResetError: the caller has left.
        """
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in _ENCODINGS:
            expected = ", ".join(_ENCODINGS)
            reason = f"Content-Encoding {encoding[:40]!r} is not known; expected {expected}"
            raise RequestError(415, "unsupported", reason, is_unread=True)
        limit_mb = settings.max_body_mb
        if max_mb is not None:
            limit_mb = max_mb
        limit = int(limit_mb * 1024 * 1024)
        length = self.headers.get("content-length", "")
        try:
            declared = 0
            if length.isdecimal():
                declared = int(length)
            if declared > (limit if "expect" in self.headers else _RECEIVED * limit):
                raise TooLargeError  # the client waits, or would send for too long
            data = _decompress(await self._read(limit), encoding, limit)
        except asyncio.TimeoutError:
            reason = f"the body did not come within {BODY_TIMEOUT_S:g} seconds"
            raise RequestError(408, "timeout", reason, is_unread=True) from None
        except TooLargeError:
            setting = ""
            if max_mb is None:
                setting = " (--max_body_mb)"
            reason = f"the body is larger than {limit_mb:g} MB{setting}"
            raise RequestError(413, "too_large", reason, is_unread=True) from None
        except zlib.error as error:
            reason = (
                "the body could not be read: it ends early, or is not compressed as its "
                "Content-Encoding says"
            )
            raise RequestError(400, "malformed", reason, is_unread=True) from error
        try:
            value = wire.loads(data)  # accepts lone surrogates: trainers cut texts at tokens
        except ValueError as error:
            raise RequestError(400, "malformed", f"the body is not JSON: {error}") from error
        if not isinstance(value, dict):
            kind = type(value).__name__
            raise RequestError(422, "invalid", f"expected a JSON object, found {kind}")
        return value

    def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
        self._reading = None  # its error refers to this request

    async def _read(self, limit: int) -> bytes:
        """Return the whole body, of at most `limit` bytes.

        A body that is too large is received to its end within the timeout, and discarded: a client
        that still sends reads no response.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[bytes | type[Exception]] = loop.create_future()
        self._reading = loop.create_task(self._collect(limit, arrived))
        timer = loop.call_later(BODY_TIMEOUT_S, _settle, arrived, asyncio.TimeoutError)
        try:
            outcome = await arrived
        finally:
            timer.cancel()
        if isinstance(outcome, bytes):
            return outcome
        raise TooLargeError if self._is_too_large else outcome

    async def _collect(self, limit: int, arrived: asyncio.Future[bytes | type[Exception]]) -> None:
        data = bytearray()
        is_more = True
        while is_more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.has_left = True
                _settle(arrived, ConnectionResetError)
                return
            if not self._is_too_large:
                data += message.get("body", b"")
                self._is_too_large = len(data) > limit
            is_more = message.get("more_body", False)
        _settle(arrived, TooLargeError if self._is_too_large else bytes(data))
        del data
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        if self._answering is not None:
            self._answering.cancel()


def _settle(
    arrived: asyncio.Future[bytes | type[Exception]], outcome: bytes | type[Exception]
) -> None:
    if not arrived.done():
        arrived.set_result(outcome)


def _path(scope: Message) -> str:
    """Return the path below the application's mount point, percent-encoded."""
    raw = scope.get("raw_path")
    prefix = quote(scope.get("root_path", ""))
    path: str = raw.decode("latin-1").partition("?")[0] if raw else quote(scope["path"])
    return path.removeprefix(prefix)


def _text(header: bytes) -> str:
    return header.decode("utf-8", "surrogateescape")


def _decompress(data: bytes, encoding: str, limit: int) -> bytes:
    """Decompress a body.

    Raises:
        zlib.error: the body is not compressed in this way.
        TooLargeError: the body is larger than `limit`.
    """
    if encoding == "identity":
        return data
    reader = zlib.decompressobj(_ENCODINGS[encoding])
    plain = reader.decompress(data, limit + 1)
    if len(plain) > limit:
        raise TooLargeError
    if not reader.eof:
        raise zlib.error("the compressed body ends early")
    return plain


@dataclass(slots=True)
class ServerResponse:
    """An HTTP response.

    Attributes:
        status: the status code.
        body: the body; for HEAD it is not sent.
        headers: all headers but the length and those of the connection.
        closes: whether part of the request's body stays unread, so that the connection must close.
        failed: the reason why a response without an error has no score; for the log, not sent.
    """

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    closes: bool = False
    failed: str | None = None

    async def send(self, send: Send, *, has_body: bool) -> None:
        """Send it; the body only if the request wants one."""
        length = str(len(self.body))
        pairs = [*self.headers.items(), ("Content-Length", length)]
        if self.closes:
            pairs.append(("Connection", "close"))
        encoded = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": encoded})
        await send({"type": "http.response.body", "body": self.body if has_body else b""})


def json_response(
    value: JSON,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    failed: str | None = None,
) -> ServerResponse:
    """Return a response of JSON."""
    return ServerResponse(
        status,
        wire.dumps(value),
        {"Content-Type": "application/json", **(headers or {})},
        failed=failed,
    )


async def trace_request(
    tracing: SpanTracer, route: str, request: ServerRequest, response: Awaitable[ServerResponse]
) -> ServerResponse:
    """Respond to a request within a span; `route` is its path without data.

    Raises:
        RequestError: the error of `response`; the span has its status code.
    """
    name = f"{request.method} {route}"
    attributes = {"http.request.method": request.method, "http.route": route}
    outcome: ServerResponse | RequestError
    with tracing.span(
        name, {**attributes}, kind=tracing.kinds.SERVER, carrier=request.headers
    ) as span:
        try:
            outcome = await response
            code = outcome.status
        except RequestError as error:
            outcome = error
            code = error.code
        span.attributes["http.response.status_code"] = code
        span.error = str(code) if code >= 500 else None
    if isinstance(outcome, RequestError):
        raise outcome
    return outcome


BodyT = TypeVar("BodyT", bound=BaseModel)
_SHOWN_ERRORS = 5


def validate_body(model: type[BodyT], raw: Mapping[str, JSON]) -> BodyT:
    """Validate an object as an instance of `model`.

    Raises:
        RequestError: the object is not valid; the message names the fields.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise RequestError(
            422, "invalid", "; ".join(_explain_errors(error.errors(), model))
        ) from error


def _explain_errors(errors: Sequence[ErrorDetails], model: type[BaseModel]) -> list[str]:
    """Explain errors by field; for a field of several types only those of the best-fitting type."""
    reasons: dict[str, dict[str, None]] = {}
    for error in errors:
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
            message = "unknown field; expected " + ", ".join(model.model_fields)
        reasons.setdefault(".".join(locate_error(error)), {})[message] = None
    deepest = [
        place for place in reasons if not any(longer.startswith(f"{place}.") for longer in reasons)
    ]
    return [
        (place or "body") + ": " + " or ".join(reasons[place]) for place in deepest[:_SHOWN_ERRORS]
    ]


PREFIX = "token"
"""First part of a path whose second part is a token."""

_IN_PATH = re.compile(rf"(?<=/{PREFIX}/)[^/]+")


def redact_token(path: str) -> str:
    """Return a path without its token, for logs."""
    return _IN_PATH.sub("…", path)


def identify_caller(
    tokens: Mapping[str, SecretStr], authorization: str, path_token: str | None
) -> str | None:
    """Return the name of the token in an `Authorization` header or a path; `None` if none is valid.

    All tokens are compared, so that the time taken reveals nothing about them.
    """
    known_name: str | None = None
    for presented in _candidate_tokens(authorization, path_token):
        for name, token in tokens.items():
            if hmac.compare_digest(presented, token.get_secret_value().encode()) and presented:
                known_name = name
    return known_name


def _candidate_tokens(authorization: str, path_token: str | None) -> Iterator[bytes]:
    """Yield everything that may be a token."""
    if path_token is not None:
        yield path_token.encode("utf-8", "surrogateescape")
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() == "bearer":
        yield credentials.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(credentials.strip(), validate=True).partition(b":")
        except (binascii.Error, ValueError):
            return
        yield user
        yield password
