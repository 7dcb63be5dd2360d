"""The reward server as an ASGI application, for uvicorn and for mounting in another application.

    JUDGEGYM_CONFIG=reward_server_rubric uvicorn judgegym.server.asgi:app

    reward_server = RewardServer(judge="rubric", judge_base_url="http://localhost:8000/v1")
    api = FastAPI(lifespan=reward_server.lifespan)
    api.mount("/rewards", reward_server)

The server's lifespan opens the service, or the first request if the parent application forwards no
lifespan; it is closed at the end of the lifespan, or else with the event loop. Cohorts
(`group_size`), budgets and monitors need one process. Connections belong to the ASGI server: their
number, the timeout of heads and draining are uvicorn's settings. Everything else is as with `python
-m judgegym.server`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from judgegym.judges.config.sources import LoadedSettings, load
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.server.answers import RequestError
from judgegym.server.operation import log_to_stderr
from judgegym.server.request import Message, Receive, Send, ServerRequest, redact_token
from judgegym.server.service import Service, error_response, open_service
from judgegym.server.settings import RewardServerSettings, add_preset
from judgegym.server.workers import count_server_processes

logger = logging.getLogger(__name__)


class RewardServer:
    """The ASGI application: a service that is opened on demand."""

    def __init__(self, **settings: JSON) -> None:
        """Prepare; nothing is read or opened.

        Args:
            settings: settings of `python -m judgegym.server` by name, such as `config`. They
                override environment variables and the YAML file.
        """
        self._arguments = [f"--{name}=" + _format_argument(settings[name]) for name in settings]
        self._opening: _OpenService | None = None

    def load(self) -> LoadedSettings[RewardServerSettings]:
        """Read the settings.

        Raises:
            SettingsError: a setting is wrong.
        """
        return load(
            RewardServerSettings, self._arguments, prog="judgegym.server.asgi", reshape=add_preset
        )

    @asynccontextmanager
    async def lifespan(self, parent: object = None) -> AsyncIterator[None]:
        """Keep the service open in a context: `FastAPI(lifespan=reward_server.lifespan)`.

        Raises:
            SettingsError: a setting is wrong.
        """
        await self.service()
        opening = self._opening
        try:
            yield
        finally:
            if opening is not None:
                opening.closing.set()
                await asyncio.wait([opening.task])

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a lifespan or a request; refuse a websocket."""
        if scope["type"] == "http":
            try:
                service: Service | None = await self.service()
            except SettingsError as error:
                logger.error("the reward server cannot be opened: %s", error)
                service = None
            await serve_request(service, scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def service(self) -> Service:
        """Return the service, opened in the running event loop.

        Raises:
            SettingsError: a setting is wrong.
        """
        opening = self._opening
        if opening is None or opening.task.done() or opening.loop is not asyncio.get_running_loop():
            opening = self._opening = _OpenService(self)
        return await asyncio.shield(opening.ready)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        if not logging.getLogger(
            "judgegym"
        ).hasHandlers():  # otherwise the process has its own logging
            log_to_stderr("judgegym")
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except (SettingsError, OSError) as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})


class _OpenService:
    """A service in one event loop, held open by a task that enters and leaves its contexts."""

    def __init__(self, server: RewardServer) -> None:
        self.loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Service] = self.loop.create_future()
        self.closing = asyncio.Event()
        self.task = self.loop.create_task(self._hold(server))

    async def _hold(self, server: RewardServer) -> None:
        try:
            loaded = server.load()
            loaded.settings.check_processes(count_server_processes())
            async with open_service(loaded) as service:
                self.ready.set_result(service)
                await self.closing.wait()
                service.drain()
        except Exception as error:  # raised in all waiting requests
            if self.ready.done():
                raise
            self.ready.set_exception(error)


async def serve_request(
    service: Service | None, scope: Message, receive: Receive, send: Send
) -> None:
    """Respond to an HTTP request; cancel it if its caller disconnects after the body.

    Without a service the settings are wrong, which the response says.
    """
    request = ServerRequest(scope, receive)
    scope["path"] = redact_token(scope["path"])  # the server's access log shows it
    try:
        if service is None:
            reason = "the settings of the reward server are wrong; its log says which"
            response = error_response(RequestError(500, "internal", reason), request.identity)
        else:
            response = await service.respond(request)
    except (ConnectionResetError, asyncio.CancelledError):
        if not request.has_left:
            raise
        return  # only the request was cancelled
    finally:
        request.close()
    await response.send(send, has_body=request.method != "HEAD")


def _format_argument(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return wire.dumps(value).decode()


app = RewardServer()
