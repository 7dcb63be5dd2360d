"""The providers' hosts, as a command meets them that names none of ours.

    async with Providers(stand_in_url, folder) as providers:
        Started("script.py", "evaluate", cwd=path, env=providers.variables, fresh=True)    # asks api.openai.com

A proxy that the environment names takes `CONNECT` to any host and leads to one server with a certificate for the
providers' names, which passes requests on to the stand-in.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import aiohttp
import trustme
from aiohttp import web

from tests.messages import MessagesEndpoint

HOSTS = ("api.openai.com", "api.anthropic.com")
KEYS = {"OPENAI_API_KEY": "sk-of-the-policy", "ANTHROPIC_API_KEY": "sk-of-the-judge"}


class Providers:
    """Plays the hosts of the providers.

    Attributes:
        requests: host, key and model of each request.
    """

    def __init__(self, stand_in_url: str, folder: Path) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self._stand_in_url = stand_in_url
        self._authority = trustme.CA()
        self._certificates = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self._certificates))
        self._stack = contextlib.AsyncExitStack()

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment of a command: the proxy, whom to trust, and the providers' keys."""
        proxy = f"http://127.0.0.1:{self._proxy_port}"
        return {
            "HTTPS_PROXY": proxy,
            "https_proxy": proxy,
            "NO_PROXY": "127.0.0.1,localhost",
            "SSL_CERT_FILE": str(self._certificates),
            **KEYS,
        }

    async def __aenter__(self) -> Providers:
        self._session = await self._stack.enter_async_context(aiohttp.ClientSession())
        self._messages = await self._stack.enter_async_context(MessagesEndpoint(self._stand_in_url))
        self._server_port = await self._serve()
        proxy = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self._stack.callback(proxy.close)
        self._proxy_port = proxy.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _serve(self) -> int:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", self._pass_on)
        app.router.add_post("/v1/messages", self._pass_on)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert(*HOSTS).configure_cert(context)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port: int = runner.addresses[0][1]
        return port

    async def _pass_on(self, request: web.Request) -> web.Response:
        body = await request.json()
        key = request.headers.get("x-api-key") or request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.requests.append((request.host.partition(":")[0], key, body["model"]))
        base = self._messages.base_url if request.path == "/v1/messages" else self._stand_in_url
        headers = {name: value for name, value in request.headers.items() if name.startswith("anthropic-")}
        url = base.removesuffix("/v1") + request.path
        async with self._session.post(url, json=body, headers=headers) as response:
            answer = await response.read()
            return web.Response(status=response.status, body=answer, content_type="application/json")

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lead one `CONNECT` to the server, whatever its host."""
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"CONNECT "), head
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(ConnectionError):
        writer.close()
