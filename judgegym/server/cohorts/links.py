"""Connections to the other workers: one to each, over which all responses go that are on their way to their cohorts.

Guarantees: who leaves here leaves there, too; a connection that breaks ends the wait of everyone whose response went
over it, and the next response opens a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import defaultdict
from pathlib import Path

import aiohttp

from judgegym.judges.scorers.items import ResponseScore
from judgegym.server.cohorts.messages import Frame, Kind, Member, frame_bytes, frame_of, member_bytes, result_of
from judgegym.server.cohorts.shared import OwnerAwayError
from judgegym.server.errors import OverloadError

ROUTE = "/join"


def socket_path(directory: Path, worker: int) -> Path:
    """Where a worker listens."""
    return directory / f"{worker}.sock"


class SocketOwners:
    """The other workers. Use as an async context manager."""

    def __init__(self, directory: Path) -> None:
        """Prepare; connections are made when they are needed.

        Args:
            directory: of the workers' sockets.
        """
        self._directory = directory
        self._links: dict[int, _Link] = {}
        self._opening: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> SocketOwners:
        """Nothing is opened before it is needed."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close all connections."""
        await asyncio.gather(*(link.close() for link in self._links.values()))

    async def ask(self, owner: int, member: Member) -> ResponseScore:
        """The result of a member, from the worker that keeps its cohort.

        Raises:
            OwnerAwayError: the worker cannot be reached, or has died before it answered.
            OverloadError: too many judgments are pending there.
        """
        answer = await (await self._link(owner)).answer(member_bytes(member))
        if answer.kind is Kind.OVERLOADED:
            raise OverloadError
        if answer.kind is not Kind.RESULT:
            raise RuntimeError(f"worker {owner} failed to judge a cohort; its log says why")
        return result_of(answer.body)

    async def _link(self, owner: int) -> _Link:
        link = self._links.get(owner)
        if link is not None and link.is_open:
            return link
        async with self._opening[owner]:
            link = self._links.get(owner)
            if link is None or not link.is_open:
                link = self._links[owner] = await _opened(socket_path(self._directory, owner))
            return link


async def _opened(path: Path) -> _Link:
    """A connection to the worker that listens there.

    Raises:
        OwnerAwayError: nobody does.
    """
    session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path)))
    try:
        return _Link(session, await session.ws_connect(f"http://worker{ROUTE}", max_msg_size=0))
    except BaseException as error:  # any error, and a caller that leaves: close the session, then raise it
        await session.close()
        if isinstance(error, aiohttp.ClientError):
            raise OwnerAwayError(taken=False) from error
        raise


class _Link:
    """A connection that is open, or was."""

    def __init__(self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self._session, self._socket = session, socket
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._reading = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        """Whether responses can go over it."""
        return not self._reading.done() and not self._socket.closed

    async def answer(self, body: bytes) -> Frame:
        """What the other worker says to a member.

        Raises:
            OwnerAwayError: the connection has broken.
        """
        number = next(self._numbers)
        answered: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            await self._socket.send_bytes(frame_bytes(Frame(number, Kind.MEMBER, body)))
            return await answered
        except ConnectionError as error:
            raise OwnerAwayError(taken=True) from error
        except asyncio.CancelledError:
            # Not waited for: the other worker may hang.
            leaving = asyncio.create_task(self._leave(number))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            raise
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """Close it."""
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def _leave(self, number: int) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(frame_bytes(Frame(number, Kind.LEAVES)))

    async def _read(self) -> None:
        """Hand each answer to the one who waits for it, until the connection breaks."""
        try:
            async for message in self._socket:
                frame = frame_of(message.data)
                answered = self._waiting.get(frame.number)
                if answered is not None and not answered.done():
                    answered.set_result(frame)
        finally:
            for answered in self._waiting.values():
                if not answered.done():
                    answered.set_exception(OwnerAwayError(taken=True))
            for leaving in self._leaving:
                leaving.cancel()
            await self._session.close()
