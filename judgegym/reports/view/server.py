"""Serve the page over all runs of a folder: the list, reports, and comparisons.

A run is addressed by a digest of its path in the folder. Only runs found in the folder have one, so
no address leads out of it. The folder is read again for each request.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from aiohttp import web
from aiohttp.typedefs import Handler

from judgegym.judges.config.extras import find_missing_extra
from judgegym.llm.errors import UserError
from judgegym.reports.compare.comparison import NotComparableError, compare_runs
from judgegym.reports.compare.conditions import CONDITIONS, Condition
from judgegym.reports.compare.page import write_page
from judgegym.reports.document import TEMPLATES, document, render
from judgegym.reports.results.folder import find_run_paths, is_training_run, list_runs
from judgegym.reports.results.run import SavedRun
from judgegym.reports.view.entries import make_entry, make_run_id
from judgegym.reports.view.loopback import UNFRAMED, html_response, loopback_app, serve_on_loopback
from judgegym.reports.view.reports import Reports, in_thread, report_policy
from judgegym.reports.view.training import TrainingViews

MOST_COMPARED = 20
_STATIC = Path(__file__).parent / "static"
_CHUNK = 1 << 18


async def serve(folder: Path, host: str, port: int, *, opens: bool) -> int:
    """Serve the page over a folder; return the exit code of the signal that stopped it.

    Raises:
        RunDirectoryError: there is no such folder.
        SettingsError: the port is not available.
    """
    find_run_paths(folder)
    with tempfile.TemporaryDirectory(
        prefix="judgegym-view-", ignore_cleanup_errors=True
    ) as temporary:
        announcement = f"the runs in {folder} are at {{url}} (Ctrl-C stops)"
        return await serve_on_loopback(
            make_app(folder, Reports(Path(temporary))), host, port, announcement, opens=opens
        )


def make_app(folder: Path, reports: Reports) -> web.Application:
    """Return the application over a folder."""
    views = _Views(folder, reports)
    app = loopback_app(_handle_errors)
    app.router.add_get("/", views.overview, allow_head=False)
    app.router.add_get("/run/{id:[0-9a-f]{16}}", views.report, allow_head=False)
    app.router.add_get("/compare", views.compare, allow_head=False)
    app.add_routes(views.training.routes())
    return app


@web.middleware
async def _handle_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors into a page that says what is wrong."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return _problem_response(404, "There is nothing here", request.path)
    except UserError as error:
        reason = str(error)
    except ConnectionError:  # the browser has left
        raise
    except OSError as error:
        reason = f"{error.filename or ''}: {error.strerror}"
    except ModuleNotFoundError as error:
        missing = find_missing_extra(error)
        if missing is None:
            raise
        reason = str(missing)
    return _problem_response(500, "This cannot be shown", reason)


def _problem_response(
    status: int,
    title: str,
    reason: str,
    *,
    keys: Sequence[str] = (),
    across: Sequence[Condition] = (),
    label: str = "",
) -> web.Response:
    """Return a page about a problem, with a way to compare the runs `keys` across conditions."""
    body = render(
        TEMPLATES / "view_problem.html",
        title=title,
        reason=reason,
        across=across,
        keys=keys,
        label=label,
    )
    return html_response(_make_page(title, body), status)


def _make_page(title: str, body: str, scripts: Sequence[Path] = ()) -> bytes:
    styles = [_STATIC / "view.css"]
    return b"".join(
        document(title=title, body=body, styles=styles, scripts=scripts, sends_forms=True)
    )


class _Views:
    def __init__(self, folder: Path, reports: Reports) -> None:
        self._folder = folder
        self._reports = reports
        self._comparison_slot = asyncio.Semaphore(1)
        self.training = TrainingViews(self._paths)

    async def overview(self, request: web.Request) -> web.StreamResponse:
        """Return the list of all runs."""
        return html_response(await in_thread(self._overview_page))

    def _overview_page(self) -> bytes:
        entries = [make_entry(run, self._folder) for run in list_runs(self._folder)]
        body = render(TEMPLATES / "view.html", folder=str(self._folder), entries=entries)
        return _make_page("Runs", body, [_STATIC / "view.js"])

    async def report(self, request: web.Request) -> web.StreamResponse:
        """Return the report of a run."""
        key = request.match_info["id"]
        path = (await in_thread(self._paths)).get(key)
        if path is None:
            return _problem_response(
                404, "There is no such run", "It is not in the folder any more."
            )
        if is_training_run(path):
            return await self.training.page(key, path)
        return await _send_file(request, await self._reports.report_path(key, path))

    async def compare(self, request: web.Request) -> web.StreamResponse:
        """Return the comparison of runs; the oldest is the reference."""
        keys = [*dict.fromkeys(request.query.getall("run", []))]
        across = [
            condition for condition in CONDITIONS if condition in request.query.getall("across", [])
        ]
        if not 2 <= len(keys) <= MOST_COMPARED:
            return _problem_response(
                400, "Nothing to compare", f"Tick two runs or more, at most {MOST_COMPARED}."
            )
        paths = await in_thread(self._paths)
        if any(key not in paths or paths[key].is_file() for key in keys):
            return _problem_response(
                404, "There is no such run", "A ticked run is not in the folder any more."
            )
        try:
            async with self._comparison_slot:
                return html_response(
                    await in_thread(
                        lambda: self._comparison_page([paths[key] for key in keys], across)
                    )
                )
        except NotComparableError as error:
            differ = error.conditions
            label = " and ".join(
                "judges" if condition == "judge" else condition for condition in differ
            )
            allowed = [*dict.fromkeys([*across, *differ])] if differ else []
            title = "These runs are not compared"
            return _problem_response(409, title, str(error), keys=keys, across=allowed, label=label)

    def _comparison_page(self, paths: list[Path], across: list[Condition]) -> bytes:
        runs = sorted(map(SavedRun.open, paths), key=lambda run: (run.date, run.path.name))
        return b"".join(write_page(compare_runs(runs, across=across), self._link))

    def _link(self, run: str, uid: str | None) -> str:
        address = f"/run/{make_run_id(Path(run), self._folder)}"
        return address if uid is None else f"{address}#{quote(uid, safe='', errors='replace')}"

    def _paths(self) -> Mapping[str, Path]:
        return {make_run_id(path, self._folder): path for path in find_run_paths(self._folder)}


async def _send_file(request: web.Request, report: Path) -> web.StreamResponse:
    """Send a file, which may be large, in parts."""
    with report.open("rb") as file:
        response = web.StreamResponse(
            headers={"Content-Security-Policy": f"{report_policy()}; {UNFRAMED}"}
        )
        response.content_type, response.charset = "text/html", "utf-8"
        await response.prepare(request)
        with suppress(ConnectionError):  # the browser has left
            while part := await asyncio.to_thread(file.read, _CHUNK):
                await response.write(part)
            await response.write_eof()
    return response
