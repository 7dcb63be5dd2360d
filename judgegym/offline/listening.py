"""The listening socket of a stand-in, which can be away for a while as if the process had ended."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from judgegym.offline.lifetime import BACKLOG


class Listener:
    """Serves a runner's routes on a socket; its port stays its own while nothing listens."""

    def __init__(self, runner: web.AppRunner) -> None:
        """Set up for `serving`."""
        self._runner = runner
        self._site: web.SockSite | None = None
        self._address: socket.socket | None = None
        self._returning: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve on this socket while the block lasts."""
        await self._runner.setup()
        try:
            await self._listen(listener)
            yield
        finally:
            if self._returning is not None:
                self._returning.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._returning
            await self._runner.cleanup()
            if self._address is not None:
                self._address.close()

    async def _listen(self, listener: socket.socket) -> None:
        self._address = listener
        self._site = web.SockSite(self._runner, listener, backlog=BACKLOG)
        await self._site.start()

    @property
    def is_away(self) -> bool:
        """Whether nothing listens; what is in progress has no answer."""
        return self._returning is not None and not self._returning.done()

    def go_away(self, seconds: float) -> None:
        """Refuse connections for some seconds, and reset those that there are; nothing if it is away already."""
        if not self.is_away:
            self._returning = asyncio.create_task(self._away(seconds))

    async def _away(self, seconds: float) -> None:
        assert self._site is not None and self._address is not None  # a request has arrived
        family, address = self._address.family, self._address.getsockname()
        await self._site.stop()
        bound = socket.socket(family)  # bound and not listening: connections are refused, and the port is kept
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        self._address = bound
        assert self._runner.server is not None  # it is set up
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(seconds)
        await self._listen(bound)
