"""The addresses: the list, the report of a run, the comparison of several.

A run is addressed by a digest of its path in the folder, and only what is found in the folder has one: no address leads
out of it. The folder is read again for each request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

from aiohttp import web
from aiohttp.typedefs import Handler

from judgegym.judges.config.extras import missing_extra
from judgegym.llm.errors import UserError
from judgegym.reports.compare.comparison import ComparedRun
from judgegym.reports.compare.conditions import CONDITIONS, Condition
from judgegym.reports.compare.page import html
from judgegym.reports.compare.runs import NotComparableError, compare_runs
from judgegym.reports.results.folder import paths_in, runs_in
from judgegym.reports.results.run import SavedRun
from judgegym.reports.view.entries import entry_of, id_of
from judgegym.reports.view.guard import add_headers, guard, html_response, policy_header
from judgegym.reports.view.pages import listing, problem, refused
from judgegym.reports.view.reports import Reports, report_policy
from judgegym.reports.view.threads import in_thread

MOST_COMPARED = 20
_CHUNK = 1 << 18


def app_of(folder: Path, reports: Reports) -> web.Application:
    """The application over a folder."""
    views = _Views(folder, reports)
    app = web.Application(middlewares=[guard, _told])
    app.on_response_prepare.append(add_headers)
    app.router.add_get("/", views.overview, allow_head=False)
    app.router.add_get("/run/{id:[0-9a-f]{16}}", views.report, allow_head=False)
    app.router.add_get("/compare", views.compare, allow_head=False)
    return app


@web.middleware
async def _told(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Say in a page why there is none of what was asked for."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return html_response(problem("There is nothing here", request.path), 404)
    except UserError as error:
        return html_response(problem("This cannot be shown", str(error)), 500)
    except OSError as error:
        if isinstance(error, ConnectionError):  # the browser has left
            raise
        return html_response(problem("This cannot be shown", f"{error.filename or ''}: {error.strerror}"), 500)
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        return html_response(problem("This cannot be shown", str(missing)), 500)


class _Views:
    def __init__(self, folder: Path, reports: Reports) -> None:
        self._folder = folder
        self._reports = reports
        self._one = asyncio.Semaphore(1)

    async def overview(self, request: web.Request) -> web.StreamResponse:
        """The list of all runs."""
        return html_response(await in_thread(self._listing))

    def _listing(self) -> bytes:
        return listing(str(self._folder), [entry_of(run, self._folder) for run in runs_in(self._folder)])

    async def report(self, request: web.Request) -> web.StreamResponse:
        """The report of a run."""
        key = request.match_info["id"]
        path = (await in_thread(self._paths)).get(key)
        if path is None:
            return html_response(problem("There is no such run", "It is not in the folder any more."), 404)
        return await _sent(request, await self._reports.of(key, path))

    async def compare(self, request: web.Request) -> web.StreamResponse:
        """The comparison of runs; the oldest is the reference."""
        keys = [*dict.fromkeys(request.query.getall("run", []))]
        across = [condition for condition in CONDITIONS if condition in request.query.getall("across", [])]
        if not 2 <= len(keys) <= MOST_COMPARED:
            return html_response(problem("Nothing to compare", f"Tick two runs or more, at most {MOST_COMPARED}."), 400)
        paths = await in_thread(self._paths)
        if any(key not in paths or paths[key].is_file() for key in keys):
            return html_response(problem("There is no such run", "A ticked run is not in the folder any more."), 404)
        try:
            async with self._one:
                return html_response(await in_thread(partial(self._compare, [paths[key] for key in keys], across)))
        except NotComparableError as error:
            return html_response(refused(str(error), keys, across, error.conditions), 409)

    def _compare(self, paths: list[Path], across: list[Condition]) -> bytes:
        runs = sorted(map(SavedRun.open, paths), key=lambda run: (run.date, run.path.name))
        return b"".join(html(compare_runs(runs, across=across), self._link))

    def _link(self, run: ComparedRun, uid: str | None) -> str:
        address = f"/run/{id_of(Path(run.path), self._folder)}"
        return address if uid is None else f"{address}#{quote(uid, safe='', errors='replace')}"

    def _paths(self) -> Mapping[str, Path]:
        return {id_of(path, self._folder): path for path in paths_in(self._folder)}


async def _sent(request: web.Request, report: Path) -> web.StreamResponse:
    """Send a file that may be large, part by part."""
    with report.open("rb") as file:
        response = web.StreamResponse(headers=policy_header(report_policy()))
        response.content_type, response.charset = "text/html", "utf-8"
        await response.prepare(request)
        with suppress(ConnectionError):  # the browser has left
            while part := await asyncio.to_thread(file.read, _CHUNK):
                await response.write(part)
            await response.write_eof()
    return response
