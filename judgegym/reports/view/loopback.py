"""An HTTP server for this machine's own browser, until a signal.

Guarantees: requests are answered only if they are addressed to a loopback name, so that a foreign
page whose name points here (DNS rebinding) reads nothing. Requests of pages of other sites, and
methods other than GET and POST, are refused. No response may be framed, sniffed, cached or read
across origins.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import sys
import webbrowser
from ipaddress import ip_address

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from judgegym.engine.terminal.output import say
from judgegym.llm.errors import SettingsError
from judgegym.reports.view.reports import read_content_policy

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
UNFRAMED = "frame-ancestors 'none'"
DENY_ALL_POLICY = f"default-src 'none'; base-uri 'none'; form-action 'none'; {UNFRAMED}"
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")
_METHODS = ("GET", "POST")
_PATIENCE_S = 0.2
"""How long responses in progress may take at shutdown."""


async def serve_on_loopback(
    app: web.Application,
    host: str,
    port: int,
    announcement: str,
    *,
    path: str = "",
    opens: bool = False,
) -> int:
    """Serve an application; return the exit code of the signal that stopped it.

    Args:
        app: an application of `loopback_app`.
        host: an address of this machine.
        port: the port; 0 takes a free one.
        announcement: printed once the server listens, with its address for `{url}`.
        path: the path of the address, after the slash.
        opens: open the address in the browser.

    Raises:
        SettingsError: the port is not available.
    """
    stopped: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.put_nowait, number)
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        reason = f"{os.strerror(error.errno or 0)}; --port=0 takes a free port"
        raise SettingsError(f"cannot listen at --host={host} --port={port}: {reason}") from error
    logger = logging.getLogger(__name__)
    # A request that is not HTTP is answered with 400, and is not logged as an error.
    logger.addFilter(
        lambda record: (
            record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)
        )
    )
    runner = web.AppRunner(app, access_log=None, logger=logger, shutdown_timeout=_PATIENCE_S)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/{path}"
    say(announcement.replace("{url}", url))
    sys.stdout.flush()
    if opens:
        webbrowser.open(url)
    try:
        return 128 + await stopped.get()
    finally:
        await runner.cleanup()


def loopback_app(*middlewares: Middleware) -> web.Application:
    """Return an application that answers only this machine's own browser."""
    app = web.Application(middlewares=[_guard, *middlewares])
    app.on_response_prepare.append(_add_headers)
    return app


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests that do not come from this machine's own browser."""
    if request.method not in _METHODS:
        allowed = ", ".join(_METHODS)
        return web.Response(
            status=405, text=f"only {allowed} is answered here\n", headers={"Allow": allowed}
        )
    hosts = request.headers.getall("Host", [])
    if len(hosts) != 1 or not is_own_name(hosts[0]):
        return web.Response(
            status=403, text="this server answers only to 127.0.0.1, [::1] and localhost\n"
        )
    if request.headers.get("Sec-Fetch-Site") not in (None, "none", "same-origin", "same-site"):
        return web.Response(status=403, text="this server answers no page of another site\n")
    return await handler(request)


def is_own_name(host: str) -> bool:
    """Return whether a Host header names the loopback; any port is allowed, because of tunnels."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match["name"].strip("[]").lower()
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Add the headers to a response, and a policy that allows nothing unless it has its own."""
    response.headers.update(HEADERS)
    response.headers.setdefault("Content-Security-Policy", DENY_ALL_POLICY)


def html_response(page: bytes, status: int = 200) -> web.Response:
    """Return a response with a document, and the document's policy as a header."""
    headers = {"Content-Security-Policy": f"{read_content_policy(page)}; {UNFRAMED}"}
    return web.Response(
        body=page, status=status, content_type="text/html", charset="utf-8", headers=headers
    )
