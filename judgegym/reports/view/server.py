"""The page over all runs of a folder, on this machine until a signal: the list, the report of a run, comparisons.

Guarantees: requests are answered only if they are addressed to this machine by one of its own names, so that a foreign
page that has made its name point here (DNS rebinding) reads nothing; nothing is answered to a page of another site, no
method but GET; and no response may be framed, sniffed, cached or read across origins.

A run is addressed by a digest of its path in the folder, and only what is found in the folder has one: no address leads
out of it. The folder is read again for each request.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from judgegym.engine.terminal.output import say
from judgegym.judges.config.extras import missing_extra
from judgegym.llm.errors import SettingsError, UserError
from judgegym.reports.compare.comparison import NotComparableError, compare_runs
from judgegym.reports.compare.conditions import CONDITIONS, Condition
from judgegym.reports.compare.page import html
from judgegym.reports.document import base_style, document, render
from judgegym.reports.results.folder import paths_in, runs_in
from judgegym.reports.results.run import SavedRun
from judgegym.reports.view.entries import entry_of, id_of
from judgegym.reports.view.reports import Reports, in_thread, policy_of, report_policy

MOST_COMPARED = 20
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_UNFRAMED = "frame-ancestors 'none'"
NOTHING = f"default-src 'none'; base-uri 'none'; form-action 'none'; {_UNFRAMED}"
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")
_STATIC = Path(__file__).parent / "static"
_CHUNK = 1 << 18
_PATIENCE_S = 0.2
"""How long responses that are being sent may take to their end."""


async def serve(folder: Path, host: str, port: int, *, opens: bool) -> int:
    """Serve the page over a folder; return the exit code of the signal that stopped it.

    Raises:
        RunDirectoryError: there is no such folder.
        SettingsError: the port cannot be had.
    """
    paths_in(folder)
    stopped: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.put_nowait, number)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = f"{os.strerror(error.errno or 0)}; --port=0 takes a free port"
        raise SettingsError(f"cannot listen at --host={host} --port={port}: {reason}") from error
    with tempfile.TemporaryDirectory(prefix="judgegym-view-", ignore_cleanup_errors=True) as made:
        application, logger = app_of(folder, Reports(Path(made))), logging.getLogger(__name__)
        # A request that is no HTTP is answered with 400, and is no fault of the server.
        logger.addFilter(lambda each: each.exc_info is None or not isinstance(each.exc_info[1], HttpProcessingError))
        runner = web.AppRunner(application, access_log=None, logger=logger, shutdown_timeout=_PATIENCE_S)
        await runner.setup()
        await web.SockSite(runner, listener).start()
        url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
        say(f"the runs in {folder} are at {url} (Ctrl-C stops)")
        sys.stdout.flush()
        if opens:
            webbrowser.open(url)
        try:
            return 128 + await stopped.get()
        finally:
            await runner.cleanup()


def app_of(folder: Path, reports: Reports) -> web.Application:
    """The application over a folder."""
    views = _Views(folder, reports)
    app = web.Application(middlewares=[_guard, _told])
    app.on_response_prepare.append(_add_headers)
    app.router.add_get("/", views.overview, allow_head=False)
    app.router.add_get("/run/{id:[0-9a-f]{16}}", views.report, allow_head=False)
    app.router.add_get("/compare", views.compare, allow_head=False)
    return app


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what is not a request of this machine's own browser."""
    if request.method != "GET":
        return web.Response(status=405, text="only GET is answered here\n", headers={"Allow": "GET"})
    hosts = request.headers.getall("Host", [])
    if len(hosts) != 1 or not is_own_name(hosts[0]):
        return web.Response(status=403, text="this server answers only to 127.0.0.1, [::1] and localhost\n")
    if request.headers.get("Sec-Fetch-Site") not in (None, "none", "same-origin", "same-site"):
        return web.Response(status=403, text="this server answers no page of another site\n")
    return await handler(request)


def is_own_name(host: str) -> bool:
    """Whether a Host header names the loopback; any port may follow, because tunnels have others."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match["name"].strip("[]").lower()
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Add the headers before a response is sent; to one without a policy of its own one that allows nothing."""
    response.headers.update(HEADERS)
    response.headers.setdefault("Content-Security-Policy", NOTHING)


@web.middleware
async def _told(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Say in a page why there is none of what was asked for."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return _problem(404, "There is nothing here", request.path)
    except UserError as error:
        reason = str(error)
    except ConnectionError:  # the browser has left
        raise
    except OSError as error:
        reason = f"{error.filename or ''}: {error.strerror}"
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        reason = str(missing)
    return _problem(500, "This cannot be shown", reason)


def _problem(
    status: int,
    title: str,
    reason: str,
    *,
    keys: Sequence[str] = (),
    across: Sequence[Condition] = (),
    label: str = "",
) -> web.Response:
    """Why there is nothing to show, and a way to compare the runs `keys` across conditions all the same."""
    body = render("view_problem.html", title=title, reason=reason, across=across, keys=keys, label=label)
    return _html_response(_page(title, body), status)


def _page(title: str, body: str, scripts: Sequence[str] = ()) -> bytes:
    styles = [base_style(), (_STATIC / "view.css").read_text("utf-8")]
    return b"".join(document(title=title, body=body, styles=styles, scripts=scripts, sends_forms=True))


def _html_response(page: bytes, status: int = 200) -> web.Response:
    """A document that was just made, with its own policy as a header, too."""
    headers = {"Content-Security-Policy": f"{policy_of(page)}; {_UNFRAMED}"}
    return web.Response(body=page, status=status, content_type="text/html", charset="utf-8", headers=headers)


class _Views:
    def __init__(self, folder: Path, reports: Reports) -> None:
        self._folder = folder
        self._reports = reports
        self._one = asyncio.Semaphore(1)

    async def overview(self, request: web.Request) -> web.StreamResponse:
        """The list of all runs."""
        return _html_response(await in_thread(self._listing))

    def _listing(self) -> bytes:
        entries = [entry_of(run, self._folder) for run in runs_in(self._folder)]
        body = render("view.html", folder=str(self._folder), entries=entries)
        return _page("Runs", body, [(_STATIC / "view.js").read_text("utf-8")])

    async def report(self, request: web.Request) -> web.StreamResponse:
        """The report of a run."""
        key = request.match_info["id"]
        path = (await in_thread(self._paths)).get(key)
        if path is None:
            return _problem(404, "There is no such run", "It is not in the folder any more.")
        return await _sent(request, await self._reports.of(key, path))

    async def compare(self, request: web.Request) -> web.StreamResponse:
        """The comparison of runs; the oldest is the reference."""
        keys = [*dict.fromkeys(request.query.getall("run", []))]
        across = [condition for condition in CONDITIONS if condition in request.query.getall("across", [])]
        if not 2 <= len(keys) <= MOST_COMPARED:
            return _problem(400, "Nothing to compare", f"Tick two runs or more, at most {MOST_COMPARED}.")
        paths = await in_thread(self._paths)
        if any(key not in paths or paths[key].is_file() for key in keys):
            return _problem(404, "There is no such run", "A ticked run is not in the folder any more.")
        try:
            async with self._one:
                return _html_response(await in_thread(lambda: self._compared([paths[key] for key in keys], across)))
        except NotComparableError as error:
            differ = error.conditions
            label = " and ".join("judges" if condition == "judge" else condition for condition in differ)
            allowed = [*dict.fromkeys([*across, *differ])] if differ else []
            title = "These runs are not compared"
            return _problem(409, title, str(error), keys=keys, across=allowed, label=label)

    def _compared(self, paths: list[Path], across: list[Condition]) -> bytes:
        runs = sorted(map(SavedRun.open, paths), key=lambda run: (run.date, run.path.name))
        return b"".join(html(compare_runs(runs, across=across), self._link))

    def _link(self, run: str, uid: str | None) -> str:
        address = f"/run/{id_of(Path(run), self._folder)}"
        return address if uid is None else f"{address}#{quote(uid, safe='', errors='replace')}"

    def _paths(self) -> Mapping[str, Path]:
        return {id_of(path, self._folder): path for path in paths_in(self._folder)}


async def _sent(request: web.Request, report: Path) -> web.StreamResponse:
    """Send a file that may be large, part by part."""
    with report.open("rb") as file:
        response = web.StreamResponse(headers={"Content-Security-Policy": f"{report_policy()}; {_UNFRAMED}"})
        response.content_type, response.charset = "text/html", "utf-8"
        await response.prepare(request)
        with suppress(ConnectionError):  # the browser has left
            while part := await asyncio.to_thread(file.read, _CHUNK):
                await response.write(part)
            await response.write_eof()
    return response
