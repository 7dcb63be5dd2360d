"""The pool of connections of chat clients: none is reused on which bytes came that no request had asked for.

HTTP/1.1 tells answers apart by their order alone. A server or proxy that sends a second answer leaves it on the
connection, where the next request would take it for its own, and so would all after it. Such a connection is closed
before it is reused, and its host, once it has done so, is given a new connection for each request: an answer that comes
while another request is in flight cannot be told from that request's own.
"""

from __future__ import annotations

import logging
import select
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection

logger = logging.getLogger(__name__)


class CheckedConnector(aiohttp.TCPConnector):
    """A TCP connector that checks each kept connection before it is used again."""

    def __init__(self) -> None:
        """Begin without a connection; their number has no limit."""
        super().__init__(limit=0)
        self._kept: WeakSet[Any] = WeakSet()
        self._sends_unasked: set[ConnectionKey] = set()

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Connection:
        """Return a connection for a request: a kept one on which nothing has come since, or else a new one."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None
            if protocol not in self._kept:
                self._kept.add(protocol)
                if req.connection_key in self._sends_unasked:
                    protocol.force_close()
                return connection
            if protocol.should_close:
                self._note(req.connection_key)
            elif req.connection_key not in self._sends_unasked and not _is_readable(connection):
                return connection
            connection.close()

    def _note(self, key: ConnectionKey) -> None:
        if key not in self._sends_unasked:
            self._sends_unasked.add(key)
            logger.warning(
                "%s:%s has sent an answer that no request had asked for: its connections are not reused from now on",
                key.host,
                key.port,
            )


def _is_readable(connection: Connection) -> bool:
    """Whether there is something to read that the event loop has not read yet: unasked bytes, or the end."""
    transport = connection.transport
    socket = None if transport is None else transport.get_extra_info("socket")
    if socket is None or not hasattr(select, "poll"):  # no poll on Windows
        return False
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
