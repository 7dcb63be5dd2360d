"""The reward server as an ASGI application, for uvicorn and for mounting in another application.

    JUDGEGYM_CONFIG=reward_server_rubric uvicorn judgegym.server.asgi:app

    reward_server = RewardServer(judge="rubric", judge_base_url="http://localhost:8000/v1")
    api = FastAPI(lifespan=reward_server.lifespan)
    api.mount("/rewards", reward_server)

The service is opened by the server's lifespan, or by the first request where a parent forwards none; it is closed at
the end of the lifespan, or else with the event loop. Several processes of an ASGI server cannot find each other: with
judges that gather single responses (`group_size`) run one, or `python -m judgegym.server --workers`. Connections are
the server's: their number, the time for a head and the end of requests in flight are uvicorn's settings. Everything
else is as with `python -m judgegym.server`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeAlias
from urllib.parse import quote

from judgegym.judges.config.sources import LoadedSettings, load
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.server.answers import RequestError
from judgegym.server.cohorts.register import Connect
from judgegym.server.cohorts.shared import check_one_process
from judgegym.server.operation import JsonLines
from judgegym.server.service.bodies import ServerRequest, ServerResponse, TooLargeError, without_token
from judgegym.server.service.handlers import Service, opened
from judgegym.server.service.respond import Respond, failed_response, request_id, responder
from judgegym.server.settings import RewardServerSettings, gathering, with_preset

logger = logging.getLogger(__name__)

Message: TypeAlias = MutableMapping[str, Any]  # ASGI's own types
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class RewardServer:
    """The ASGI application: a service that is opened when it is needed."""

    def __init__(self, **settings: JSON) -> None:
        """Prepare; nothing is read or opened.

        Args:
            settings: those of `python -m judgegym.server` by name, such as `config`. They come before environment
                variables and the YAML file.
        """
        self._arguments = [f"--{name}={_word(value)}" for name, value in settings.items()]
        self._opening: _OpenService | None = None

    def load(self) -> LoadedSettings[RewardServerSettings]:
        """Read the settings.

        Raises:
            SettingsError: one is wrong.
        """
        return load(RewardServerSettings, self._arguments, prog="judgegym.server.asgi", reshape=with_preset)

    @asynccontextmanager
    async def lifespan(self, parent: object = None) -> AsyncIterator[None]:
        """Open while the context lasts: `FastAPI(lifespan=reward_server.lifespan)`.

        Raises:
            SettingsError: a setting is wrong.
        """
        opening = self._opened()
        await opening.respond()
        try:
            yield
        finally:
            await opening.close()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a lifespan or a request; a websocket is refused."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    def connecting(self, settings: RewardServerSettings) -> Connect:
        """What opens the cohorts of all processes: this one is alone.

        Raises:
            SettingsError: it is not, and judges gather single responses.
        """
        check_one_process(gathering(settings.judges()))
        return nullcontext

    async def service(self) -> Service:
        """The service, once it is open.

        Raises:
            SettingsError: a setting is wrong.
        """
        return await self._opened().service()

    def _opened(self) -> _OpenService:
        if self._opening is None or not self._opening.is_usable:
            self._opening = _OpenService(self.load, self.connecting)
        return self._opening

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        _log()
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except (SettingsError, OSError) as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            respond = await self._opened().respond()
        except SettingsError as error:
            logger.error("the reward server cannot be opened: %s", error)
            respond = _not_opened
        await answer(respond, scope, receive, send)


async def _not_opened(request: ServerRequest) -> ServerResponse:
    reason = "the settings of the reward server are wrong; its log says which"
    return failed_response(RequestError(500, "internal", reason), request_id(request))


async def answer(respond: Respond, scope: Message, receive: Receive, send: Send) -> None:
    """Answer an HTTP request; it is cancelled if its caller leaves after the body."""
    # The first of several headers of one name counts.
    headers = {_text(name): _text(value) for name, value in reversed(scope["headers"])}
    address = (scope.get("server") or (None,))[0]
    body = IncomingBody(receive)
    request = ServerRequest(scope["method"], _path(scope), headers, body, address)
    scope["path"] = without_token(scope["path"])  # the server's access log shows it
    try:
        response = await respond(request)
    except (ConnectionResetError, asyncio.CancelledError):
        if not body.has_left:
            raise
        return  # the cancellation is that of `IncomingBody`: it ends here
    finally:
        body.close()
    pairs = [*response.headers.items(), ("Content-Length", str(len(response.body)))]
    if response.closes:
        pairs.append(("Connection", "close"))
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    await send({"type": "http.response.body", "body": response.body if scope["method"] != "HEAD" else b""})


class IncomingBody:
    """The body of a request. The task that reads it also notices that the caller leaves.

    Attributes:
        has_left: the caller has left; the task that answers is cancelled.
    """

    def __init__(self, receive: Receive) -> None:
        """Read nothing yet.

        Args:
            receive: ASGI's function that returns the next message.
        """
        self._receive = receive
        self._answering = asyncio.current_task()
        self._reading: asyncio.Task[None] | None = None
        self._is_too_large = False
        self.has_left = False

    async def read(self, limit: int, timeout_s: float) -> bytes:
        """Return the whole body; see `Body`.

        A body that is too large is received to its end, within the time, and not kept: a caller that still sends reads
        no response.

        Raises:
            asyncio.TimeoutError: it is late.
            TooLargeError: it is larger than `limit`.
            ConnectionResetError: the caller has left.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[bytes | type[Exception]] = loop.create_future()
        self._reading = loop.create_task(self._collect(limit, arrived))
        timer = loop.call_later(timeout_s, _settle, arrived, asyncio.TimeoutError)
        try:
            outcome = await arrived
        finally:
            timer.cancel()
        if isinstance(outcome, bytes):
            return outcome
        raise TooLargeError if self._is_too_large else outcome

    def close(self) -> None:
        """Read no further."""
        if self._reading is not None:
            self._reading.cancel()

    async def _collect(self, limit: int, arrived: asyncio.Future[bytes | type[Exception]]) -> None:
        data, is_more = bytearray(), True
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


def _settle(arrived: asyncio.Future[bytes | type[Exception]], outcome: bytes | type[Exception]) -> None:
    if not arrived.done():
        arrived.set_result(outcome)


class _OpenService:
    """A service in one event loop, held open by a task of its own: contexts are entered and left by the same task."""

    def __init__(
        self,
        read: Callable[[], LoadedSettings[RewardServerSettings]],
        connecting: Callable[[RewardServerSettings], Connect],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[tuple[Service, Respond]] = self._loop.create_future()
        self._closing = asyncio.Event()
        self._holding = self._loop.create_task(self._hold(read, connecting))

    @property
    def is_usable(self) -> bool:
        """Whether it is open or being opened, in the loop that runs."""
        return not self._holding.done() and self._loop is asyncio.get_running_loop()

    async def respond(self) -> Respond:
        """The function that answers, when the service is open.

        Raises:
            SettingsError: a setting is wrong.
        """
        return (await asyncio.shield(self._ready))[1]

    async def service(self) -> Service:
        """The service, when it is open.

        Raises:
            SettingsError: a setting is wrong.
        """
        return (await asyncio.shield(self._ready))[0]

    async def close(self) -> None:
        """Close the service."""
        self._closing.set()
        await asyncio.wait([self._holding])

    async def _hold(
        self,
        read: Callable[[], LoadedSettings[RewardServerSettings]],
        connecting: Callable[[RewardServerSettings], Connect],
    ) -> None:
        try:
            loaded = read()
            async with opened(loaded, connect=connecting(loaded.settings)) as service:
                self._ready.set_result((service, responder(service)))
                await self._closing.wait()
                service.drain()
        except Exception as error:  # told to all that wait for it
            if self._ready.done():
                raise
            self._ready.set_exception(error)


def _path(scope: Message) -> str:
    """The path below the place at which the application is mounted, percent-encoded."""
    raw, root = scope.get("raw_path"), scope.get("root_path", "")
    path = raw.decode("latin-1").partition("?")[0] if raw else quote(scope["path"])
    prefix = quote(root)
    return path[len(prefix) :] if prefix and path.startswith(prefix) else path


def _text(header: bytes) -> str:
    return header.decode("utf-8", "surrogateescape")


def _word(value: JSON) -> str:
    return value if isinstance(value, str) else wire.dumps(value).decode()


def _log() -> None:
    """Log requests to standard error, unless the process has its own place for them."""
    ours = logging.getLogger("judgegym")
    if not ours.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines())
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)


app = RewardServer()
