"""The server's listener: uvicorn's HTTP protocol with limits on connections, and draining.

uvicorn waits for a request's head without a time limit, and accepts any number of connections. This
module adds a time limit for the first head, a size limit for heads, and a limit on connections.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from judgegym.server.answers import RequestError
from judgegym.server.asgi import serve_request
from judgegym.server.service import Service, error_response
from judgegym.server.settings import RewardServerSettings

if TYPE_CHECKING:
    from uvicorn.server import ServerState

HEAD_TIMEOUT_S = 10.0
"""Seconds within which the head of a connection's first request must arrive."""
MOST_CONNECTIONS = 4096
"""Limit of open connections; more are allowed if more judgments may be pending."""
_BACKLOG = 4096
_IDLE_S = 120
"""Seconds that a connection may be idle between two requests; trainers keep theirs open."""
_ABORT_S = 1.0
"""Seconds for requests to notice that draining timed out and their connection was closed."""
_LARGEST_HEAD = 64 * 1024


class Connection(HttpToolsProtocol):
    """A connection with limits: number of connections, time of the first head, size of heads."""

    def __init__(self, server: uvicorn.Server, settings: RewardServerSettings) -> None:
        """Read the limits from the settings."""
        super().__init__(server.config, server.server_state, {})
        self._settings = settings
        self._head_size: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Start the timer of the first head; refuse a connection beyond the limit."""
        super().connection_made(transport)
        if len(self.connections) > max(MOST_CONNECTIONS, self._settings.max_pending):
            self._refuse(503, "overloaded", "too many connections are open (--max_pending)")
            return
        reason = f"the request's head did not come within {HEAD_TIMEOUT_S:g} seconds"
        self._timer = self.loop.call_later(HEAD_TIMEOUT_S, self._refuse, 408, "timeout", reason)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; refuse a head that is too large."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._head_size is not None:
            self._head_size += len(data)
            if self._head_size > _LARGEST_HEAD:
                self.send_400_response(f"the request's head is larger than {_LARGEST_HEAD} bytes")

    def on_message_begin(self) -> None:
        """Start counting the bytes of a head."""
        super().on_message_begin()
        self._head_size = 0

    def on_headers_complete(self) -> None:
        """Start responding to the request; its body may still be on its way."""
        self._head_size = None
        self._stop_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Respond to malformed HTTP with an error in JSON, and close."""
        self._refuse(400, "malformed", msg)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, code: int, kind: str, message: str) -> None:
        response = error_response(RequestError(code, kind, message), uuid.uuid4().hex)
        headers = {
            **response.headers,
            "Content-Length": str(len(response.body)),
            "Connection": "close",
        }
        phrase = HTTPStatus(code).phrase
        lines = [
            f"HTTP/1.1 {code} {phrase}",
            *(f"{name}: {headers[name]}" for name in headers),
        ]
        head = "\r\n".join([*lines, "", ""])
        self.transport.write(head.encode() + response.body)
        self.transport.close()


@asynccontextmanager
async def listening(
    service: Service, *, reuse_port: bool = False
) -> AsyncIterator[tuple[str, int]]:
    """Serve on the address of the settings; on exit, drain the requests in flight.

    Yields:
        The address, with the port in use.

    Raises:
        OSError: the address cannot be used.
    """
    settings = service.settings
    config = uvicorn.Config(
        partial(serve_request, service),
        interface="asgi3",
        lifespan="off",
        ws="none",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_IDLE_S,
    )
    config.load()
    server = uvicorn.Server(config)
    listener = await asyncio.get_running_loop().create_server(
        lambda: Connection(server, service.settings),
        *(settings.host, settings.port),
        backlog=_BACKLOG,
        reuse_port=reuse_port or None,
    )
    clock = asyncio.create_task(server.main_loop())  # writes the header Date
    try:
        yield listener.sockets[0].getsockname()[:2]
    finally:
        listener.close()
        await _drain(server.server_state, settings.drain_s)
        clock.cancel()


async def _drain(state: ServerState, timeout_s: float) -> None:
    """Close idle connections at once, the others after their response or the timeout."""
    for connection in tuple(state.connections):
        connection.shutdown()
    if state.tasks:
        await asyncio.wait(tuple(state.tasks), timeout=timeout_s)
    for connection in tuple(state.connections):
        connection.transport.close()
    if state.tasks:
        await asyncio.wait(tuple(state.tasks), timeout=_ABORT_S)
