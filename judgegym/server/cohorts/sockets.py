"""Cohorts kept by the workers of one machine: each listens at a unix-domain socket for the responses of the others.

The sockets are in a directory that only this user may enter, and lead to nothing but `join`. They have no port, and no
route of the server leads to them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from aiohttp import web

from judgegym.server.cohorts.contract import Cohorts, Connect
from judgegym.server.cohorts.links import ROUTE, SocketOwners, socket_path
from judgegym.server.cohorts.messages import Frame, Kind, frame_bytes, frame_of, member_of, result_bytes
from judgegym.server.cohorts.shared import SharedCohorts
from judgegym.server.errors import OverloadError
from judgegym.server.workers import WorkerPlace

logger = logging.getLogger(__name__)

_AT_ONCE_S = 0.01
"""The time to close connections in; aiohttp takes 0 for no limit."""


def connecting(
    place: WorkerPlace, *, deadline_s: float, drain_timeout_s: float, is_stopping: Callable[[], bool]
) -> Connect:
    """What opens the cohorts of all workers.

    Args:
        place: of this worker.
        deadline_s: seconds within which a caller must have its result.
        drain_timeout_s: seconds for which the members of others are waited for at the end.
        is_stopping: whether this worker stops.
    """

    @asynccontextmanager
    async def connected(own: Cohorts) -> AsyncIterator[Cohorts]:
        path = socket_path(place.directory, place.number)
        async with SocketOwners(place.directory) as owners, kept_for_others(own, path, drain_timeout_s=drain_timeout_s):
            mine = (place.number, own)
            yield SharedCohorts(owners, place.count, deadline_s=deadline_s, own=mine, is_stopping=is_stopping)

    return connected


@asynccontextmanager
async def kept_for_others(cohorts: Cohorts, path: Path, *, drain_timeout_s: float) -> AsyncIterator[None]:
    """Let other workers join the cohorts of this one; at the end, those that wait for a result get it.

    Raises:
        OSError: the socket cannot be made.
    """
    keeper = _Keeper(cohorts)
    application = web.Application()
    application.router.add_get(ROUTE, keeper.serve)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_AT_ONCE_S)
    await runner.setup()
    try:
        site = web.UnixSite(runner, str(path))
        await site.start()  # replaces what a worker that was killed has left there
        yield
        await site.stop()
        await keeper.drained(drain_timeout_s)
    finally:
        await runner.cleanup()


class _Keeper:
    """Joins the responses of other workers."""

    def __init__(self, cohorts: Cohorts) -> None:
        self._cohorts = cohorts
        self._joining: set[asyncio.Task[None]] = set()

    async def drained(self, timeout_s: float) -> None:
        """Wait until nobody waits for a result."""
        ends = asyncio.get_running_loop().time() + timeout_s
        while self._joining and (remaining := ends - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(self._joining, timeout=remaining)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serve the connection of a worker until it ends; then those whose responses came over it have left."""
        socket = web.WebSocketResponse(max_msg_size=0, compress=False)  # the worker that sends has checked the size
        await socket.prepare(request)
        joining: dict[int, asyncio.Task[None]] = {}
        try:
            async for message in socket:
                frame = frame_of(message.data)
                if frame.kind is Kind.MEMBER:
                    task = joining[frame.number] = asyncio.create_task(self._answer(socket, frame))
                    self._joining.add(task)
                    task.add_done_callback(self._joining.discard)
                    task.add_done_callback(partial(joining.pop, frame.number))
                elif frame.number in joining:
                    joining[frame.number].cancel()
        finally:
            for task in joining.values():
                task.cancel()
        return socket

    async def _answer(self, socket: web.WebSocketResponse, frame: Frame) -> None:
        try:
            member = member_of(frame.body)
            result = await self._cohorts.join(member.mount, member.item, member.spent_s)
            answer = Frame(frame.number, Kind.RESULT, result_bytes(result))
        except OverloadError:
            answer = Frame(frame.number, Kind.OVERLOADED)
        except Exception:  # boundary of a request: any error fails this member alone
            logger.exception("a member of a cohort failed")
            answer = Frame(frame.number, Kind.FAULT)
        with contextlib.suppress(ConnectionError):
            await socket.send_bytes(frame_bytes(answer))
