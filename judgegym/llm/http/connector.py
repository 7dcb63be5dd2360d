"""The connection pool: connections with unsolicited bytes are never reused.

HTTP/1.1 matches responses to requests only by their order. If a server or proxy sends a second
response, the next request on the connection would take it for its own, and so would all later ones.
Such a connection is closed before it is reused, and its host gets a new connection for each request
from then on.

A busy client reuses a connection at once, so that a second response would arrive while the next
request is in flight, and could not be distinguished from that request's own. Therefore a connection
rests for `_REST_S` after each of a host's first responses, and after every tenth of the later ones;
others take its place. A connection rests only if fewer than `_MOST_RESTING` are resting or in use,
or fewer than `_LEAST_RESTING` are resting.
"""

from __future__ import annotations

import logging
import select
from collections import Counter
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection

logger = logging.getLogger(__name__)

_REST_S = 0.1
_FIRST_ANSWERS = 100
_ONE_OF = 10
_MOST_RESTING, _LEAST_RESTING = 128, 16


class CheckedConnector(aiohttp.TCPConnector):
    """A TCP connector that checks each idle connection before it is reused."""

    def __init__(self) -> None:
        """Start without connections; their number is not limited."""
        super().__init__(limit=0)
        self._used: WeakSet[Any] = WeakSet()
        self._sends_unasked: set[ConnectionKey] = set()
        self._answers: Counter[ConnectionKey] = Counter()
        self._resting: dict[Any, ConnectionKey] = {}

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Connection:
        """Return a connection: an idle one on which nothing has arrived, or a new one."""
        key = req.connection_key
        for resting, host_key in self._resting.items():
            if resting.should_close and resting.is_connected():  # something has come on it
                self._distrust(host_key)
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None
            if protocol not in self._used:
                self._used.add(protocol)
                return connection
            if protocol.should_close:
                self._distrust(key)
            elif key not in self._sends_unasked and not _is_readable(connection):
                return connection
            connection.close()

    def _release(self, key: ConnectionKey, protocol: Any, *, should_close: bool = False) -> None:
        """Take a connection back, perhaps after a rest.

        aiohttp calls this when a response has been read.
        """
        if should_close or protocol.should_close or key in self._sends_unasked or self._closed:
            super()._release(key, protocol, should_close=True)
            return
        self._answers[key] += 1
        count = self._answers[key]
        in_use = len(self._acquired) - len(self._resting)
        if len(self._resting) >= max(_LEAST_RESTING, _MOST_RESTING - in_use) or (
            count > _FIRST_ANSWERS and count % _ONE_OF
        ):
            super()._release(key, protocol)
            return
        self._resting[protocol] = key
        self._loop.call_later(_REST_S, self._rested, key, protocol)

    def _rested(self, key: ConnectionKey, protocol: Any) -> None:
        if protocol.should_close and protocol.is_connected():
            self._distrust(key)
        del self._resting[protocol]
        super()._release(key, protocol, should_close=key in self._sends_unasked)

    def _distrust(self, key: ConnectionKey) -> None:
        """Note that a host sends unsolicited bytes, and stop reusing its connections."""
        if key not in self._sends_unasked:
            self._sends_unasked.add(key)
            logger.warning(
                "%s:%s sent a response that belongs to no request: its connections are no longer "
                "reused",
                key.host,
                key.port,
            )


def _is_readable(connection: Connection) -> bool:
    """Return whether the event loop has unread bytes or an end of stream on a connection."""
    transport = connection.transport
    socket = None
    if transport is not None:
        socket = transport.get_extra_info("socket")
    if socket is None or not hasattr(select, "poll"):  # no poll on Windows
        return False
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
