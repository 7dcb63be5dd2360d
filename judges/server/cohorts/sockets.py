"""Cohorts kept by the workers of one machine: each listens at a unix-domain socket for the responses of the others.

The sockets are in a directory that only this user may enter, and lead to nothing but `join`. They have no port, and no
route of the server leads to them. A connection is one response on its way, so that it ends with its caller.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from judges.server.cohorts.contract import Cohorts, Connect
from judges.server.cohorts.messages import Member, member_bytes, member_of, result_bytes, result_of
from judges.server.cohorts.shared import OwnerAwayError, SharedCohorts
from judges.server.errors import OverloadError
from judges.server.items import ResponseScore
from judges.server.workers import WorkerPlace

logger = logging.getLogger(__name__)

_JOIN = "/join"
_OVERLOADED = 503
_IDLE_S = 60.0
_OWNERS_IDLE_S = 10 * _IDLE_S  # the asking side closes idle connections: one that it takes up is open
_NO_LIMIT = 0
_AT_ONCE_S = 0.01
"""The least time to end requests in: aiohttp takes 0 for no limit."""


def socket_path(directory: Path, worker: int) -> Path:
    """Where a worker listens."""
    return directory / f"{worker}.sock"


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
        async with (
            SocketOwners(place.directory) as owners,
            kept_for_others(own, path, shutdown_timeout=drain_timeout_s),
        ):
            mine = (place.number, own)
            yield SharedCohorts(owners, place.count, deadline_s=deadline_s, own=mine, is_stopping=is_stopping)

    return connected


@asynccontextmanager
async def kept_for_others(cohorts: Cohorts, path: Path, *, shutdown_timeout: float) -> AsyncIterator[None]:
    """Let other workers join the cohorts of this one; at the end, those that wait for a result get it.

    Raises:
        OSError: the socket cannot be made.
    """

    async def join(request: web.Request) -> web.Response:
        member = member_of(await request.read())
        try:
            result = await cohorts.join(member.mount, member.item, member.spent_s)
        except OverloadError:
            return web.Response(status=_OVERLOADED)
        return web.Response(body=result_bytes(result))

    application = web.Application(client_max_size=_NO_LIMIT)  # the worker that sends has checked the size
    application.router.add_post(_JOIN, join)
    runner = web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=True,  # who leaves a worker leaves the cohort
        keepalive_timeout=_OWNERS_IDLE_S,
        shutdown_timeout=max(shutdown_timeout, _AT_ONCE_S),
    )
    await runner.setup()
    try:
        await web.UnixSite(runner, str(path)).start()  # replaces what a worker that was killed has left there
        yield
    finally:
        await runner.cleanup()


class SocketOwners:
    """The other workers. Use as an async context manager."""

    def __init__(self, directory: Path) -> None:
        """Prepare; connections are made when they are needed, and used again."""
        self._directory = directory
        self._sessions: dict[int, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> SocketOwners:
        """Nothing is opened before it is needed."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()

    async def ask(self, owner: int, member: Member) -> ResponseScore:
        """The result of a member, from the worker that keeps its cohort.

        Raises:
            OwnerAwayError: the worker cannot be reached, or has died before it answered.
            OverloadError: too many judgments are pending there.
        """
        try:
            async with self._session(owner).post(f"http://worker{_JOIN}", data=member_bytes(member)) as response:
                status, body = response.status, await response.read()
        except aiohttp.ClientConnectorError as error:
            raise OwnerAwayError(taken=False) from error
        except aiohttp.ClientError as error:
            raise OwnerAwayError(taken=True) from error
        if status == _OVERLOADED:
            raise OverloadError
        if status != 200:
            raise RuntimeError(f"worker {owner} failed to judge a cohort; its log says why")
        return result_of(body)

    def _session(self, owner: int) -> aiohttp.ClientSession:
        session = self._sessions.get(owner)
        if session is None:
            path = str(socket_path(self._directory, owner))
            connector = aiohttp.UnixConnector(path, limit=_NO_LIMIT, keepalive_timeout=_IDLE_S)
            session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
            self._sessions[owner] = session
        return session
