"""Connections of the reward server: how many, how long one may take to send a request's head, and the end of them all.

aiohttp reads a request's head for as long as the client likes. Therefore a connection is first this module's: it goes
to aiohttp when the head has arrived, or gets an error when the time is over or there are too many connections.

The service behind aiohttp's low-level server: no router and no middleware, since the service has its own.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

from aiohttp import HttpVersion11, web

from judgegym.llm import wire
from judgegym.server.service.messages import BrokenBodyError, ServerRequest
from judgegym.server.service.opened import Service
from judgegym.server.service.respond import responder

_IDLE_S = 120.0
"""How long a connection may be idle between two requests; trainers keep theirs."""


def server_of(service: Service, under_way: set[asyncio.Task[Any]]) -> web.Server:
    """The protocol factory of a service's connections.

    Args:
        service: answers the requests.
        under_way: holds the task of each request while it is answered.
    """
    respond = responder(service)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        content = request.content
        # Most bodies arrive with their heads: those are not waited for.
        is_whole = content.is_eof() and content.exception() is None
        body = content.read_nowait() if is_whole else _parts(request)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        under_way.add(task)
        try:
            given = await respond(ServerRequest(request.method, request.rel_url.raw_path, request.headers, body))
        finally:
            under_way.discard(task)
        response = web.Response(body=given.body, status=given.status, headers=given.headers)
        if given.closes:
            response.force_close()
        return response

    # Who leaves is told apart from who waits: a response that is sent again takes the place that it had in its cohort.
    return web.Server(
        handle, access_log=None, auto_decompress=False, keepalive_timeout=_IDLE_S, handler_cancellation=True
    )


async def _parts(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """The body as it arrives; a caller that waits for permission to send it gets it now."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # of the response nothing has been sent
    try:
        while part := await request.content.readany():
            yield part
    except web.RequestPayloadError as error:
        raise BrokenBodyError from error


_BACKLOG = 4096
_WRITING_S = 1.0
"""For responses that are being written when the time of their requests is over."""
_LARGEST_HEAD = 64 * 1024
"""aiohttp refuses a head before it is that large."""
_REASONS = {408: "Request Timeout", 503: "Service Unavailable"}


@asynccontextmanager
async def listening(
    service: Service, host: str, port: int, *, shutdown_timeout: float, reuse_port: bool = False
) -> AsyncIterator[tuple[str, int]]:
    """Serve on an address while the context lasts; at its end, answer the requests in flight.

    Yields:
        The address, with the port that was taken.

    Raises:
        OSError: the address cannot be used.
    """
    loop, under_way = asyncio.get_running_loop(), set[asyncio.Task[Any]]()
    server = server_of(service, under_way)
    runner = web.ServerRunner(server, shutdown_timeout=shutdown_timeout + _WRITING_S)
    await runner.setup()
    try:
        limits = _Limits(server, service.settings.header_timeout, service.settings.max_connections)
        listener = await loop.create_server(
            lambda: _Arrival(limits), host, port, backlog=_BACKLOG, reuse_port=reuse_port or None
        )
        try:
            yield listener.sockets[0].getsockname()[:2]
        finally:
            listener.close()
            limits.close()
    finally:
        # aiohttp waits for requests under way for its time-out, and then once more before it cancels them.
        ending = loop.call_later(shutdown_timeout, _cancel, under_way)
        await runner.cleanup()
        ending.cancel()


def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tuple(tasks):
        task.cancel()


class _Limits:
    """The limits of all connections, and those whose first head has not arrived."""

    def __init__(self, server: web.Server, header_timeout_s: float, most: int) -> None:
        self.server, self.header_timeout_s, self.most = server, header_timeout_s, most
        self.arriving: set[_Arrival] = set()

    @property
    def full(self) -> bool:
        """Whether there are as many connections as allowed."""
        return len(self.server.connections) + len(self.arriving) >= self.most

    def close(self) -> None:
        """Close the connections that have sent no request."""
        for arrival in tuple(self.arriving):
            arrival.close()


class _Arrival(asyncio.Protocol):
    """A connection until its first request's head has arrived."""

    def __init__(self, limits: _Limits) -> None:
        self._limits = limits
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time."""
        self._transport = cast("asyncio.Transport", transport)  # a base class that uvloop's do not inherit
        if self._limits.full:
            self._refuse(503, "overloaded", "too many connections are open (--max_connections)")
            return
        self._limits.arriving.add(self)
        timeout_s = self._limits.header_timeout_s
        reason = f"the request's head did not come within {timeout_s:g} seconds (--header_timeout)"
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._refuse, 408, "timeout", reason)

    def data_received(self, data: bytes) -> None:
        """Hand the connection over if the head is complete, or too large for aiohttp to take."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        seen = max(0, len(self._head) - 3)
        self._head += data
        complete = self._head.find(b"\r\n\r\n", seen) >= 0 or self._head.find(b"\n\n", seen) >= 0
        if not complete and len(self._head) < _LARGEST_HEAD and not self._is_no_request():
            return
        self._leave()
        handler = self._limits.server()
        handler.connection_made(transport)
        transport.set_protocol(handler)
        handler.data_received(bytes(self._head))

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._leave()
        self._transport = None

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _is_no_request(self) -> bool:
        """Whether the first line is complete and not one of HTTP: aiohttp answers that at once."""
        line, newline, _ = self._head.partition(b"\n")
        return bool(newline) and not line.rstrip().endswith((b"HTTP/1.1", b"HTTP/1.0"))

    def _leave(self) -> None:
        self._limits.arriving.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def _refuse(self, code: int, kind: str, message: str) -> None:
        if self._transport is None:
            return
        body = wire.dumps({"error": {"type": kind, "message": message, "request_id": uuid.uuid4().hex}})
        retry = "Retry-After: 1\r\n" if code == 503 else ""
        head = (
            f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: application/json\r\n{retry}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        self._transport.close()
